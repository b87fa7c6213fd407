"""The ``hnsw`` backend: a navigable graph over 8-bit codes, with high recall, much memory and slow builds."""

import math
from typing import Any

import faiss

from indexer.index.backends.faiss_codes import RESCORING_COST, Effort, FaissCodesIndex

# Neighbours per node; 32 is FAISS's usual choice and takes 272 bytes per row.
_NEIGHBOURS = 32
# Nodes kept while building. 200 takes twice as long to build and gains 0.005 of recall.
_BUILD_BREADTH = 100
# Nodes kept while searching for 100 rows: recall 0.988 on 54,000 real sentence vectors (128: 0.972,
# 400: 0.997).
_MIN_BREADTH, _BREADTH_PER_K = 200, 2
_TRAINING_ROWS = 65_536
# A kept node costs as much as comparing about 100 rows: 0.4 ms per query at breadth 200.
_NODE_COST = 100


class HnswIndex(FaissCodesIndex):
    """FAISS HNSW32 over SQ8: per row, dim bytes and 272 for the graph (measured: 656 in all at dim 384)."""

    @staticmethod
    def _untrained(n_rows: int, dim: int) -> Any:
        index = faiss.IndexHNSWSQ(dim, faiss.ScalarQuantizer.QT_8bit, _NEIGHBOURS)
        index.hnsw.efConstruction = _BUILD_BREADTH
        return index

    @staticmethod
    def _n_training(n_rows: int) -> int:
        return min(n_rows, _TRAINING_ROWS)

    def usual_effort(self, k: int, n_allowed: int) -> Effort:
        """See ``FaissCodesIndex``."""
        # A filter hides nodes from the result but not from the walk, so the walk must keep more nodes.
        share = n_allowed / len(self._rows)
        breadth = math.ceil(max(_MIN_BREADTH, _BREADTH_PER_K * k) / share)
        n_proposed = _BREADTH_PER_K * k
        return Effort(breadth, n_proposed, _NODE_COST * breadth + RESCORING_COST * n_proposed)

    @staticmethod
    def _parameters(breadth: int, selector: Any) -> Any:
        return faiss.SearchParametersHNSW(efSearch=breadth, sel=selector)
