"""The ``flat`` backend: FAISS compares every row, in memory or on a GPU; the same answers as ``exact``."""

import threading
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from jaxtyping import Bool, Float32, Int64

from indexer.index.backends.faiss_codes import ADD_ROWS, ALWAYS_SCAN_ROWS, selector
from indexer.index.backends.nearest import check_rows, check_search, nearest_rows, rescored
from indexer.index.vector_index import OnRows, unheard
from models.errors import InputError
from models.types import Hits

# Proposals beyond k in the first attempt: room for FAISS's own rounding.
_SPARE = 32
# FAISS's squared distances are off by at most this share of the squared norms (its float32 matrix products).
_RELATIVE_ERROR = 1e-5
# FAISS's GPU indexes select at most so many rows.
_GPU_MOST_ROWS = 2048


class FlatIndex:
    """All rows in FAISS: dim float16 or float32 numbers a row of main memory, or float32 ones of GPU memory.

    On a CPU ``exact`` answers as quickly and holds no copy: take ``flat`` for a GPU.
    """

    def __init__(self, rows: np.ndarray, *, device: str) -> None:
        check_rows(rows)
        self._rows = rows
        self._on_gpu = wants_gpu(device)
        self._index = _gpu_index(rows.shape[1]) if self._on_gpu else _cpu_index(rows)
        # FAISS's GPU resources serve one search at a time; its CPU indexes any number.
        self._gpu_lock = threading.Lock()
        for start in range(0, len(rows), ADD_ROWS):
            self._index.add(np.asarray(rows[start : start + ADD_ROWS], np.float32))

    @classmethod
    def build(cls, rows: np.ndarray, *, device: str = "auto", on_rows: OnRows = unheard) -> "FlatIndex":
        """See ``VectorIndex``."""
        return cls(rows, device=device)

    @classmethod
    def load(cls, path: Path, rows: np.ndarray, *, device: str = "auto") -> "FlatIndex":
        """See ``VectorIndex``; no file is read."""
        return cls(rows, device=device)

    def save(self, path: Path) -> None:
        """See ``VectorIndex``; no file is written: the stored rows are all there is to keep."""

    def search(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        k: int,
        *,
        allowed: Bool[np.ndarray, " n_rows"] | None = None,
    ) -> Hits:
        """See ``VectorIndex``.

        Asks FAISS for ever more rows until none that it left out can be among the ``k`` nearest.
        """
        check_search(self._rows, queries, k=k, allowed=allowed)
        n_allowed = len(self._rows) if allowed is None else int(np.count_nonzero(allowed))
        n_proposed = k + _SPARE
        while n_allowed > ALWAYS_SCAN_ROWS and n_proposed < min(n_allowed, self._most_proposals()):
            squared, proposed = self._propose(queries, n_proposed, allowed)
            hits = rescored(self._rows, queries, proposed=proposed, k=k)
            if _settled(hits, squared[:, -1], queries):
                return hits
            n_proposed *= 4
        return nearest_rows(self._rows, queries, k=k, allowed=allowed)

    def _most_proposals(self) -> int:
        return _GPU_MOST_ROWS if self._on_gpu else len(self._rows)

    def _propose(
        self, queries: Float32[np.ndarray, "n_query dim"], n: int, allowed: Bool[np.ndarray, " n_rows"] | None
    ) -> tuple[Float32[np.ndarray, "n_query n"], Int64[np.ndarray, "n_query n"]]:
        """Squared distances and row numbers, nearest first; -1 for a row that is not allowed."""
        if not self._on_gpu:
            found: tuple[np.ndarray, np.ndarray] = self._index.search(
                queries, n, params=faiss.SearchParameters(sel=selector(allowed))
            )
            return found
        with self._gpu_lock:  # and GPU indexes know no selectors: rows that are not allowed are dropped here
            squared, numbers = self._index.search(queries, n)
        return squared, numbers if allowed is None else np.where(allowed[numbers], numbers, -1)


def _settled(
    hits: Hits, farthest: Float32[np.ndarray, " n_query"], queries: Float32[np.ndarray, "n_query dim"]
) -> bool:
    """Whether every row left out is farther than the last hit, FAISS's rounding counted against it."""
    kth = hits.scores[:, -1] ** 2
    # |row|^2 <= 2 |query|^2 + 2 distance^2, for the row at the k-th place and for the one left out.
    error = _RELATIVE_ERROR * (3 * np.square(queries).sum(1) + 2 * np.minimum(kth, farthest))
    return bool((farthest - kth > 2 * error).all())


def gpu_is_there() -> bool:
    """Whether the installed FAISS has a GPU to use (the package ``faiss-gpu`` in place of ``faiss-cpu``)."""
    return hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0


def wants_gpu(device: str) -> bool:
    """Whether to use a GPU. Raises InputError if ``device`` is "cuda" and this FAISS reaches none."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"Unknown device {device!r} for an index; expected auto, cpu or cuda")
    reachable = gpu_is_there()
    if device == "cuda" and not reachable:
        raise InputError(
            "FAISS reaches no GPU; install faiss-gpu in place of faiss-cpu, or choose device cpu"
        )
    return reachable and device != "cpu"


def _cpu_index(rows: np.ndarray) -> Any:
    if rows.dtype == np.float16:
        return faiss.IndexScalarQuantizer(rows.shape[1], faiss.ScalarQuantizer.QT_fp16)
    return faiss.IndexFlatL2(rows.shape[1])


def _gpu_index(dim: int) -> Any:
    """Float32 even for float16 rows: with half-precision products the rounding bound would not hold."""
    return faiss.GpuIndexFlatL2(faiss.StandardGpuResources(), dim)
