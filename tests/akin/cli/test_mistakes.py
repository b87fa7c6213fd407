"""What a command says where it is given what cannot be meant, and that nothing is lost by it."""

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from akin import Collection
from tests.support.builds import DEMO_CORPUS, many_papers, write_corpus
from tests.support.commands import flat, run


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A collection of ten papers."""
    data = tmp_path / "data"
    corpus = write_corpus(tmp_path / "ten.jsonl", many_papers(10))
    run("index", corpus, "--data", data, "--encoder", "hashing", "--device", "cpu")
    return data


def cut_short(path: Path, content: bytes) -> Path:
    """Write but the first of ``content``."""
    path.write_bytes(content[: len(content) * 2 // 3])
    return path


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_file_that_breaks_off_replaces_no_collection(tmp_path: Path, index: Path, ending: str) -> None:
    """With --replace it is an error; what is added of it is said not to be all."""
    lines = "".join(f"{json.dumps({**paper, 'id': f'new{i}'})}\n" for i, paper in enumerate(many_papers(60)))
    content = gzip.compress(lines.encode()) if ending.endswith("gz") else lines.encode()
    cut = cut_short(tmp_path / f"cut.{ending}", content)
    shown = flat(run("index", cut, "--data", index, "--replace", "--device", "cpu", status=1))
    assert "nothing was replaced. Fetch the file again" in shown
    with Collection(index, device="cpu") as collection:
        assert 10 == len(collection)
    shown = flat(run("index", cut, "--data", index, "--device", "cpu"))
    assert f"{cut} was not read to its end: line " in shown
    assert "Skipped" not in shown
