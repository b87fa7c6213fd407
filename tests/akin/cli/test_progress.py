"""Progress in a log: few lines, with rate and time left."""

import io
import itertools

from rich.console import Console

from akin.cli.progress import show_progress


def test_a_log_gets_a_line_now_and_then() -> None:
    """Away from a terminal a stage is told when it begins, at intervals, and when it ends."""
    clock = itertools.count(0.0, 10.0)
    out = io.StringIO()
    with show_progress(Console(file=out, width=200), clock=lambda: next(clock)) as show:
        for done in (0, 100, 200, 300, 400):
            show("Encoding", done, 400)
    assert [
        "Encoding: 0 of 400",
        "Encoding: 200 of 400 (10.0/s, 20 s left)",
        "Encoding: 400 of 400 (10.0/s, 0 s left)",
    ] == out.getvalue().splitlines()
