"""The words of all segments of a generation: their rarities, and the similarity of papers by words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from threading import Lock
from typing import Final

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt64

from indexer.spare_cores import on_spare_cores
from indexer.words.file import MAX_COUNT, SegmentWords
from indexer.words.kernels import add_products, add_shared, nearest_of
from models.checksums import hash64
from models.text.words import WordCounts

# The weight of a word by its count, before its rarity: sublinear term frequency.
_TEMPERED = np.concatenate([[0.0], 1 + np.log(np.arange(1, MAX_COUNT + 1))])

# A million take 2 ms; the words of an abstract have 1.3 million postings in 188,635 papers.
MAX_POSTINGS: Final = 1 << 22
# How many of the rarest words of a text are looked up one by one.
_MAX_RARE_WORDS: Final = 64
# Papers whose norms are computed at once: 50 MB.
_PAPERS_AT_ONCE: Final = 1 << 15
# Papers: starting a thread takes 0.1 ms, searching this many 2 ms.
_WORTH_THREADS: Final = 100_000
# Texts share most of their words; a cached hash takes a thirtieth of the time.
_hash = lru_cache(maxsize=1 << 14)(hash64)


@dataclass(frozen=True, slots=True)
class WordVector:
    """The words of a text: ``weights`` of the stems with these ``hashes``, ascending; of norm 1, or empty.

    ``stems`` are the stems in the same order.
    """

    hashes: UInt64[np.ndarray, " n_words"]
    weights: Float64[np.ndarray, " n_words"]
    stems: tuple[str, ...]

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> "WordVector":
        """Return the vector of stems with these weights, scaled to norm 1."""
        words = sorted((_hash(stem), stem) for stem in weights)
        return cls(
            np.array([hashed for hashed, _ in words], dtype=np.uint64),
            _unit(np.array([weights[stem] for _, stem in words], dtype=np.float64)),
            tuple(stem for _, stem in words),
        )

    def shared(self, other: "WordVector") -> dict[str, float]:
        """Return the stems that both have, with the contribution of each to their cosine."""
        _, own, others = np.intersect1d(self.hashes, other.hashes, assume_unique=True, return_indices=True)
        added = (self.weights[own] * other.weights[others]).tolist()
        return {self.stems[place]: each for place, each in zip(own.tolist(), added, strict=True)}


class CollectionWords:
    """The words of all segments; a word's rarity depends on its document frequency in all ``live`` papers.

    To find papers by words, at most ``most_postings`` postings of a segment are read.
    """

    def __init__(
        self,
        segments: Sequence[SegmentWords],
        live: Sequence[Bool[np.ndarray, "..."]],
        *,
        most_postings: int = MAX_POSTINGS,
    ) -> None:
        self._segments = tuple(segments)
        self._most_postings = most_postings
        self._known_norms: dict[int, Float64[np.ndarray, " n_papers"]] = {}
        self._norming = Lock()  # so that only one of several threads computes them
        self._starts = np.cumsum([0, *map(len, live)])
        self._n_papers = sum(int(np.count_nonzero(own)) for own in live)
        every = np.concatenate([np.empty(0, np.uint64), *(segment.words for segment in segments)])
        self._words, places = np.unique(every, return_inverse=True)
        bounds = np.cumsum([0, *(len(segment.words) for segment in segments)])
        own_places = [places[start:end] for start, end in pairwise(bounds)]
        frequencies = np.zeros(len(self._words), dtype=np.int64)
        for segment, own, own_living in zip(segments, own_places, live, strict=True):
            frequencies[own] += segment.frequencies(own_living)
        self._rarities = self._rarity(frequencies)
        # The rarities of each segment's stems, by their numbers.
        self._own_rarities = [self._rarities[own] for own in own_places]

    def vector(self, bags: Iterable[tuple[float, WordCounts]]) -> WordVector:
        """Return the sum of the tf-idf vectors (norm 1) of bags of words, times their shares, at norm 1."""
        weights: dict[str, float] = {}
        for share, bag in bags:
            for stem, weight in zip(bag, share * self._tfidf(bag), strict=True):
                weights[stem] = weights.get(stem, 0.0) + float(weight)
        return WordVector.of(weights)

    def joined(self, vectors: Sequence[WordVector], counts: Float64[np.ndarray, " n_vectors"]) -> WordVector:
        """Return the sum of ``vectors``, weighted by ``counts``, scaled to norm 1."""
        weights: dict[str, float] = {}
        for vector, count in zip(vectors, counts.tolist(), strict=True):
            if count:
                for stem, weight in zip(vector.stems, vector.weights.tolist(), strict=True):
                    weights[stem] = weights.get(stem, 0.0) + count * weight
        return WordVector.of(weights)

    def cosines(
        self, vectors: Sequence[WordVector], positions: Int64[np.ndarray, " k"]
    ) -> Float64[np.ndarray, "n_vectors k"]:
        """Return the cosine of each vector with each paper; 0 if either has no words."""
        found = np.zeros((len(vectors), len(positions)))
        for number, (start, end) in enumerate(zip(self._starts, self._starts[1:], strict=False)):
            own = np.flatnonzero((positions >= start) & (positions < end))
            if len(own):
                found[:, own] = self._cosines(number, vectors, positions[own] - start)
        return found

    def shared(self, vector: WordVector, position: int) -> dict[str, float]:
        """Return the stems that a paper shares with ``vector``, with their contributions to the cosine."""
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        segment, own = self._segments[number], position - int(self._starts[number])
        cells = slice(*segment.paper_starts[own : own + 2])
        numbers, counts = segment.numbers[cells], segment.counts[cells]
        places = _places(vector.hashes, segment.words[numbers])
        shared = np.flatnonzero(places >= 0)
        tfidf = _TEMPERED[counts[shared]] * self._own_rarities[number][numbers[shared]]
        added = tfidf / self._norms(number)[own] * vector.weights[places[shared]]
        return {vector.stems[place]: each for place, each in zip(places[shared], added.tolist(), strict=True)}

    def _cosines(
        self, number: int, vectors: Sequence[WordVector], papers: Int64[np.ndarray, " k"]
    ) -> Float64[np.ndarray, "n_vectors k"]:
        segment, rarities = self._segments[number], self._own_rarities[number]
        products = np.zeros((len(vectors), len(papers)))
        weights = np.zeros(len(segment.words))  # of one vector at a time
        cells = segment.paper_starts, segment.numbers, segment.counts
        for vector, own in zip(vectors, products, strict=True):
            places = _places(segment.words, vector.hashes)
            known = np.flatnonzero(places >= 0)
            weights[places[known]] = vector.weights[known]
            add_products(*cells, papers, weights, rarities, _TEMPERED, own)
            weights[places[known]] = 0.0
        norms = self._norms(number)[papers]
        found: Float64[np.ndarray, "n_vectors k"] = np.divide(
            products, norms, where=norms > 0, out=np.zeros_like(products)
        )
        return found

    def nearest(
        self, vector: WordVector, n_papers: int, *, allowed: Bool[np.ndarray, " n_positions"]
    ) -> Int64[np.ndarray, " n_found"]:
        """Return at most ``n_papers`` of the ``allowed`` papers that share a word with ``vector``.

        Nearest first, ties by position. If the words of the vector have too many postings, only those with
        the largest weights are looked up in each segment, so the order is then approximate.
        """

        def nearest_in(
            number: int, start: int, end: int
        ) -> tuple[Int64[np.ndarray, " n_found"], Float64[np.ndarray, " n_found"]]:
            n_most = min(n_papers, end - start)
            places, cosines = np.empty(n_most, dtype=np.int64), np.empty(n_most)
            sums, norms = self._sums(number, vector), self._norms(number)
            n_found = nearest_of(sums, norms, allowed[start:end], places, cosines)
            return places[:n_found] + start, cosines[:n_found]

        tasks = [
            partial(nearest_in, number, start, end)
            for number, (start, end) in enumerate(pairwise(self._starts.tolist()))
        ]
        found = on_spare_cores(tasks, worth_it=len(allowed) >= _WORTH_THREADS)
        positions = np.concatenate([np.empty(0, dtype=np.int64), *(places for places, _ in found)])
        alike = np.concatenate([np.empty(0), *(cosines for _, cosines in found)])
        return positions[np.lexsort((positions, -alike))[:n_papers]]

    def rarest(
        self, vector: WordVector, n_papers: int, *, allowed: Bool[np.ndarray, " n_positions"]
    ) -> list[int]:
        """Return up to ``n_papers`` ``allowed`` papers, first those with the rarest words of ``vector``.

        So a name is found in a text of many other words. Papers with the same word come by position. The
        words looked up, and their postings, are bounded, so that long texts do not take long.
        """
        places = _places(self._words, vector.hashes)
        known = places[places >= 0]
        found: dict[int, None] = {}
        n_read = 0
        for place in known[np.argsort(-self._rarities[known], kind="stable")][:_MAX_RARE_WORDS].tolist():
            if len(found) >= n_papers or n_read > self._most_postings:
                break
            for segment, start in zip(self._segments, self._starts.tolist(), strict=False):
                number = int(_places(segment.words, self._words[place : place + 1])[0])
                if number >= 0:
                    own = segment.papers[slice(*segment.word_starts[number : number + 2])] + start
                    n_read += len(own)
                    found.update(dict.fromkeys(own[allowed[own]][:n_papers].tolist()))
        return list(found)[:n_papers]

    def with_all(
        self, stems: Sequence[str], *, allowed: Bool[np.ndarray, " n_positions"]
    ) -> Int64[np.ndarray, " n_found"]:
        """Return the ``allowed`` papers with all of the ``stems``, by position; without stems, none."""
        hashes = np.unique(np.array([_hash(stem) for stem in stems], dtype=np.uint64))
        found = [np.empty(0, dtype=np.int64)]
        for segment, start in zip(self._segments, self._starts.tolist(), strict=False):
            numbers = _places(segment.words, hashes)
            if not len(numbers) or numbers.min() < 0:
                continue
            bounds = np.stack([segment.word_starts[numbers], segment.word_starts[numbers + 1]], axis=1)
            bounds = bounds[np.argsort(bounds[:, 1] - bounds[:, 0], kind="stable")]  # the rarest first
            own = segment.papers[slice(*bounds[0])]
            for first, last in bounds[1:].tolist():
                own = own[_places(segment.papers[first:last], own) >= 0]
            found.append(own.astype(np.int64) + start)
        positions = np.concatenate(found)
        kept: Int64[np.ndarray, " n_found"] = positions[allowed[positions]]
        return kept

    def _sums(self, number: int, vector: WordVector) -> Float64[np.ndarray, " n_papers"]:
        """Return the dot product of each paper of a segment with ``vector``, not divided by its norm."""
        segment, rarities = self._segments[number], self._own_rarities[number]
        sums = np.zeros(len(segment.paper_starts) - 1)
        numbers = _places(segment.words, vector.hashes)
        counted = vector.weights * np.where(numbers >= 0, rarities[numbers] if len(rarities) else 0.0, 0.0)
        heaviest = np.argsort(-counted, kind="stable")
        heaviest = heaviest[counted[heaviest] > 0]
        bounds = segment.word_starts[numbers[heaviest]], segment.word_starts[numbers[heaviest] + 1]
        n_read = np.searchsorted(np.cumsum(bounds[1] - bounds[0]), self._most_postings, side="right")
        starts, ends, weights = (each[:n_read] for each in (*bounds, counted[heaviest]))
        add_shared(segment.papers, segment.times, starts, ends, weights, _TEMPERED, sums)
        return sums

    def _norms(self, number: int) -> Float64[np.ndarray, " n_papers"]:
        """Return the norms of the papers of a segment, computed at the first call."""
        with self._norming:
            if number not in self._known_norms:
                self._known_norms[number] = _norms_of(self._segments[number], self._own_rarities[number])
            return self._known_norms[number]

    def _tfidf(self, bag: WordCounts) -> Float64[np.ndarray, " n"]:
        counts = np.fromiter(bag.values(), dtype=np.int64, count=len(bag))
        hashes = np.fromiter(map(_hash, bag), dtype=np.uint64, count=len(bag))
        places = _places(self._words, hashes)
        # A word that no paper has is the rarest.
        rarest = self._rarity(np.zeros(len(bag), dtype=np.int64))
        rarities = rarest if not len(self._words) else np.where(places >= 0, self._rarities[places], rarest)
        return _unit(_TEMPERED[np.minimum(counts, MAX_COUNT)] * rarities)

    def _rarity(self, frequencies: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """Return inverse document frequencies, smoothed as in scikit-learn."""
        rarities: Float64[np.ndarray, " n"] = np.log((1 + self._n_papers) / (1 + frequencies)) + 1
        return rarities


def _norms_of(
    segment: SegmentWords, rarities: Float64[np.ndarray, " n_words"]
) -> Float64[np.ndarray, " n_papers"]:
    """Return the norms of the papers of a segment."""
    norms = np.empty(len(segment.paper_starts) - 1)
    for first in range(0, len(norms), _PAPERS_AT_ONCE):
        starts = segment.paper_starts[first : first + _PAPERS_AT_ONCE + 1]
        cells, n_papers = slice(starts[0], starts[-1]), len(starts) - 1
        tfidf = _TEMPERED[segment.counts[cells]] * rarities[segment.numbers[cells]]
        paper_of_cell = np.repeat(np.arange(n_papers), np.diff(starts))
        squares = np.bincount(paper_of_cell, weights=tfidf * tfidf, minlength=n_papers)
        norms[first : first + n_papers] = np.sqrt(squares)
    return norms


def _places(ascending: np.ndarray, values: np.ndarray) -> Int64[np.ndarray, " n"]:
    """Return the place of each of ``values`` in ``ascending``, or -1 if it is not there."""
    if not len(ascending):
        return np.full(len(values), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: Int64[np.ndarray, " n"] = np.where(ascending[places] == values, places, -1)
    return found


def _unit(values: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    norm = np.linalg.norm(values)
    return values / norm if norm > 0 else values
