"""Tests of the GPU benchmark, on a CPU with tiny sizes; the trials cover its encoding part."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.on_device.rows import Row, Sizes


def test_every_line_is_measured_where_there_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong or left out, and the file has the printed rows."""
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "gpu",
            "--device",
            "cpu",
            "--json",
            str(tmp_path / "results.json"),
            "--only",
            "indexes",
            "transport",
        ],
    )
    assert 0 == gpu.main(Sizes(4, 2, 12_000, 12_000, 16, 60, 30, 1)), capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert {"transport": 6, "indexes": 14} == {name: len(own) for name, own in results["rows"].items()}
    compared = [row["is_right"] for own in results["rows"].values() for row in own]
    assert 10 == compared.count(True)
    assert results["rows"]["indexes"][0]["what"] in capsys.readouterr().out


def test_what_is_wrong_or_missing_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong result, a missing package and too little time all end with status 1."""
    wrong = Row("a sum", "ms", 1.0, error=1e-3, allowed=1e-5)
    assert [False, True, None, False] == [
        wrong.is_right,
        Row("a sum", "ms", 1.0, error=1e-5, allowed=1e-5).is_right,
        Row("a sum", "ms", 1.0).is_right,
        Row("a search", "ms", 1.0, top=0.9).is_right,
    ]
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--only", "indexes"])
    monkeypatch.setattr(gpu, "measured", lambda *_: iter([wrong]))
    assert 1 == gpu.main()
    assert "wrong: ['a sum']" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--only", "indexes", "--minutes", "0"])
    assert 1 == gpu.main()
    assert "no time was left" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--only", "indexes"])
    monkeypatch.setitem(sys.modules, "benchmarks.on_device.indexes", None)
    assert 1 == gpu.main()
    assert "benchmarks.on_device.indexes" in capsys.readouterr().out
