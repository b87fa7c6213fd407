"""The ``ivfpq`` backend: inverted lists of 4-bit product-quantiser codes, scanned in SIMD registers.

Chosen by measurement. Real sentence vectors hardly cluster: at 54,000 rows 98 % of the nearest 100 lie in
30 % of the lists, where synthetic clusters need 1 %. So what counts is the cost of reading a code, and 4-bit
codes of dim / 4 bytes, four times as many as asked then re-scored on the stored rows, reached a given recall
2 to 10 times sooner than 8-bit scalar codes or RaBitQ of 1 to 4 bits (FAISS 1.15.1, whose fast-scan lists
obey selectors; its fast-scan indexes without lists refuse them).
"""

import math
from typing import Any

import faiss

from indexer.index.backends.faiss_codes import RESCORING_COST, Effort, FaissCodesIndex

# Training rows a list; k-means gains nothing measurable past them.
_ROWS_PER_LIST = 64
# Fewest rows a list, so that k-means has something to average; most lists, so that training takes minutes.
_FEWEST_ROWS_PER_LIST = 39
_MOST_LISTS = 65_536
_KMEANS_ITERATIONS = 10
_KMEANS_SEED = 1234
# Lists to probe = 3 * n_lists^0.62 * (k / 100)^0.21 reach 98 % of the true nearest k. Fitted on real sentence
# vectors for 3,400 to 54,000 rows, 116 to 463 lists and k from 20 to 1,000; each point within 10 %.
_PROBES, _PROBES_BY_LISTS, _PROBES_BY_K = 3.0, 0.62, 0.21
# Proposals per asked row grow with the probes: more rows read are more rows wrongly ahead. At least four: the
# loss against eight is 0.002 of recall.
_FEWEST_PROPOSALS, _PROBES_PER_PROPOSAL = 4.0, 40
# A code read by the fast scan, in rows of an exact scan: 7 against 20 ns for one query at 384 numbers a row.
_CODE_COST = 1 / 3


class IvfPqIndex(FaissCodesIndex):
    """FAISS IVF,PQ(d/2)x4fs: dim / 4 bytes a row, and about 12 more for row numbers and padding."""

    @staticmethod
    def _untrained(n_rows: int, dim: int) -> Any:
        n_lists = _n_lists(n_rows)
        # Pairs of numbers share a 4-bit code; where dim is odd every number has its own.
        n_parts = dim // 2 if dim % 2 == 0 else dim
        index = faiss.IndexIVFPQFastScan(faiss.IndexFlatL2(dim), dim, n_lists, n_parts, 4)
        index.cp.niter = _KMEANS_ITERATIONS
        index.cp.seed = _KMEANS_SEED
        index.cp.max_points_per_centroid = _ROWS_PER_LIST
        return index

    @staticmethod
    def _n_training(n_rows: int) -> int:
        # The product quantiser has 16 centroids of its own to train.
        return max(_ROWS_PER_LIST * _n_lists(n_rows), 16 * _FEWEST_ROWS_PER_LIST)

    def _effort(self, k: int, n_allowed: int) -> Effort:
        n_rows, n_lists = len(self._rows), self._index.nlist
        # The k nearest allowed rows stand among the k * n_rows / n_allowed nearest of all.
        k_of_all = k * n_rows / n_allowed
        probes = _PROBES * n_lists**_PROBES_BY_LISTS * (k_of_all / 100) ** _PROBES_BY_K
        n_probes = min(n_lists, math.ceil(probes))
        n_proposed = math.ceil(k * max(_FEWEST_PROPOSALS, n_probes / _PROBES_PER_PROPOSAL))
        cost = _CODE_COST * n_rows * n_probes / n_lists + RESCORING_COST * n_proposed
        return Effort(n_probes, n_proposed, round(cost))

    @staticmethod
    def _parameters(breadth: int, selector: Any) -> Any:
        return faiss.SearchParametersIVF(nprobe=breadth, sel=selector)


def _n_lists(n_rows: int) -> int:
    """Twice the square root: half the k-means of four times, and the same time to a given recall."""
    return max(1, min(round(2 * math.sqrt(n_rows)), n_rows // _FEWEST_ROWS_PER_LIST, _MOST_LISTS))
