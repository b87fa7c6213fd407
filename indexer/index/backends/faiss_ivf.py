"""The base of the inverted-list backends: the number of lists and probes, and k-means on a GPU.

If a GPU has enough free memory, it trains the lists and assigns rows to them. Codes are made on the CPU, and
the saved file is a CPU index, which any machine can read.
"""

import math
from abc import abstractmethod
from typing import Any

import faiss
import numpy as np
from jaxtyping import Float32

from indexer.index.backends.faiss_codes import AddRows, FaissCodesIndex
from indexer.index.backends.faiss_flat import flat_bytes
from indexer.index.backends.gpu import Gpu, gpu_with_room
from models.errors import DeviceFullError

# Training rows per list; k-means gains nothing measurable from more.
ROWS_PER_LIST = 64
# Fewest rows per list, so that k-means has enough to average; most lists, so that training takes minutes.
MIN_ROWS_PER_LIST = 39
_MAX_LISTS = 65_536
_KMEANS_ITERATIONS = 10
_KMEANS_SEED = 1234
# Probing 3 * n_lists^0.62 * (k / 100)^0.21 lists reaches 98 % of the true nearest k. Fitted on real sentence
# vectors for 3,400 to 54,000 rows, 116 to 463 lists and k from 20 to 1,000; each point within 10 %.
_PROBES, _PROBES_BY_LISTS, _PROBES_BY_K = 3.0, 0.62, 0.21


class IvfIndex(FaissCodesIndex):
    """Codes in inverted lists; a subclass defines the codes, and how rows are added to lists of a GPU."""

    @staticmethod
    @abstractmethod
    def _empty(n_rows: int, dim: int) -> Any:
        """Return an empty FAISS index of ``list_count(n_rows)`` lists; ``_untrained`` sets up k-means."""

    @staticmethod
    @abstractmethod
    def _adding_by(gpu: Gpu, index: Any, quantiser: Any) -> AddRows:
        """Return a function that adds rows to ``index``, with lists chosen by the GPU's ``quantiser``."""

    @classmethod
    def _untrained(cls, n_rows: int, dim: int) -> Any:
        index = cls._empty(n_rows, dim)
        index.cp.niter = _KMEANS_ITERATIONS
        index.cp.seed = _KMEANS_SEED
        index.cp.max_points_per_centroid = ROWS_PER_LIST
        return index

    @classmethod
    def _trained(cls, index: Any, sample: Float32[np.ndarray, "n dim"], device: str) -> AddRows:
        gpu = gpu_with_room(device, flat_bytes(index.nlist, index.d))
        quantiser = None if gpu is None else _quantiser_on(gpu, index, sample)
        if gpu is None or quantiser is None:
            return super()._trained(index, sample, device)
        index.train(sample)
        add = cls._adding_by(gpu, index, quantiser)

        def add_somehow(rows: Float32[np.ndarray, "n dim"]) -> None:
            try:
                add(rows)
            except DeviceFullError:
                index.add(rows)

        gpu.free_with(add_somehow, quantiser)
        return add_somehow

    def _n_probes(self, k: int, n_allowed: int) -> int:
        n_lists: int = self._index.nlist
        # The k nearest allowed rows are among the k * n_rows / n_allowed nearest of all rows.
        k_of_all = k * len(self._rows) / n_allowed
        probes: float = _PROBES * n_lists**_PROBES_BY_LISTS * (k_of_all / 100) ** _PROBES_BY_K
        return min(n_lists, math.ceil(probes))

    @staticmethod
    def _parameters(breadth: int, selector: Any) -> Any:
        return faiss.SearchParametersIVF(nprobe=breadth, sel=selector)


def _quantiser_on(gpu: Gpu, index: Any, sample: Float32[np.ndarray, "n dim"]) -> Any:
    """Train the lists of ``index`` on ``gpu``; return an index there that finds the list of a row.

    Returns ``None`` if the memory of the GPU is full. Else ``index`` has these lists too, and only its codes
    are left to train.
    """
    quantiser = None
    try:
        quantiser = gpu.flat(index.d)
        clustering = faiss.Clustering(index.d, index.nlist, index.cp)
        with gpu.used():
            clustering.train(sample, quantiser)
            centroids = faiss.vector_to_array(clustering.centroids).reshape(index.nlist, index.d)
            quantiser.reset()
            quantiser.add(centroids)
    except DeviceFullError as error:
        gpu.free_with(error, quantiser)
        return None
    faiss.downcast_index(index.quantizer).add(centroids)
    return quantiser


def list_count(n_rows: int) -> int:
    """Return the number of lists for ``n_rows`` rows, usually twice the square root.

    That halves the k-means of four times the square root, at the same search time for a given recall.
    """
    return max(1, min(round(2 * math.sqrt(n_rows)), n_rows // MIN_ROWS_PER_LIST, _MAX_LISTS))
