"""How the work of the processor grows with what it is given, on a machine that may do other things too."""

import time
from collections.abc import Callable

_TRIES = 5


def growth(work: Callable[[int], object], small: int, large: int) -> float:
    """How many times as long ``work(large)`` takes as ``work(small)``, each at its best of a few tries.

    A machine that does other things makes some tries longer and none shorter.
    """
    best = dict.fromkeys((small, large), float("inf"))
    for _ in range(_TRIES):
        for size in best:
            started = time.thread_time()
            work(size)
            best[size] = min(best[size], time.thread_time() - started)
    return best[large] / best[small]
