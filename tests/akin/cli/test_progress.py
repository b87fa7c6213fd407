"""Tests of progress output: few lines in a log, with rate and time left, and bars on a terminal."""

import io
import itertools

from rich.console import Console

from akin.cli.progress import show_progress


def test_a_log_gets_a_line_now_and_then() -> None:
    """Without a terminal, a stage prints a line at its start, at intervals, and at its end."""
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


def test_a_stage_that_begins_again_is_shown_again() -> None:
    """A stage of the same name that starts again is printed again, and the end of a stage is printed once."""
    clock = itertools.count(0.0, 10.0)
    out = io.StringIO()
    with show_progress(Console(file=out, width=200), clock=lambda: next(clock)) as show:
        for done, total in ((0, 100), (100, 100), (100, 100), (0, 400), (100, 400), (400, 400)):
            show("Encoding", done, total)
    assert [
        "Encoding: 0 of 100",
        "Encoding: 100 of 100 (10.0/s, 0 s left)",
        "Encoding: 0 of 400",
        "Encoding: 400 of 400 (20.0/s, 0 s left)",
    ] == out.getvalue().splitlines()


def test_a_bar_that_begins_again_is_set_back() -> None:
    """On a terminal, the bar of a stage that starts again is reset."""
    out = io.StringIO()
    with show_progress(Console(file=out, width=200, force_terminal=True)) as show:
        for done, total in ((100, 100), (30, 100)):
            show("Encoding", done, total)
    (shown,) = [line for line in out.getvalue().splitlines() if "30/100" in line][-1:]
    assert "-:--:--" in shown
