"""Shared words of a query and a paper: their weights and their distance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from jaxtyping import Bool, Float64, Int64

from indexer.words.collection import CollectionWords, WordVector
from models.text.words import WordCounts, count_words, everyday_stems, phrases, stems, written_as
from models.types import NO_WORDS, EncoderSpec, MatchedWords, Paper, SharedWord
from service.context import check_deadline

# What words weigh beside distances between sentences, in units of these. Raw vectors, whose norms
# are about 10, lie as many times farther apart. Measured: docs/decisions/retrieval/shared-words.md.
_WEIGHT_OF_UNIT_VECTORS = 1.0
_WEIGHT_OF_RAW_VECTORS = 10.0
MAX_WEIGHT = 1e6

# The most words of one result, and the most quoted phrases of a query that are looked up.
MAX_TERMS = 10
MAX_PHRASES = 8
# A longer text is no title.
MAX_TITLE_CHARS = 400


def default_weight(spec: EncoderSpec) -> float:
    """What words weigh beside the distances of an encoder's vectors."""
    return _WEIGHT_OF_UNIT_VECTORS if spec.normalised else _WEIGHT_OF_RAW_VECTORS


@dataclass(frozen=True, slots=True)
class QueryWords:
    """Which words of a query paper count: for a ``share`` those of the ``chosen`` sentences, else all."""

    paper: Paper
    chosen: tuple[int, ...] = ()
    share: float = 0.0

    def bags(self) -> list[tuple[float, WordCounts]]:
        """How often each stem counts, in bags that count for their shares."""
        bags = []
        if self.share < 1:
            bags.append((1 - self.share, count_words(self.paper.title, self.paper.abstract)))
        if self.share > 0:
            chosen = " ".join(self.paper.sentences[number].text for number in self.chosen)
            bags.append((self.share, count_words("", chosen)))
        return bags

    @property
    def phrases(self) -> list[str]:
        """What is quoted in it, where it was typed or pasted."""
        return [] if self.paper.id else phrases(f"{self.paper.title} {self.paper.abstract}")

    @property
    def maybe_title(self) -> str:
        """The text that was typed, where it may be the title of a paper; empty for all others."""
        typed = "" if self.paper.id or self.paper.title else self.paper.abstract
        return typed if len(typed) <= MAX_TITLE_CHARS else ""


@dataclass(frozen=True, slots=True)
class SharedWords:
    """Papers of a collection by the words that they share with a query, ``vector``.

    It is the title of those at the positions ``titled``.
    """

    words: CollectionWords
    vector: WordVector
    weight: float
    phrases: tuple[str, ...] = ()
    titled: tuple[int, ...] = ()

    def nearest(
        self, n_papers: int, allowed: Bool[np.ndarray, " n_positions"]
    ) -> Int64[np.ndarray, " n_found"]:
        """At most ``n_papers`` of the ``allowed`` papers, nearest first."""
        return self.words.nearest(self.vector, n_papers, allowed=allowed)

    def with_words_of(
        self, phrase: str, n_papers: int, allowed: Bool[np.ndarray, " n_positions"]
    ) -> Int64[np.ndarray, " n_found"]:
        """At most ``n_papers`` of the ``allowed`` papers with every word of ``phrase``, nearest first."""
        having = np.zeros(len(allowed), dtype=bool)
        having[self.words.with_all(stems(phrase, names=False), allowed=allowed)] = True
        return self.nearest(n_papers, having)

    def rarest(self, n_papers: int, allowed: Bool[np.ndarray, " n_positions"]) -> list[int]:
        """At most ``n_papers`` of the ``allowed`` papers, those first that have the rarest word."""
        return self.words.rarest(self.vector, n_papers, allowed=allowed)

    def cosines(self, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
        """The cosine of the query with each paper; 0 where either has no word."""
        cosines: Float64[np.ndarray, " k"] = self.words.cosines([self.vector], positions)[0]
        return cosines


class QueryVectors:
    """The parts of a query by their words, beside a collection's; ``weight`` 0: words do not count.

    A typed text that is the title of a paper, found by ``same_title``, is at no distance from it by words.
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
        """The words of all parts, each as much as ``counts`` says; None where words do not count."""
        if self._words is None or not self.weight:
            return None
        together = self._words.joined(self._vectors, counts)
        counted = (own for own, count in zip(self._phrases, counts.tolist(), strict=True) if count)
        phrases_of_all = tuple(dict.fromkeys(chain.from_iterable(counted)))[:MAX_PHRASES]
        titled = (own for own, count in zip(self._titled, counts.tolist(), strict=True) if count)
        titled_of_all = tuple(dict.fromkeys(chain.from_iterable(titled)))
        return SharedWords(self._words, together, self.weight, phrases_of_all, titled_of_all)

    def distances(self, positions: Int64[np.ndarray, " k"]) -> Float64[np.ndarray, "n_parts k"]:
        """How far each part is from each of the papers, from 0 to 1; no rows without words."""
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
        """What words have to do with the score of the ``paper`` at ``position``: those that count most.

        Without the ``paper``, whose text shows how it writes them, none are named. ``counts`` are how much
        each part counts, under 0 for what the paper should be unlike; ``distance`` is the sum of what they
        make of each part's.
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
        return self._told(added, distance, paper)

    def matched_text(self, paper: Paper) -> MatchedWords:
        """The same of the only part and a ``paper`` that is not in the collection."""
        if self._words is None or not self.weight:
            return NO_WORDS
        added = self._vectors[0].shared(self._words.vector(QueryWords(paper).bags()))
        return self._told(added, max(1 - sum(added.values()), 0.0), paper)

    def _told(self, added: Mapping[str, float], distance: float, paper: Paper) -> MatchedWords:
        total = sum(map(abs, added.values()))
        telling = [stem for stem in added if added[stem] and stem not in everyday_stems()]
        heaviest = sorted(telling, key=lambda stem: (-abs(added[stem]), stem))[:MAX_TERMS]
        written = written_as(f"{paper.title} {paper.abstract}", heaviest)
        # A text that was stemmed by other rules when it was indexed may write none of its stems today.
        terms = tuple(SharedWord(written.get(stem, stem), added[stem] / total) for stem in heaviest)
        return MatchedWords(self.weight, distance, terms)


WITHOUT_WORDS: Final = QueryVectors(None, (), weight=0.0)
