"""Segments of any size, made straight from vectors: no encoder, no catalog."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float16, Int64

from indexer.snapshot.columns import SCHEMA

DIM = 8


@dataclass(frozen=True, slots=True)
class MadePart:
    """``n_papers`` papers from number ``first`` on, of one sentence and one vector each.

    Abstracts have ``n_characters``, the first of which are the paper's number.
    """

    first: int
    n_papers: int
    n_characters: int

    @property
    def key(self) -> str:
        """What tells its content from any other."""
        return f"made-{self.first}-{self.n_papers}-{self.n_characters}"

    @property
    def n_rows(self) -> int:
        """One a paper."""
        return self.n_papers

    @property
    def has_functions(self) -> bool:
        """None have."""
        return False

    def rows(self) -> Float16[np.ndarray, "n_rows dim"]:
        """Unit vectors drawn from the number of the first paper."""
        drawn = np.random.default_rng(self.first).normal(size=(self.n_papers, DIM))
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """One row a paper."""
        return np.arange(self.n_papers + 1)

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """None have."""
        raise AssertionError

    def table(self) -> pa.Table:
        """The papers' columns."""
        numbers = range(self.first, self.first + self.n_papers)
        n, length = self.n_papers, self.n_characters
        columns: dict[str, list[object]] = {
            "id": [f"p{number}" for number in numbers],
            "title": [f"Paper {number}" for number in numbers],
            "abstract": [f"{number} ".ljust(length, "a") for number in numbers],
            "starts": [[0]] * n,
            "ends": [[length]] * n,
            "facets": [[0]] * n,
            "year": [2000] * n,
            "venue": [None] * n,
            "authors": [[]] * n,
            "url": [None] * n,
            "doi": [None] * n,
            "fields": [[]] * n,
            "content_hash": [f"{number:064d}" for number in numbers],
        }
        return pa.table(columns, schema=SCHEMA)
