"""The rows of facets, and the papers that have such rows, cached for the facets requested last."""

from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import Final

import numpy as np
from jaxtyping import Bool, Int8, Int64

from models.facets import FACETS, matching_facets
from models.types import Facet

# With two million rows, each takes two million bytes.
_MAX_KEPT: Final = 8
_N_CODES: Final = 256


class FacetRows:
    """Rows, one per sentence, by their facets; ``paper_of_row`` are positions below ``n_positions``.

    The returned arrays are read-only, because callers share them.
    """

    def __init__(
        self,
        row_facets: Int8[np.ndarray, " n_rows"],
        paper_of_row: Int64[np.ndarray, " n_rows"],
        n_positions: int,
    ) -> None:
        # The caches hold no reference to ``self``, so they are freed without a garbage collection.
        self._rows = lru_cache(_MAX_KEPT)(partial(_rows_of, row_facets))
        self._papers = lru_cache(_MAX_KEPT)(partial(_papers_of, self._rows, paper_of_row, n_positions))

    def rows(self, facets: Collection[Facet]) -> Bool[np.ndarray, " n_rows"]:
        """Return which rows are sentences of any of the ``facets``; stated aims count as background."""
        return self._rows(_codes(facets))

    def papers(self, facets: Collection[Facet]) -> Bool[np.ndarray, " n_positions"]:
        """Return which papers have a sentence of any of the ``facets``."""
        return self._papers(_codes(facets))


def _codes(facets: Collection[Facet]) -> frozenset[int]:
    return frozenset(FACETS.index(match) for facet in facets for match in matching_facets(facet))


def _rows_of(row_facets: Int8[np.ndarray, " n_rows"], codes: frozenset[int]) -> Bool[np.ndarray, " n_rows"]:
    wanted = np.zeros(_N_CODES, dtype=bool)
    wanted[list(codes)] = True
    rows: Bool[np.ndarray, " n_rows"] = wanted[row_facets.view(np.uint8)]  # NO_FACET is the last code
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
