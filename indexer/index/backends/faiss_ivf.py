"""Shared by the inverted-list backends: number of lists, probes, and k-means on a GPU.

A GPU trains the lists and tells each row its own where there is one with the room; codes are made on the CPU,
and what is saved is a CPU's index, that any machine reads.
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

# Training rows a list; k-means gains nothing measurable past them.
ROWS_PER_LIST = 64
# Fewest rows a list, so that k-means has something to average; most lists, so that training takes minutes.
FEWEST_ROWS_PER_LIST = 39
_MOST_LISTS = 65_536
_KMEANS_ITERATIONS = 10
_KMEANS_SEED = 1234
# Lists to probe = 3 * n_lists^0.62 * (k / 100)^0.21 reach 98 % of the true nearest k. Fitted on real sentence
# vectors for 3,400 to 54,000 rows, 116 to 463 lists and k from 20 to 1,000; each point within 10 %.
_PROBES, _PROBES_BY_LISTS, _PROBES_BY_K = 3.0, 0.62, 0.21


class IvfIndex(FaissCodesIndex):
    """Codes in inverted lists; a subclass says which codes, and how rows get into lists that a GPU chose."""

    @staticmethod
    @abstractmethod
    def _empty(n_rows: int, dim: int) -> Any:
        """An empty FAISS index of ``list_count(n_rows)`` lists; k-means is set up here."""

    @staticmethod
    @abstractmethod
    def _adding_by(gpu: Gpu, index: Any, quantiser: Any) -> AddRows:
        """What adds rows to ``index``, the GPU's ``quantiser`` telling each row its list."""

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
        # The k nearest allowed rows stand among the k * n_rows / n_allowed nearest of all.
        k_of_all = k * len(self._rows) / n_allowed
        probes: float = _PROBES * n_lists**_PROBES_BY_LISTS * (k_of_all / 100) ** _PROBES_BY_K
        return min(n_lists, math.ceil(probes))

    @staticmethod
    def _parameters(breadth: int, selector: Any) -> Any:
        return faiss.SearchParametersIVF(nprobe=breadth, sel=selector)


def _quantiser_on(gpu: Gpu, index: Any, sample: Float32[np.ndarray, "n dim"]) -> Any:
    """Train the lists of ``index`` on ``gpu``: an index there that tells the list of a row, or ``None``.

    ``None`` where its memory is full after all. The lists are those of ``index`` then: what is left to train
    are its codes.
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
    """Twice the square root: half the k-means of four times, and the same time to a given recall."""
    return max(1, min(round(2 * math.sqrt(n_rows)), n_rows // FEWEST_ROWS_PER_LIST, _MOST_LISTS))
