"""Samples: a few papers that represent a collection, the same papers however it was built."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from jaxtyping import Bool, Int64

from indexer.snapshot.segment import ID_HASHES
from models.types import Facet

# The most papers of a sample.
MAX_SAMPLED: Final = 128
# The most samples by facets that are cached, of 1 kB each.
_MAX_KEPT: Final = 64

_Papers = Bool[np.ndarray, " n_positions"]


class Samples:
    """The papers whose ids have the smallest hashes, of all ``live`` papers or of some of them.

    ``id_hashes`` has the array of each segment (ID_HASHES); ``live`` has a flag per paper of all segments.
    """

    def __init__(self, id_hashes: Sequence[np.ndarray], live: _Papers) -> None:
        self._id_hashes, self._live = id_hashes, live
        self._kept: dict[frozenset[frozenset[Facet]], Int64[np.ndarray, " k"]] = {}

    @cached_property
    def of_all(self) -> Int64[np.ndarray, " k"]:
        """The positions of MAX_SAMPLED papers, or of all if there are fewer."""
        return self._of(self._live)

    def having(
        self, facets: Sequence[Collection[Facet]], papers_of: Callable[[Collection[Facet]], _Papers]
    ) -> Int64[np.ndarray, " k"]:
        """The same as ``of_all``, but of papers with a sentence of each set in ``facets``.

        ``papers_of`` returns the papers with a sentence of any facet of one set.
        """
        key = frozenset(map(frozenset, facets))
        found = self._kept.get(key)
        if found is None:  # two threads may compute it at once, with the same result
            found = self._of(np.logical_and.reduce([self._live, *map(papers_of, facets)]))
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def _of(self, wanted: _Papers) -> Int64[np.ndarray, " k"]:
        first, start = [np.empty(0, ID_HASHES)], 0
        for own in self._id_hashes:
            kept = own[wanted[start : start + len(own)][own["position"]]][:MAX_SAMPLED]
            kept["position"] += start
            first.append(kept)
            start += len(own)
        sampled: Int64[np.ndarray, " k"] = np.sort(np.concatenate(first), order="hash")["position"]
        return sampled[:MAX_SAMPLED]
