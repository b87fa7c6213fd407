"""A check of how the time of work grows with its input, without limits in seconds."""

import time
from collections.abc import Callable
from typing import TypeVar

_Given = TypeVar("_Given")
_FACTOR = 4
_MAX_RATIO = 8.0  # between the 4 of linear work and the 16 of quadratic work
_ROUNDS = 6
_SURE = 200  # a factor for longer measurements, if the first rounds find growth too fast
_MIN_S = 0.0001  # shorter work is repeated, because of the resolution of the clock


def grows_too_fast(
    work: Callable[[_Given], object], make: Callable[[int], _Given], *, size: int = 1_000
) -> bool:
    """Return whether four times the input takes clearly more than four times as long, in several rounds.

    Only the least CPU time of this thread over all rounds counts, so a busy machine changes nothing.
    """
    small, large = make(size), make(_FACTOR * size)
    least_small = least_large = float("inf")
    for least_s in [_MIN_S] * _ROUNDS + [_SURE * _MIN_S] * _ROUNDS:
        least_small = min(least_small, _seconds(work, small, least_s))
        least_large = min(least_large, _seconds(work, large, least_s))
        if least_large <= _MAX_RATIO * least_small:
            return False
    return True


def _seconds(work: Callable[[_Given], object], given: _Given, least_s: float) -> float:
    """Return the seconds of one run, as the mean over runs that take ``least_s`` together."""
    n_runs, started = 0, time.thread_time()
    while n_runs == 0 or time.thread_time() - started < least_s:
        work(given)
        n_runs += 1
    return (time.thread_time() - started) / n_runs
