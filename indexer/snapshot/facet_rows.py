"""The rows of facets, and the papers that have some: kept for the facets that were asked for last."""

from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import Final

import numpy as np
from jaxtyping import Bool, Int8, Int64

from models.facets import FACETS, counted_as
from models.types import Facet

# Of two million rows each takes as many bytes.
_MOST_KEPT: Final = 8
_N_CODES: Final = 256


class FacetRows:
    """Rows, one a sentence, by their facets; ``paper_of_row`` are positions below ``n_positions``.

    Its arrays are read-only: callers share them.
    """

    def __init__(
        self,
        row_facets: Int8[np.ndarray, " n_rows"],
        paper_of_row: Int64[np.ndarray, " n_rows"],
        n_positions: int,
    ) -> None:
        # Nothing in them leads back here: they go as soon as nobody uses them.
        self._rows = lru_cache(_MOST_KEPT)(partial(_rows_of, row_facets))
        self._papers = lru_cache(_MOST_KEPT)(partial(_papers_of, self._rows, paper_of_row, n_positions))

    def rows(self, facets: Collection[Facet]) -> Bool[np.ndarray, " n_rows"]:
        """Which rows are sentences of any of the ``facets``; stated aims count as background."""
        return self._rows(_codes(facets))

    def papers(self, facets: Collection[Facet]) -> Bool[np.ndarray, " n_positions"]:
        """Which papers have such a row."""
        return self._papers(_codes(facets))


def _codes(facets: Collection[Facet]) -> frozenset[int]:
    return frozenset(FACETS.index(counted) for facet in facets for counted in counted_as(facet))


def _rows_of(row_facets: Int8[np.ndarray, " n_rows"], codes: frozenset[int]) -> Bool[np.ndarray, " n_rows"]:
    wanted = np.zeros(_N_CODES, dtype=bool)
    wanted[list(codes)] = True
    rows: Bool[np.ndarray, " n_rows"] = wanted[row_facets.view(np.uint8)]  # that of no facet is the last code
    rows.flags.writeable = False
    return rows


def _papers_of(
    rows_of: Callable[[frozenset[int]], Bool[np.ndarray, " n_rows"]],
    paper_of_row: Int64[np.ndarray, " n_rows"],
    n_positions: int,
    codes: frozenset[int],
) -> Bool[np.ndarray, " n_positions"]:
    papers = np.zeros(n_positions, dtype=bool)
    papers[paper_of_row[rows_of(codes)]] = True
    papers.flags.writeable = False
    return papers
