"""Tests that every benchmark command in the documentation names a benchmark and valid arguments."""

import argparse
import importlib
import re
import shlex
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.builds import ROOT
from tests.support.documents import PAGES

LINES = sorted(
    {
        " ".join(line.split())
        for page in (*PAGES, *(ROOT / "models" / "weights").glob("*.md"))
        for line in re.findall(r"python -m benchmarks[^`\n;]*(?:\n[^`\n]+(?=`))?", page.read_text("utf-8"))
    }
)


class Taken(Exception):  # noqa: N818 - no error: a benchmark has read its words
    """Raised when a parser has accepted its arguments."""


def taken_by(line: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a benchmark accepts a line; placeholder words stand for files."""
    module, *words = shlex.split(line.replace("[", "").replace("]", ""))[2:]
    monkeypatch.setattr(sys, "argv", [module, *words])
    parse = argparse.ArgumentParser.parse_args

    def parsed(parser: argparse.ArgumentParser, *given: object) -> NoReturn:
        parse(parser)
        raise Taken

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    name = module if "." in module else f"{module}.__main__"
    try:
        importlib.import_module(name).main()
    except Taken:
        return True
    except SystemExit:
        return False
    return not words


@pytest.mark.parametrize("line", [line for line in LINES if line != "python -m benchmarks.indexing.scale"])
def test_a_benchmark_takes_what_a_page_types(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser of the benchmark accepts the arguments; without any, the benchmark exists."""
    module, *words = shlex.split(line.replace("[", "").replace("]", ""))[2:]
    if words:
        assert taken_by(line, monkeypatch)
    else:
        assert (ROOT / Path(*module.split("."))).is_dir() or (
            ROOT / f"{module.replace('.', '/')}.py"
        ).exists()


def test_a_line_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown option and a missing file are noticed, and at least 16 lines are found."""
    assert len(LINES) > 15
    assert taken_by("python -m benchmarks.serving.start DATA --rollback", monkeypatch)
    assert not taken_by("python -m benchmarks.serving.start DATA --roll-back", monkeypatch)
    assert not taken_by("python -m benchmarks.relevance.matching CORPUS", monkeypatch)
