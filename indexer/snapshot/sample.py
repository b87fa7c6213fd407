"""Samples: a few papers that stand for a collection, the same whatever it was built by."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from jaxtyping import Bool, Int64

from indexer.snapshot.segment import ID_HASHES
from models.types import Facet

# The most papers of a sample.
MOST_SAMPLED: Final = 128
# The most samples by facets that are kept, of 1 kB each.
_MOST_KEPT: Final = 64

_Papers = Bool[np.ndarray, " n_positions"]


class Samples:
    """The papers whose ids have the least hashes, of all that are ``living`` or of some of these.

    ``id_hashes`` are those of each segment (ID_HASHES), end to end.
    """

    def __init__(self, id_hashes: Sequence[np.ndarray], living: _Papers) -> None:
        self._id_hashes, self._living = id_hashes, living
        self._kept: dict[frozenset[frozenset[Facet]], Int64[np.ndarray, " k"]] = {}

    @cached_property
    def of_all(self) -> Int64[np.ndarray, " k"]:
        """The positions of MOST_SAMPLED papers, or of all if there are fewer."""
        return self._of(self._living)

    def having(
        self, facets: Sequence[Collection[Facet]], papers_of: Callable[[Collection[Facet]], _Papers]
    ) -> Int64[np.ndarray, " k"]:
        """The same of papers with a sentence of some of each of the ``facets``; ``papers_of`` finds those."""
        key = frozenset(map(frozenset, facets))
        found = self._kept.get(key)
        if found is None:  # two threads that miss it find it twice, alike
            found = self._of(np.logical_and.reduce([self._living, *map(papers_of, facets)]))
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def _of(self, wanted: _Papers) -> Int64[np.ndarray, " k"]:
        first, start = [np.empty(0, ID_HASHES)], 0
        for own in self._id_hashes:
            kept = own[wanted[start : start + len(own)][own["position"]]][:MOST_SAMPLED]
            kept["position"] += start
            first.append(kept)
            start += len(own)
        sampled: Int64[np.ndarray, " k"] = np.sort(np.concatenate(first), order="hash")["position"]
        return sampled[:MOST_SAMPLED]
