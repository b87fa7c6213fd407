"""The ``ivfsq`` backend: inverted lists of 8-bit scalar codes, on a GPU if one has enough free memory.

GPUs do not support the fast-scan codes of ``ivfpq``. Scalar codes take a quarter of the memory of ``flat``,
so a GPU holds four times as many rows; a CPU can search them too, but ``ivfpq`` is faster there.
"""

import math
from typing import Any

import faiss
import numpy as np
from jaxtyping import Bool, Float32, Int64

from indexer.index.backends.faiss_codes import (
    RESCORING_COST,
    AddRows,
    Effort,
    only_allowed,
)
from indexer.index.backends.faiss_ivf import ROWS_PER_LIST, IvfIndex, list_count
from indexer.index.backends.gpu import MAX_SELECTED, Gpu, gpu_for
from models.errors import DeviceFullError

# Codes of 8 bits per number seldom order two rows wrongly, so few extra proposals are needed.
_PROPOSALS_PER_K, _SPARE = 1.5, 16
# The cost of reading a code, in rows of an exact scan.
_CODE_COST = 1 / 2
# The length of a list on a GPU is rounded up to a multiple of this many rows.
_LIST_STEP = 32
_ID_BYTES = 8


class IvfSqIndex(IvfIndex):
    """FAISS IVF,SQ8: dim + 8 bytes per row. ``build`` makes it on the CPU, ``load`` on a GPU if it fits."""

    def __init__(self, rows: np.ndarray, index: Any, gpu: Gpu | None = None) -> None:
        super().__init__(rows, index)
        self._gpu = gpu
        self._pools = gpu is None  # on a GPU, a list per query takes no time, and none is very long
        if gpu is not None:
            gpu.free_with(self, index)

    @staticmethod
    def _empty(n_rows: int, dim: int) -> Any:
        kind = faiss.ScalarQuantizer.QT_8bit
        return faiss.IndexIVFScalarQuantizer(faiss.IndexFlatL2(dim), dim, list_count(n_rows), kind)

    @staticmethod
    def _n_training(n_rows: int) -> int:
        return ROWS_PER_LIST * list_count(n_rows)

    @staticmethod
    def _adding_by(gpu: Gpu, index: Any, quantiser: Any) -> AddRows:
        def add(rows: Float32[np.ndarray, "n dim"]) -> None:
            lists = np.ascontiguousarray(gpu.search(quantiser, rows, 1)[1][:, 0])
            numbers = np.arange(index.ntotal, index.ntotal + len(rows), dtype=np.int64)
            index.add_core(len(rows), *map(faiss.swig_ptr, (rows, numbers, lists)))

        return add

    @classmethod
    def _placed(cls, rows: np.ndarray, index: Any, device: str) -> "IvfSqIndex":
        gpu = gpu_for(device, _gpu_bytes(len(rows), rows.shape[1], index.nlist))
        if gpu is not None:
            try:
                return cls(rows, gpu.scalar_lists(index), gpu)
            except DeviceFullError:
                if device != "auto":
                    raise
        return cls(rows, index)

    def _proposed(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        breadth: int,
        n: int,
        allowed: Bool[np.ndarray, " n_rows"] | None,
    ) -> tuple[Float32[np.ndarray, "n_query n"], Int64[np.ndarray, "n_query n"]]:
        if self._gpu is None:
            return super()._proposed(queries, breadth, n, allowed)
        parameters, n = self._parameters(min(breadth, MAX_SELECTED), None), min(n, MAX_SELECTED)
        squared, numbers = self._gpu.search(self._index, queries, n, parameters=parameters)
        return squared, only_allowed(numbers, allowed)

    def usual_effort(self, k: int, n_allowed: int) -> Effort:
        """See ``FaissCodesIndex``."""
        n_rows = len(self._rows)
        n_probes = self._n_probes(k, n_allowed)
        n_proposed = math.ceil(_PROPOSALS_PER_K * k) + _SPARE
        if self._gpu is None:
            cost = _CODE_COST * n_rows * n_probes / self._index.nlist + RESCORING_COST * n_proposed
            return Effort(n_probes, n_proposed, round(cost))
        # GPUs have no filters: propose enough rows to include the allowed ones if these are spread evenly.
        n_proposed = math.ceil(n_proposed * n_rows / n_allowed)
        fits = max(n_proposed, n_probes) <= MAX_SELECTED
        return Effort(n_probes, n_proposed, 0 if fits else n_rows)


def _gpu_bytes(n_rows: int, dim: int, n_lists: int) -> int:
    """Return the bytes of the index on a GPU: code and number per row, centre and padding per list."""
    return n_rows * (dim + _ID_BYTES) + n_lists * (_LIST_STEP * (dim + _ID_BYTES) + 4 * dim)
