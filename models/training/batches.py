"""The examples of each training step, with three ways of mixing sets (semantics 4.3).

A batch depends only on the settings, the seed and the step number, so a resumed run sees the same batches as
an uninterrupted one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from jaxtyping import Int64

from models.errors import InputError


class Mixing(StrEnum):
    """The ways of mixing several training sets."""

    IN_BATCH = "in-batch"  # every batch mixes the sets, by their weights
    ALTERNATING = "alternating"  # every batch is from one set; sets take turns by their weights
    SEQUENTIAL = "sequential"  # one set after the other, each for its share of the steps by its weight


@dataclass(frozen=True, slots=True)
class BatchDraw:
    """The examples of a batch as ``(set, example)`` numbers; the objective is that of the set ``leader``."""

    leader: int
    chosen: tuple[tuple[int, int], ...]


class Schedule:
    """The batches of a run of ``n_steps`` over sets of ``sizes`` examples.

    Each set is repeated in a new random order every time, so that no example comes again before all others of
    its set. ``batch`` counts examples. Raises InputError for weights or sizes that are not above 0 or not
    equally many, and for a ``batch`` or ``n_steps`` below 1.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        *,
        mixing: Mixing,
        batch: int,
        n_steps: int,
        seed: int,
    ) -> None:
        if (
            len(sizes) != len(weights)
            or not all(size > 0 for size in sizes)
            or not all(w > 0 for w in weights)
        ):
            raise InputError(
                f"Sets of {list(sizes)} examples with weights {list(weights)}: expected a weight above 0 and "
                "at least one example for each."
            )
        if batch < 1 or n_steps < 1:
            raise InputError(f"A batch of {batch} and {n_steps} steps: expected at least 1 of each.")
        self._sizes, self._seed, self._batch, self._mixing = tuple(sizes), seed, batch, mixing
        # The number of examples taken from each set before each step.
        self._takes = _takes(np.array(weights, dtype=np.float64), mixing, batch, n_steps)  # (n_steps, n_sets)
        self._before = np.concatenate([np.zeros((1, len(sizes)), dtype=np.int64), self._takes.cumsum(axis=0)])

    def __len__(self) -> int:
        return len(self._takes)

    def __getitem__(self, step: int) -> BatchDraw:
        chosen: list[tuple[int, int]] = []
        for number, n_taken in enumerate(self._takes[step]):
            start = int(self._before[step, number])
            chosen += [(number, self._example(number, start + i)) for i in range(int(n_taken))]
        return BatchDraw(int(self._takes[step].argmax()), tuple(chosen))

    def drawn(self, n_batches: int) -> tuple[int, ...]:
        """Return how many examples the first ``n_batches`` draw from each set, including repeated ones."""
        return tuple(int(count) for count in self._before[n_batches])

    def _example(self, number: int, place: int) -> int:
        lap, position = divmod(place, self._sizes[number])
        return int(_order(self._seed, number, lap, self._sizes[number])[position])


def _takes(
    weights: np.ndarray, mixing: Mixing, batch: int, n_steps: int
) -> Int64[np.ndarray, "n_steps n_sets"]:
    """Return how many examples each step takes from each set."""
    n_sets = len(weights)
    if mixing is Mixing.IN_BATCH:
        leaders = _in_turn(weights, n_steps * batch).reshape(n_steps, batch)
        counts: Int64[np.ndarray, "n_steps n_sets"] = np.eye(n_sets, dtype=np.int64)[leaders].sum(axis=1)
        return counts
    if mixing is Mixing.ALTERNATING:
        leaders = _in_turn(weights, n_steps)
    else:
        ends = np.rint(weights.cumsum() / weights.sum() * n_steps)
        leaders = np.searchsorted(ends, np.arange(n_steps), side="right")
    return np.eye(n_sets, dtype=np.int64)[leaders] * batch


def _in_turn(weights: np.ndarray, n_turns: int) -> Int64[np.ndarray, " n_turns"]:
    """Return the number of the set for each turn: always the set furthest behind its share."""
    shares, taken = weights / weights.sum(), np.zeros(len(weights))
    turns = np.empty(n_turns, dtype=np.int64)
    for turn in range(n_turns):
        turns[turn] = np.argmax((turn + 1) * shares - taken)
        taken[turns[turn]] += 1
    return turns


@lru_cache(maxsize=64)
def _order(seed: int, number: int, lap: int, size: int) -> Int64[np.ndarray, " size"]:
    return np.random.default_rng([seed, number, lap]).permutation(size)
