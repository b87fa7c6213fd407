"""The base of the approximate FAISS backends: FAISS proposes rows, the stored vectors rank them.

A subclass defines how the index is made and the effort of a search; everything else is here. A search uses
the exact scan instead if that is cheaper (a narrow filter, few rows, a large ``k``), or if FAISS proposed
fewer rows than there are: so ``k = n_rows`` returns every allowed row.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from jaxtyping import Bool, Float32, Int64

from indexer.index.backends.nearest import (
    best_of_owners,
    best_together,
    check_rows,
    check_search,
    nearest_rows,
    rescored,
    rescored_together,
)
from indexer.index.vector_index import OnRows
from models.errors import DeviceFullError, SnapshotCorruptError, StorageError
from models.types import Hits, ignore_progress

# Up to this many rows an exact scan always wins: 1.6 ms for 8 queries of 384 numbers on one core.
ALWAYS_SCAN_ROWS = 10_000
# Rows added to FAISS in one call; bounds the float32 copy (24 MiB at 384 numbers per row).
ADD_ROWS = 16_384
# The cost of re-scoring a row for one query, in rows of an exact scan (which reads each row once for all
# queries, and in order): 80 to 160 ns instead of 20 ns at 384 numbers per row.
RESCORING_COST = 5
# For queries searched together, each is searched with the effort for its share of the rows wanted (a third if
# there are more than three queries), and may propose this many times the rows wanted. Measured:
# docs/decisions/retrieval/candidates.md.
_MAX_SHARES, _PROPOSED_BY_ONE = 3, 2
_SEED = 20_240_611
AddRows = Callable[[Float32[np.ndarray, "n dim"]], object]


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of one search: ``breadth`` (lists probed, or graph nodes kept), rows to propose, and cost.

    ``cost_rows`` is the number of rows that an exact scan would compare in the same time.
    """

    breadth: int
    n_proposed: int
    cost_rows: int

    def times(self, share: float, *, k: int) -> "Effort":
        """Return the effort multiplied by ``share``, proposing at least ``k`` rows."""
        if share == 1:
            return self
        breadth, n_proposed = (math.ceil(share * each) for each in (self.breadth, self.n_proposed))
        return Effort(breadth, max(n_proposed, k), round(share * self.cost_rows))


class FaissCodesIndex(ABC):
    """An approximate index: compressed codes in FAISS, full-precision rows for the scores.

    ``effort`` multiplies the usual effort of a search: `akin tune` chooses it for a collection.
    """

    effort = 1.0
    # Whether the proposals for queries searched together are ranked as one list.
    _pools = True

    def __init__(self, rows: np.ndarray, index: Any) -> None:
        self._rows = rows
        self._index = index

    @staticmethod
    @abstractmethod
    def _untrained(n_rows: int, dim: int) -> Any:
        """Return an empty FAISS index for ``n_rows`` rows of ``dim`` numbers."""

    @abstractmethod
    def usual_effort(self, k: int, n_allowed: int) -> Effort:
        """Return the usual effort to find ``k`` of ``n_allowed`` rows."""

    @staticmethod
    @abstractmethod
    def _parameters(breadth: int, selector: Any) -> Any:
        """Return FAISS's search parameters for one call; a search changes nothing in the index itself."""

    @staticmethod
    @abstractmethod
    def _n_training(n_rows: int) -> int:
        """Return the number of rows to train the index on."""

    @classmethod
    def build(
        cls, rows: np.ndarray, *, device: str = "auto", on_rows: OnRows = ignore_progress
    ) -> "FaissCodesIndex":
        """See ``VectorIndex``; on a CPU, the same rows give the same bytes with any number of threads."""
        check_rows(rows)
        on_rows(0)
        index = cls._untrained(*rows.shape)
        add = cls._trained(index, _sample(rows, cls._n_training(len(rows))), device)
        for start in range(0, len(rows), ADD_ROWS):
            add(np.asarray(rows[start : start + ADD_ROWS], np.float32))
            on_rows(index.ntotal)
        return cls(rows, index)

    @classmethod
    def _trained(cls, index: Any, sample: Float32[np.ndarray, "n dim"], device: str) -> AddRows:
        """Train ``index``, and return the function that adds rows to it."""
        index.train(sample)
        added: AddRows = index.add
        return added

    @classmethod
    def load(
        cls, path: Path, rows: np.ndarray, *, device: str = "auto", effort: float = 1.0
    ) -> "FaissCodesIndex":
        """See ``VectorIndex``; the file must not change while the index is used.

        Raises:
            SnapshotCorruptError: if FAISS cannot read the file, or it contains another index.
        """
        check_rows(rows)
        remedy = "restore the snapshot or index the corpus again"
        try:
            # Memory-mapped, except the codes of FAISS's fast scan, which it copies.
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:  # MemoryError: a damaged length field
            raise SnapshotCorruptError(f"{path}: FAISS cannot read this index; {remedy}") from error
        expected = cls._untrained(*rows.shape)
        if type(index) is not type(expected) or (index.ntotal, index.d) != rows.shape:
            raise SnapshotCorruptError(
                f"{path}: holds {type(index).__name__} of {index.ntotal} rows of {index.d} numbers; expected "
                f"{type(expected).__name__} of {rows.shape[0]} rows of {rows.shape[1]}; {remedy}"
            )
        placed = cls._placed(rows, index, device)
        placed.effort = effort
        return placed

    @classmethod
    def _placed(cls, rows: np.ndarray, index: Any, device: str) -> "FaissCodesIndex":
        """Return the loaded index, placed on the device where it is searched; here always the CPU."""
        return cls(rows, index)

    def save(self, path: Path) -> None:
        """See ``VectorIndex``; raises StorageError if the file cannot be written."""
        try:
            faiss.write_index(self._index, str(path))
        except RuntimeError as error:
            raise StorageError(
                f"{path}: the index cannot be written; check that the folder exists and is writable, and "
                "that the disk has room"
            ) from error

    def search(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        k: int,
        *,
        together: bool = False,
        allowed: Bool[np.ndarray, " n_rows"] | None = None,
    ) -> Hits:
        """See ``VectorIndex``."""
        if together and not self._pools:
            return best_together(self.search(queries, k, allowed=allowed))
        check_search(self._rows, queries, k=k, allowed=allowed)
        n_allowed = len(self._rows) if allowed is None else int(np.count_nonzero(allowed))
        n_shares = min(len(queries), _MAX_SHARES) if together else 1
        own_k = math.ceil(k / n_shares)
        effort = self.usual_effort(own_k, max(n_allowed, 1)).times(self.effort, k=own_k)
        if scan_is_cheaper(n_allowed, effort.cost_rows):
            return nearest_rows(self._rows, queries, k=k, together=together, allowed=allowed)
        n_proposed = max(effort.n_proposed, _PROPOSED_BY_ONE * k if together else 0)
        try:
            squared, proposed = self._proposed(queries, effort.breadth, min(n_proposed, n_allowed), allowed)
        except DeviceFullError:
            return nearest_rows(self._rows, queries, k=k, together=together, allowed=allowed)
        if together:
            nearest = _nearest_of(squared, proposed, max(n_shares * effort.n_proposed, n_proposed))
            hits = rescored_together(self._rows, queries, proposed=nearest, k=k)
            short = bool(hits.rows[0, -1] < 0)
            return nearest_rows(self._rows, queries, k=k, together=True, allowed=allowed) if short else hits
        hits = rescored(self._rows, queries, proposed=proposed, k=k)
        return self._completed(hits, queries, allowed=allowed)

    def _proposed(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        breadth: int,
        n: int,
        allowed: Bool[np.ndarray, " n_rows"] | None,
    ) -> tuple[Float32[np.ndarray, "n_query n"], Int64[np.ndarray, "n_query n"]]:
        """Return FAISS's squared distances and row numbers, padded with -1; raises DeviceFullError."""
        parameters = self._parameters(breadth, selector(allowed))
        with _one_thread():
            found: tuple[np.ndarray, np.ndarray] = self._index.search(queries, n, params=parameters)
            return found

    def _completed(
        self,
        hits: Hits,
        queries: Float32[np.ndarray, "n_query dim"],
        *,
        allowed: Bool[np.ndarray, " n_rows"] | None,
    ) -> Hits:
        """Scan all rows for the queries with too few hits, for example if a filter leaves few near them."""
        short = hits.rows[:, -1] < 0
        if not short.any():
            return hits
        scanned = nearest_rows(self._rows, queries[short], k=hits.rows.shape[1], allowed=allowed)
        numbers, scores = hits.rows.copy(), hits.scores.copy()
        numbers[short], scores[short] = scanned.rows, scanned.scores
        return Hits(numbers, scores)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let FAISS use one thread: concurrent requests that each use every core only wait for each other."""
    n_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(n_threads)


def scan_is_cheaper(n_allowed: int, cost_rows: int = 0) -> bool:
    """Return whether comparing every allowed row is faster than a FAISS search, which costs ``cost_rows``."""
    return n_allowed <= max(ALWAYS_SCAN_ROWS, cost_rows)


def selector(allowed: Bool[np.ndarray, " n_rows"] | None) -> Any:
    """Return FAISS's selector of the allowed rows: one bit per row, lowest first; ``None`` allows all."""
    return None if allowed is None else faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))


def _nearest_of(
    squared: Float32[np.ndarray, "n_query n_proposed"],
    proposed: Int64[np.ndarray, "n_query n_proposed"],
    n: int,
) -> Int64[np.ndarray, " n_nearest"]:
    """Return the ``n`` rows of the nearest proposals for any query, each once, in row order."""
    found = proposed >= 0
    rows, _ = best_of_owners(proposed[found], squared[found])
    return np.sort(rows[:n])


def only_allowed(
    numbers: Int64[np.ndarray, "n_query n"], allowed: Bool[np.ndarray, " n_rows"] | None
) -> Int64[np.ndarray, "n_query n"]:
    """Return ``numbers`` with -1 for rows that are not allowed, for indexes without selectors."""
    return numbers if allowed is None else np.where(allowed[numbers], numbers, -1)


def _sample(rows: np.ndarray, n: int) -> Float32[np.ndarray, "n dim"]:
    """Return ``n`` rows drawn without replacement, with a fixed seed; rows repeat if there are fewer.

    k-means refuses fewer points than centroids; repeated points do not move the centroids.
    """
    if n >= len(rows):
        return np.resize(np.asarray(rows, np.float32), (n, rows.shape[1]))
    chosen = np.sort(np.random.default_rng(_SEED).choice(len(rows), n, replace=False))
    sample = np.empty((n, rows.shape[1]), np.float32)
    for start in range(0, n, ADD_ROWS):
        sample[start : start + ADD_ROWS] = rows[chosen[start : start + ADD_ROWS]]
    return sample
