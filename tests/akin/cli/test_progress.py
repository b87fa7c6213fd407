"""Progress in a log: few lines, with rate and time left."""

import io

import pytest
from rich.console import Console

from akin.cli import progress
from akin.cli.progress import show_progress


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from a terminal a stage is told when it begins, at intervals, and when it ends."""
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    out = io.StringIO()
    with show_progress(Console(file=out, width=200)) as show:
        for done in (0, 100, 200, 300, 400):
            show("Encoding", done, 400)
    assert [
        "Encoding: 0 of 400",
        "Encoding: 200 of 400 (10.0/s, 20 s left)",
        "Encoding: 400 of 400 (10.0/s, 0 s left)",
    ] == out.getvalue().splitlines()
