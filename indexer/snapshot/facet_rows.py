"""The rows of facets and of filtered papers, cached for the facets and filters requested last."""

from collections import deque
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import Final

import numpy as np
from jaxtyping import Bool, Int8, Int64, UInt8

from models.facets import FACETS, matching_facets
from models.types import Facet

# With two million rows, each takes two million bytes.
_MAX_KEPT: Final = 8
_N_CODES: Final = 256
# Filters whose rows are kept: with two million rows, each takes half a million bytes.
_MAX_FILTERS: Final = 8
# Papers by which a mask may differ from that of its filter: each query leaves out its own papers.
_MAX_OTHERS: Final = 64


class FilteredRows:
    """The rows of the papers that pass a filter; paper ``i`` owns rows ``offsets[i]`` to ``offsets[i + 1]``.

    The rows of the last filters are kept, a bit for each. Of a mask that differs from a kept one by few
    papers, only their rows are set: a fifth of the time of setting a million.
    """

    def __init__(self, offsets: Int64[np.ndarray, " n_positions_plus_1"]) -> None:
        self._offsets = offsets
        self._lengths = np.diff(offsets)
        self._kept: deque[tuple[Bool[np.ndarray, " n_positions"], UInt8[np.ndarray, " _"]]] = deque(
            maxlen=_MAX_FILTERS
        )

    def rows(self, papers: Bool[np.ndarray, " n_positions"]) -> Bool[np.ndarray, " n_rows"]:
        """Return which rows belong to ``papers``, as a new array."""
        rows: Bool[np.ndarray, " n_rows"]
        for known, bits in tuple(self._kept):  # a copy, as other requests add to it
            others = np.flatnonzero(known != papers)
            if len(others) <= _MAX_OTHERS:
                rows = np.unpackbits(bits, count=int(self._offsets[-1])).view(np.bool_)
                for paper in others.tolist():
                    rows[self._offsets[paper] : self._offsets[paper + 1]] = papers[paper]
                return rows
        rows = np.repeat(papers, self._lengths)
        self._kept.appendleft((papers.copy(), np.packbits(rows)))
        return rows


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
