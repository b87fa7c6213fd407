"""The ``flat`` backend: FAISS compares every row, in memory or on a GPU; same results as ``exact``."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from jaxtyping import Bool, Float32, Int64

from indexer.index.backends.faiss_codes import ADD_ROWS, only_allowed, scan_is_cheaper, selector
from indexer.index.backends.gpu import MAX_SELECTED, Gpu, gpu_for
from indexer.index.backends.nearest import best_together, check_rows, check_search, nearest_rows, rescored
from indexer.index.vector_index import OnRows
from models.errors import DeviceFullError
from models.types import Hits, ignore_progress

# Proposals beyond k in the first attempt, to allow for FAISS's rounding.
_SPARE = 32
# The error of FAISS's squared distances, as a share of the squared norms (from its float32 matrix products).
_RELATIVE_ERROR = 1e-5


class FlatIndex:
    """A copy of all rows in FAISS: as float16 or float32 in main memory, or as float32 in GPU memory.

    On a CPU, ``exact`` answers as quickly without a copy: use ``flat`` for GPUs.
    """

    def __init__(self, rows: np.ndarray, *, gpu: Gpu | None) -> None:
        check_rows(rows)
        self._rows = rows
        self._gpu = gpu
        self._index = _cpu_index(rows) if gpu is None else gpu.flat(rows.shape[1])
        if gpu is not None:
            gpu.free_with(self, self._index)
        # On a GPU add all rows at once: FAISS then reserves the right size; growing takes twice the memory.
        step = ADD_ROWS if gpu is None else max(len(rows), 1)
        for start in range(0, len(rows), step):
            added = np.asarray(rows[start : start + step], np.float32)
            with nullcontext() if gpu is None else gpu.used():
                self._index.add(added)

    @classmethod
    def build(
        cls, rows: np.ndarray, *, device: str = "auto", on_rows: OnRows = ignore_progress
    ) -> "FlatIndex":
        """See ``VectorIndex``; raises DeviceFullError if the GPU that ``device`` names has not the memory."""
        return _flat(cls, rows, device)

    @classmethod
    def load(cls, path: Path, rows: np.ndarray, *, device: str = "auto", effort: float = 1.0) -> "FlatIndex":
        """The same as ``build``: no file is read."""
        return _flat(cls, rows, device)

    def save(self, path: Path) -> None:
        """See ``VectorIndex``; no file is written, because the index only consists of the stored rows."""

    def search(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        k: int,
        *,
        together: bool = False,
        allowed: Bool[np.ndarray, " n_rows"] | None = None,
    ) -> Hits:
        """See ``VectorIndex``.

        Requests more and more rows from FAISS until no other row can be among the ``k`` nearest.
        """
        check_search(self._rows, queries, k=k, allowed=allowed)
        n_allowed = len(self._rows) if allowed is None else int(np.count_nonzero(allowed))
        n_proposed = self._first_proposals(k, max(n_allowed, 1))
        n_worth_it = 0 if scan_is_cheaper(n_allowed) else min(n_allowed, self._most_proposals())
        while n_proposed < n_worth_it:
            try:
                squared, proposed = self._propose(queries, n_proposed, allowed)
            except DeviceFullError:
                break
            hits = rescored(self._rows, queries, proposed=proposed, k=k)
            if _is_exact(hits, squared[:, -1], queries):
                return best_together(hits) if together else hits
            n_proposed *= 4
        return nearest_rows(self._rows, queries, k=k, together=together, allowed=allowed)

    def _first_proposals(self, k: int, n_allowed: int) -> int:
        """Return how many rows to request first.

        GPUs have no filters: there, enough rows to include ``k`` allowed ones if these are spread evenly.
        """
        return _SPARE + (k if self._gpu is None else math.ceil(k * len(self._rows) / n_allowed))

    def _most_proposals(self) -> int:
        return len(self._rows) if self._gpu is None else MAX_SELECTED

    def _propose(
        self, queries: Float32[np.ndarray, "n_query dim"], n: int, allowed: Bool[np.ndarray, " n_rows"] | None
    ) -> tuple[Float32[np.ndarray, "n_query n"], Int64[np.ndarray, "n_query n"]]:
        """Return squared distances and row numbers, nearest first; -1 for a row that is not allowed."""
        if self._gpu is None:
            found: tuple[np.ndarray, np.ndarray] = self._index.search(
                queries, n, params=faiss.SearchParameters(sel=selector(allowed))
            )
            return found
        squared, numbers = self._gpu.search(self._index, queries, n)
        return squared, only_allowed(numbers, allowed)


def _flat(kind: type[FlatIndex], rows: np.ndarray, device: str) -> FlatIndex:
    """Make the index on ``device``; with ``auto``, on the CPU if the GPU has run out of memory meanwhile."""
    check_rows(rows)
    try:
        return kind(rows, gpu=gpu_for(device, flat_bytes(*rows.shape)))
    except DeviceFullError:
        if device != "auto":
            raise
    return kind(rows, gpu=None)


def flat_bytes(n_rows: int, dim: int) -> int:
    """Return the bytes of ``n_rows`` rows on a GPU: float32 numbers, and the norm of each row."""
    return 4 * n_rows * (dim + 1)


def _is_exact(
    hits: Hits, farthest: Float32[np.ndarray, " n_query"], queries: Float32[np.ndarray, "n_query dim"]
) -> bool:
    """Return whether every row not proposed is farther than the last hit, allowing for FAISS's rounding."""
    kth = hits.scores[:, -1] ** 2
    # |row|^2 <= 2 |query|^2 + 2 distance^2, for the k-th row and for any row not proposed.
    error = _RELATIVE_ERROR * (3 * np.square(queries).sum(1) + 2 * np.minimum(kth, farthest))
    return bool((farthest - kth > 2 * error).all())


def _cpu_index(rows: np.ndarray) -> Any:
    if rows.dtype == np.float16:
        return faiss.IndexScalarQuantizer(rows.shape[1], faiss.ScalarQuantizer.QT_fp16)
    return faiss.IndexFlatL2(rows.shape[1])
