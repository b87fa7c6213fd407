"""Parts of segments of any size, made directly from vectors, without encoder or catalog."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float16, Int64

from indexer.snapshot.columns import SCHEMA

DIM = 8


@dataclass(frozen=True, slots=True)
class MadePart:
    """``n_papers`` papers, numbered from ``first``, with one sentence and one vector each.

    Abstracts have ``n_characters`` and begin with the number of the paper.
    """

    first: int
    n_papers: int
    n_characters: int

    @property
    def key(self) -> str:
        """A key of the content, different for different content."""
        return f"made-{self.first}-{self.n_papers}-{self.n_characters}"

    @property
    def n_rows(self) -> int:
        """The number of rows, one for each paper."""
        return self.n_papers

    @property
    def has_functions(self) -> bool:
        """False: no part has function vectors."""
        return False

    def rows(self) -> Float16[np.ndarray, "n_rows dim"]:
        """Return random unit vectors, with the number of the first paper as seed."""
        drawn = np.random.default_rng(self.first).normal(size=(self.n_papers, DIM))
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Return the offsets of one row for each paper."""
        return np.arange(self.n_papers + 1)

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Fail: no part has function vectors."""
        raise AssertionError

    def words(self) -> None:
        """Return nothing: no part has its words counted."""

    def table(self) -> pa.Table:
        """Return the columns of the papers."""
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
