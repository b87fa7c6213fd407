"""Shared words of a query and a paper: their weights and the distance by words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from jaxtyping import Bool, Float64, Int64

from indexer.words.collection import CollectionWords, WordVector
from models.text.words import WordCounts, common_stems, count_words, phrases, spellings_of, stems
from models.types import NO_WORDS, EncoderSpec, MatchedWords, Paper, SharedWord
from service.context import check_deadline

# The weight of words, in units of distance between sentences. Raw vectors have norms of about 10 and so are
# about 10 times farther apart. Measured: docs/decisions/retrieval/shared-words.md.
_WEIGHT_OF_UNIT_VECTORS = 1.0
_WEIGHT_OF_RAW_VECTORS = 10.0
MAX_WEIGHT = 1e6

# The most shared words named for a result, and the most quoted phrases of a query that are looked up.
MAX_TERMS = 10
MAX_PHRASES = 8
# A longer text is never taken for a title.
MAX_TITLE_CHARS = 400


def default_weight(spec: EncoderSpec) -> float:
    """Return the default weight of words next to the distances of an encoder's vectors."""
    return _WEIGHT_OF_UNIT_VECTORS if spec.normalised else _WEIGHT_OF_RAW_VECTORS


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The words of a query paper that count: a ``share`` from the ``chosen`` sentences, the rest from all."""

    paper: Paper
    chosen: tuple[int, ...] = ()
    share: float = 0.0

    def bags(self) -> list[tuple[float, WordCounts]]:
        """Return word counts by stem, in bags with their shares."""
        bags = []
        if self.share < 1:
            bags.append((1 - self.share, count_words(self.paper.title, self.paper.abstract)))
        if self.share > 0:
            chosen = " ".join(self.paper.sentences[number].text for number in self.chosen)
            bags.append((self.share, count_words("", chosen)))
        return bags

    @property
    def phrases(self) -> list[str]:
        """The quoted phrases, if the query was typed or pasted; none for an indexed paper."""
        return [] if self.paper.id else phrases(f"{self.paper.title} {self.paper.abstract}")

    @property
    def maybe_title(self) -> str:
        """The typed text, if it may be the title of a paper; otherwise empty."""
        typed = "" if self.paper.id or self.paper.title else self.paper.abstract
        return typed if len(typed) <= MAX_TITLE_CHARS else ""


@dataclass(frozen=True, slots=True)
class SharedWords:
    """Search in a collection by the words shared with a query, given as ``vector``.

    The query text is the title of the papers at the positions ``titled``.
    """

    words: CollectionWords
    vector: WordVector
    weight: float
    phrases: tuple[str, ...] = ()
    titled: tuple[int, ...] = ()

    def nearest(
        self, n_papers: int, allowed: Bool[np.ndarray, " n_positions"]
    ) -> Int64[np.ndarray, " n_found"]:
        """Return at most ``n_papers`` of the ``allowed`` papers, nearest first."""
        return self.words.nearest(self.vector, n_papers, allowed=allowed)

    def with_words_of(
        self, phrase: str, n_papers: int, allowed: Bool[np.ndarray, " n_positions"]
    ) -> Int64[np.ndarray, " n_found"]:
        """Return at most ``n_papers`` ``allowed`` papers with every word of ``phrase``, nearest first."""
        having = np.zeros(len(allowed), dtype=bool)
        having[self.words.with_all(stems(phrase, names=False), allowed=allowed)] = True
        return self.nearest(n_papers, having)

    def rarest(self, n_papers: int, allowed: Bool[np.ndarray, " n_positions"]) -> list[int]:
        """Return at most ``n_papers`` of the ``allowed`` papers, those with the rarest word first."""
        return self.words.rarest(self.vector, n_papers, allowed=allowed)

    def cosines(self, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
        """Return the cosine of the query with each paper; 0 if either has no words."""
        cosines: Float64[np.ndarray, " k"] = self.words.cosines([self.vector], positions)[0]
        return cosines


class QueryVectors:
    """The word vectors of a query's parts for one collection; with ``weight`` 0 words do not count.

    A typed text that is the title of a paper, found by ``same_title``, has distance 0 from it by words.
    """

    def __init__(
        self,
        words: CollectionWords | None,
        parts: Sequence[QueryWords | None],
        *,
        weight: float,
        same_title: Callable[[str], Sequence[int]] | None = None,
    ) -> None:
        self._words = words
        self._titled: list[Sequence[int]] = []
        self._vectors: list[WordVector] = []
        self._phrases: list[list[str]] = []
        self.weight = 0.0 if words is None else weight
        if words is not None:
            for part in parts:
                check_deadline()
                self._vectors.append(words.vector([] if part is None else part.bags()))
                self._phrases.append([] if part is None else part.phrases)
                title = "" if part is None or same_title is None else part.maybe_title
                self._titled.append(same_title(title) if title and same_title is not None else ())

    def together(self, counts: Float64[np.ndarray, " n_parts"]) -> "SharedWords | None":
        """Return the words of all parts, weighted by ``counts``; ``None`` if words do not count."""
        if self._words is None or not self.weight:
            return None
        together = self._words.joined(self._vectors, counts)
        counted = (own for own, count in zip(self._phrases, counts.tolist(), strict=True) if count)
        phrases_of_all = tuple(dict.fromkeys(chain.from_iterable(counted)))[:MAX_PHRASES]
        titled = (own for own, count in zip(self._titled, counts.tolist(), strict=True) if count)
        titled_of_all = tuple(dict.fromkeys(chain.from_iterable(titled)))
        return SharedWords(self._words, together, self.weight, phrases_of_all, titled_of_all)

    def distances(self, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, "n_parts k"]:
        """Return the distance by words, 0 to 1, of each part from each paper; no rows without words."""
        if self._words is None:
            return np.empty((0, len(positions)))
        distances: Float64[np.ndarray, "n_parts k"] = 1 - self._words.cosines(self._vectors, positions)
        distances[distances < 0] = 0.0  # equal texts may round to less
        for own, titled in zip(distances, self._titled, strict=True):
            if titled:
                own[np.isin(positions, titled)] = 0.0
        return distances

    def matched(
        self,
        position: int,
        counts: Float64[np.ndarray, " n_parts"],
        *,
        distance: float,
        paper: Paper | None,
    ) -> MatchedWords:
        """Return the words that contribute most to the score of the ``paper`` at ``position``.

        Without the ``paper``, whose text shows how the words are written, none are named. ``counts`` are how
        much each part counts, below 0 for parts to be unlike; ``distance`` is the sum of the parts' distances
        weighted by ``counts``.
        """
        if self._words is None or not self.weight:
            return NO_WORDS
        if paper is None:
            return MatchedWords(self.weight, distance, ())
        added: dict[str, float] = {}
        for number in np.flatnonzero(counts).tolist():
            check_deadline()
            for stem, product in self._words.shared(self._vectors[number], position).items():
                added[stem] = added.get(stem, 0.0) + float(counts[number]) * product
        return self._matched_words(added, distance, paper)

    def matched_text(self, paper: Paper) -> MatchedWords:
        """The same as ``matched``, but for a single part and a ``paper`` outside the collection."""
        if self._words is None or not self.weight:
            return NO_WORDS
        added = self._vectors[0].shared(self._words.vector(QueryWords(paper).bags()))
        return self._matched_words(added, max(1 - sum(added.values()), 0.0), paper)

    def _matched_words(self, added: Mapping[str, float], distance: float, paper: Paper) -> MatchedWords:
        total = sum(map(abs, added.values()))
        telling = [stem for stem in added if added[stem] and stem not in common_stems()]
        heaviest = sorted(telling, key=lambda stem: (-abs(added[stem]), stem))[:MAX_TERMS]
        written = spellings_of(f"{paper.title} {paper.abstract}", heaviest)
        # If a text was indexed with other stemming rules, its stems may not be found in it today.
        terms = tuple(SharedWord(written.get(stem, stem), added[stem] / total) for stem in heaviest)
        return MatchedWords(self.weight, distance, terms)


WITHOUT_WORDS: Final = QueryVectors(None, (), weight=0.0)
