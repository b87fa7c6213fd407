"""Strength: compares a match with the usual matches in the collection.

A distance says little by itself: some queries are near to everything. So a result's ``reach`` is its distance
as a share of the query's usual distance, over a sample of the collection (rerank.py). Reaches are compared
with a scale: the reaches from sampled papers of the collection to their nearest neighbours, found in the same
respect. Measured: docs/decisions/retrieval/strength.md.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

import numpy as np
from cachetools import LRUCache
from jaxtyping import Float64

from indexer.snapshot.snapshot import Snapshot
from models.errors import SentenceSelectionError, ShardAwayError
from models.transport import SERVING, Scorer
from models.types import EncoderSpec, Facet, RankedPaper, Strength, StrengthLabel, Unit
from service.answer_warnings import AnswerWarning, WarningCode, warning
from service.cache.single_flight import Flights
from service.search.aspect import (
    DEFAULT_CONTRAST,
    NO_ROWS,
    Aspect,
    Contrast,
    Part,
    default_specificity,
    query_parts,
    select_sentences,
)
from service.search.candidates import depth_for, list_candidates
from service.search.query import SearchQuery, Strategy
from service.search.rerank import Comparison, default_tau
from service.search.words import QueryVectors, QueryWords, default_weight

# Sampled papers whose nearest neighbours make up a scale.
_SAMPLE_PAPERS: Final = 32
# The candidates of each sampled paper that are compared with it; the nearest is often not among the first 5.
_CANDIDATES: Final = 200
# A scale holds the reaches of the nearest neighbours and of the last of so many. News need not be nearest.
_NEIGHBOURS: Final = 5
# A scale of fewer papers says nothing.
_MIN_SCALE_PAPERS: Final = 16
# The least share of sampled papers whose nearest neighbour is farther than a result with this label.
_STRONG: Final = 0.5
_FAIR: Final = 0.05


@dataclass(frozen=True, slots=True)
class Respect:
    """The respect in which a scale is measured: facets (empty: whole papers), scorer, and use of words.

    For a ``text``, the scale is measured from single sentences of the facets, and only to sentences of the
    facets, because a text is compared with those. With facets to be ``unlike``, the neighbours are those that
    such a search finds: they are farther away. The weight of the facets to be unlike is the default.
    """

    facets: tuple[Facet, ...]
    scorer: Scorer
    words: bool
    text: bool = False
    unlike: tuple[Facet, ...] = ()

    @classmethod
    def of(
        cls,
        query: SearchQuery,
        parts: Sequence[Part],
        spec: EncoderSpec,
        *,
        words: float,
        tau: float,
        specificity: float,
    ) -> "Respect | None":
        """Return the respect of a query with these parts: facets of their seeds, ``text`` if all are texts.

        ``None`` if no scale is measured like it: the query sets a focus, or ``tau``, ``specificity``, the
        weight of ``words`` (unless 0) or of a contrast is not the default, sentences to be unlike are chosen
        by number, or contrasts differ between seeds.
        """
        seeds = query.seeds_of(parts)
        text = all(seed.text is not None for seed in seeds)
        usual_tau = default_tau(spec, text=text and words > 0)
        usual = (usual_tau, default_specificity(spec), words and default_weight(spec))
        if (tau, specificity, words) != usual or any(seed.aspect.focus is not None for seed in seeds):
            return None
        first = seeds[0].aspect.facets
        facets = first if all(seed.aspect.facets == first for seed in seeds) else ()
        if not any(part.away and not part.negative for part in parts):  # a plain search, whatever was set
            return cls(_distinct(facets), query.scorer, words > 0, text)
        contrast = seeds[0].aspect.unlike if all(seed.aspect == seeds[0].aspect for seed in seeds) else None
        if contrast is None or contrast.sentences is not None or contrast.weight != DEFAULT_CONTRAST:
            return None
        return cls(_distinct(facets), query.scorer, words > 0, text, _distinct(contrast.facets))


def _distinct(facets: Sequence[Facet]) -> tuple[Facet, ...]:
    return tuple(sorted(set(facets)))


def no_good_match(results: Sequence[RankedPaper]) -> Iterator[AnswerWarning]:
    """Yield a warning if all ``results`` are weak matches; with contrast the first may be a far one."""
    if results and all(each.strength and each.strength.label is StrengthLabel.WEAK for each in results):
        yield warning(WarningCode.NO_GOOD_MATCH, StrengthLabel.WEAK)


# Keyed by the digest of a generation's content: if the same files are opened again for a cursor, or published
# again, they are not measured again.
# The sorted reaches of the nearest neighbours, and of the last of _NEIGHBOURS.
_Scale = Float64[np.ndarray, "2 n_sampled"]
_scales: Final[LRUCache[tuple[bytes, Respect], _Scale]] = LRUCache(256)
# What was measured of a scale by searches that ended at their deadline, by position of the sampled paper.
_begun: Final[LRUCache[tuple[bytes, Respect], dict[int, tuple[float, float] | None]]] = LRUCache(256)
_scales_lock: Final = Lock()
_measuring: Final[Flights[tuple[bytes, Respect], _Scale]] = Flights()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_measuring.forget)


class Strengths:
    """The scales of one snapshot, each measured when first needed, by a few searches without explanation.

    A scale is the same for the same files; this process keeps the scales of recent snapshots by the
    ``digest`` of their content. Safe to share between threads: if several need a scale, one measures it.
    """

    def __init__(self, snapshot: Snapshot, digest: bytes) -> None:
        self._snapshot = snapshot
        self._digest = digest

    def of(self, reach: float, respect: Respect | None, *, whole: bool = True) -> Strength | None:
        """Return the strength of a match with this ``reach``; ``None`` without a scale to measure it on.

        There is none without a ``respect``, if the collection is too small, or if the answer is not of the
        ``whole`` collection, as a part is away, and the scale was not measured before.

        Raises DeadlineError; ShardAwayError if a part has gone away since the whole collection was searched.
        """
        if respect is None:
            return None
        key = (self._digest, respect)
        with _scales_lock:
            scale = _scales.get(key)
        if scale is None and self._snapshot.away:
            # A scale measured now would be that of only a part of the collection.
            if whole:
                raise ShardAwayError("A machine that holds a part of the collection went away; try again.")
            return None
        if scale is None:
            scale = _measuring.run(key, lambda: self._measured(key))
        n_sampled = scale.shape[1]
        if n_sampled < _MIN_SCALE_PAPERS:
            return None
        nearest, last = (1 - float(np.searchsorted(own, reach, side="right")) / n_sampled for own in scale)
        if nearest >= _STRONG:
            return Strength(StrengthLabel.STRONG, nearest)
        label = StrengthLabel.FAIR if nearest >= _FAIR else StrengthLabel.WEAK
        return Strength(label, nearest, related=last >= _FAIR)

    def _measured(self, key: tuple[bytes, Respect]) -> _Scale:
        respect = key[1]
        with _scales_lock:
            reaches = _begun.setdefault(key, {})
        having = [respect.facets] if respect.facets else []
        for position in self._snapshot.sample(_SAMPLE_PAPERS, *having).tolist():
            if position not in reaches:
                reaches[position] = self._reach(position, respect)
        found = [reach for reach in reaches.values() if reach is not None]
        scale: _Scale = np.sort(np.array(found, dtype=np.float64).reshape(-1, 2).T)
        with _scales_lock:
            _scales[key] = scale
            _begun.pop(key, None)
        return scale

    def _reach(self, position: int, respect: Respect) -> tuple[float, float] | None:
        """Return the reach from a paper to its nearest neighbour and to the last of _NEIGHBOURS.

        ``None`` without a neighbour, or a sentence.
        """
        snapshot, spec = self._snapshot, self._snapshot.manifest.encoder
        text = respect.text and spec.unit is Unit.SENTENCE  # else no single sentence has a vector
        among = snapshot.rows_of_facets(respect.facets) if text and respect.facets else None
        weight = default_weight(spec) if respect.words else 0.0
        tau = default_tau(spec, text=text and weight > 0)
        parts = self._parts(position, respect, text=text)
        if not parts:
            return None
        allowed = snapshot.live.copy()
        allowed[position] = False
        if among is not None:
            allowed &= snapshot.papers_of_facets(respect.facets)
        words = QueryVectors(
            snapshot.words if weight else None, [part.words for part in parts], weight=weight
        )
        beside = NO_ROWS if among is None else {respect.facets: among}
        depth = depth_for(parts, 1, least=_CANDIDATES, words=weight > 0)
        near = list_candidates(
            snapshot, parts, n_papers=depth, first=depth, allowed=allowed, words=words, among=beside
        )
        if not near:
            return None
        comparison = Comparison(
            snapshot,
            parts,
            scorer=respect.scorer,
            settings=replace(SERVING, tau=tau),
            words=words,
            among=beside,
            specificity=default_specificity(spec),
            apart_from=[position],
        )
        n_best = min(_NEIGHBOURS, len(near))
        ranked = comparison.rank(np.array(near), strategy=Strategy.ANY, negative_weight=0.0, n_best=n_best)
        return float(ranked.reaches[0]), float(ranked.reaches[n_best - 1])

    def _parts(self, position: int, respect: Respect, *, text: bool) -> list[Part]:
        """Return a paper's parts as a query: its sentences of the facets, or only the longest for a ``text``.

        No parts if the paper has no such sentence.
        """
        paper, vectors = self._snapshot.paper(position), self._snapshot.vectors(position)
        unit = self._snapshot.manifest.encoder.unit
        contrast = Contrast(facets=respect.unlike) if respect.unlike else None
        aspect = Aspect(facets=respect.facets, unlike=contrast)
        try:
            selection = select_sentences(aspect, paper, n_vectors=len(vectors), unit=unit)
        except SentenceSelectionError:  # all sentences are to be unlike
            return []
        if not selection.like:
            return []
        if text:
            longest = max(selection.like, key=lambda number: len(paper.sentences[number].text))
            words = QueryWords(paper, (longest,), 1.0)
            return [Part(vectors[[longest]], (longest,), words=words, beside=respect.facets)]
        return query_parts(aspect, selection, paper, vectors, unit=unit)
