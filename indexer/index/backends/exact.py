"""The ``exact`` backend: it compares every row with every query, without index, file or extra memory."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from indexer.index.backends.nearest import check_rows, check_search, nearest_rows
from indexer.index.vector_index import OnRows
from models.types import Hits, ignore_progress


class ExactIndex:
    """A search that scans the stored rows; the reference for the results of every other backend."""

    def __init__(self, rows: np.ndarray) -> None:
        check_rows(rows)
        self._rows = rows

    @classmethod
    def build(
        cls, rows: np.ndarray, *, device: str = "auto", on_rows: OnRows = ignore_progress
    ) -> "ExactIndex":
        """See ``VectorIndex``."""
        return cls(rows)

    @classmethod
    def load(cls, path: Path, rows: np.ndarray, *, device: str = "auto", effort: float = 1.0) -> "ExactIndex":
        """See ``VectorIndex``; no file is read."""
        return cls(rows)

    def save(self, path: Path) -> None:
        """See ``VectorIndex``; no file is written."""

    def search(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        k: int,
        *,
        together: bool = False,
        allowed: Bool[np.ndarray, " n_rows"] | None = None,
    ) -> Hits:
        """See ``VectorIndex``."""
        check_search(self._rows, queries, k=k, allowed=allowed)
        return nearest_rows(self._rows, queries, k=k, together=together, allowed=allowed)
