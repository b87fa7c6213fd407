"""Lines of the device table: the device's figure, the processor's, and how far the results differ."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from benchmarks.suite.rows import in_turns

TOP: Final = 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to measure: enough to fill a GPU, or little enough for a minute on a processor."""

    abstracts: int
    checked_abstracts: int
    rows: int
    listed_rows: int
    dim: int
    papers: int
    checked_papers: int
    rounds: int


OF_GPU: Final = Sizes(8_192, 256, 1_000_000, 500_000, 384, 100_000, 2_000, 5)
OF_CPU: Final = Sizes(32, 8, 30_000, 20_000, 64, 2_000, 500, 2)


@dataclass(frozen=True, slots=True)
class Row:
    """``value`` in ``unit`` on the device, and ``on_cpu`` on this machine's processor if it was measured.

    ``error`` is the largest difference from the processor's result, at most ``allowed``; ``top`` is the share
    of the best 20 that agrees, at least ``least_top``.
    """

    what: str
    unit: str
    value: float
    on_cpu: float | None = None
    error: float | None = None
    allowed: float | None = None
    top: float | None = None
    least_top: float = 1.0
    note: str = ""

    @property
    def is_right(self) -> bool | None:
        """Whether the result agrees with the processor's; ``None`` if it is not compared."""
        if self.error is None and self.top is None:
            return None
        close = self.error is None or self.allowed is None or self.error <= self.allowed
        return close and (self.top is None or self.top >= self.least_top)


def seconds(action: Callable[[], object], rounds: int) -> float:
    """Return the median seconds of ``rounds`` calls after a warm-up; ``action`` must wait for the device."""
    return median(in_turns({"it": action}, rounds=rounds)["it"])


def same_top(expected: np.ndarray, found: np.ndarray) -> float:
    """Return the share of the first 20 of each line of ``expected`` among the first 20 of ``found``."""
    pairs = zip(np.atleast_2d(expected)[:, :TOP], np.atleast_2d(found)[:, :TOP], strict=True)
    return float(np.mean([len(np.intersect1d(own, other)) / len(own) for own, other in pairs]))
