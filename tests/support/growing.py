"""How the time that work takes grows with what it is given; no test here depends on seconds."""

import time
from collections.abc import Callable
from typing import TypeVar

_Given = TypeVar("_Given")
_FACTOR = 4
_MOST = 8.0  # between the 4 of work that is linear and the 16 of work that is quadratic
_ROUNDS = 6
_SURE = 200  # times as long each run is measured where the first rounds say yes
_LEAST_S = 0.0001  # what takes less is done several times, or the clock would be what is measured


def grows_too_fast(
    work: Callable[[_Given], object], make: Callable[[int], _Given], *, size: int = 1_000
) -> bool:
    """Whether four times as much takes clearly more than four times as long, in each of several rounds.

    Only processor time of this thread counts, the least of all rounds, so a busy machine changes nothing.
    """
    small, large = make(size), make(_FACTOR * size)
    least_small = least_large = float("inf")
    for least_s in [_LEAST_S] * _ROUNDS + [_SURE * _LEAST_S] * _ROUNDS:
        least_small = min(least_small, _seconds(work, small, least_s))
        least_large = min(least_large, _seconds(work, large, least_s))
        if least_large <= _MOST * least_small:
            return False
    return True


def _seconds(work: Callable[[_Given], object], given: _Given, least_s: float) -> float:
    """Of one run, from as many as take some time."""
    n_runs, started = 0, time.thread_time()
    while n_runs == 0 or time.thread_time() - started < least_s:
        work(given)
        n_runs += 1
    return (time.thread_time() - started) / n_runs
