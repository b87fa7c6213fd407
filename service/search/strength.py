"""Strength: compares a match with the usual matches in the collection.

A distance says little by itself: some queries are near to everything. So a result's ``reach`` is its distance
as a share of the query's usual distance, over a sample of the collection (rerank.py). Reaches are compared
with a scale: the reaches from sampled papers of the collection to their nearest neighbours, found in the same
respect. Each seed of a query has its own scale. Measured: docs/decisions/retrieval/strength.md.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
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
from service.search.rerank import Comparison
from service.search.words import QueryVectors, QueryWords, default_weight

# Sampled papers whose nearest neighbours make up a scale.
_SAMPLE_PAPERS: Final = 32
# The candidates of each sampled paper that are compared with it; the nearest is often not among the first 5.
_CANDIDATES: Final = 200
# A scale holds the reaches of the nearest neighbours and of the last of so many. News need not be nearest.
_NEIGHBOURS: Final = 5
# A query with more respects has no strength: the first of its kind would measure a scale for each.
_MAX_RESPECTS: Final = 16
# A scale of fewer papers says nothing.
_MIN_SCALE_PAPERS: Final = 16
# The least share of sampled papers whose nearest neighbour is farther than a result with this label.
_STRONG: Final = 0.5
_FAIR: Final = 0.05


@dataclass(frozen=True, slots=True)
class Respect:
    """The respect in which a scale is measured: facets (empty: whole papers), scorer, ``tau``, use of words.

    For a ``text``, the scale is measured from single sentences of the facets, and only to sentences of the
    facets, because a text is compared with those. With facets to be ``unlike``, the neighbours are those that
    such a search finds: they are farther away. The weight of the facets to be unlike is the default.
    """

    facets: tuple[Facet, ...]
    scorer: Scorer
    tau: float
    words: bool
    text: bool = False
    unlike: tuple[Facet, ...] = ()


# For each respect, the numbers of its parts, counted among the parts to be like. Empty without a scale.
Respects = Mapping[Respect, Sequence[int]]


def respects_of(
    query: SearchQuery, parts: Sequence[Part], spec: EncoderSpec, *, tau: float, words: float
) -> Respects:
    """Return the respects of a query with these parts: each seed has its own facets, text and contrast.

    Empty for more than _MAX_RESPECTS, or if one of them has no scale: a seed sets a focus or chooses
    sentences to be unlike by number, or the query's ``tau`` is not the usual ``tau``, or its specificity,
    weight of ``words`` (unless 0) or of a contrast is not the default. Other sentences chosen by number
    have the scale of whole papers.
    """
    usual = query.tau in {None, tau} and query.specificity in {None, default_specificity(spec)}
    if not usual or words not in {0, default_weight(spec)}:
        return {}
    contrasted = {part.seed for part in parts if part.away and not part.negative}
    respects: dict[Respect, list[int]] = {}
    for number, part in enumerate(part for part in parts if not part.away):
        seed = query.seeds[part.seed]
        contrast = (part.seed in contrasted and seed.aspect.unlike) or Contrast()
        if seed.aspect.focus is not None or contrast != Contrast(facets=contrast.facets):
            return {}
        facets, unlike = _distinct(seed.aspect.facets), _distinct(contrast.facets)
        respect = Respect(facets, query.scorer, tau, words > 0, seed.text is not None, unlike)
        respects.setdefault(respect, []).append(number)
    return respects if len(respects) <= _MAX_RESPECTS else {}


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


def _mean(scales: Sequence[Float64[np.ndarray, "2 _"]], shares: Sequence[float]) -> _Scale:
    """Return the mean of scales, nearest with nearest and farthest with farthest, weighted by ``shares``."""
    if len(scales) == 1:
        return scales[0]
    n_sampled = min(scale.shape[1] for scale in scales)
    at = (np.arange(n_sampled) + 0.5) / n_sampled
    alike = [
        scale if scale.shape[1] == n_sampled else np.quantile(scale, at, axis=1, method="hazen").T
        for scale in scales
    ]
    return np.asarray(sum(share * scale for share, scale in zip(shares, alike, strict=True)))


def _farther(scale: _Scale, reach: float) -> list[float]:
    """Return the shares of sampled papers farther from their nearest neighbour, and from the last."""
    return [1 - float(np.searchsorted(own, reach, side="right")) / len(own) for own in scale]


class Strengths:
    """The scales of one snapshot, each measured when first needed, by a few searches without explanation.

    A scale is the same for the same files; this process keeps the scales of recent snapshots by the
    ``digest`` of their content. Safe to share between threads: if several need a scale, one measures it.
    """

    def __init__(self, snapshot: Snapshot, digest: bytes) -> None:
        self._snapshot = snapshot
        self._digest = digest

    def of(
        self,
        respects: Respects,
        reaches: Float64[np.ndarray, " n_like"],
        shares: Float64[np.ndarray, " n_like"],
        *,
        strategy: Strategy,
        whole: bool = True,
    ) -> Strength | None:
        """Return the strength of a match with these ``reaches``; ``None`` without scales to measure it on.

        With ``Strategy.ANY`` it is the greatest of the seeds' strengths, each on the seed's own scale. With
        ``Strategy.ALL`` it is that of the mean reach on the mean scale, both weighted by ``shares``.

        There is none without ``respects``, if too few papers are measured in one of them, or if the answer is
        not of the ``whole`` collection, as a part is away, and a scale was not measured before.

        Raises DeadlineError; ShardAwayError if a part has gone away since the whole collection was searched.
        """
        scales = [self._scale(respect, whole=whole) for respect in respects]
        known = [scale for scale in scales if scale is not None and scale.shape[1] >= _MIN_SCALE_PAPERS]
        if not known or len(known) < len(respects):
            return None
        if strategy is Strategy.ALL:
            held = [float(shares[numbers].sum()) for numbers in respects.values()]
            compared = [(float(shares @ reaches), _mean(known, held))]
        else:
            given = reaches.tolist()
            nearest_seeds = (min(given[number] for number in numbers) for numbers in respects.values())
            compared = list(zip(nearest_seeds, known, strict=True))
        nearest, last = map(max, zip(*(_farther(scale, reach) for reach, scale in compared), strict=True))
        related = max(nearest, last) >= _FAIR
        if nearest >= _STRONG:
            return Strength(StrengthLabel.STRONG, nearest, related)
        label = StrengthLabel.FAIR if nearest >= _FAIR else StrengthLabel.WEAK
        return Strength(label, nearest, related)

    def _scale(self, respect: Respect, *, whole: bool) -> _Scale | None:
        key = (self._digest, respect)
        with _scales_lock:
            scale = _scales.get(key)
        if scale is None and self._snapshot.away:
            # A scale measured now would be that of only a part of the collection.
            if whole:
                raise ShardAwayError("A machine that holds a part of the collection went away; try again.")
            return None
        return _measuring.run(key, lambda: self._measured(key)) if scale is None else scale

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
            settings=replace(SERVING, tau=respect.tau),
            words=words,
            among=beside,
            specificity=default_specificity(spec),
            apart_from=[position],
        )
        n_best = min(_NEIGHBOURS, len(near))
        ranked = comparison.rank(np.array(near), strategy=Strategy.ANY, negative_weight=0.0, n_best=n_best)
        return float(ranked.reaches[0, 0]), float(ranked.reaches[0, n_best - 1])

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
