"""Comparison of two papers: affinity, nearest sentences, facets and words."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from models.text.words import common_stems, spellings_of
from models.transport.problem import nearest_distances
from models.types import Alignment, Facet, Paper, RankedPaper
from service.answer_warnings import AnswerWarning
from service.match.paper_distances import PaperDistances
from service.search.engine import SearchEngine
from service.search.query import Seed
from service.search.seeds import EncodedSeed
from service.search.words import MAX_TERMS, QueryWords

# The number of cells of a plan between two of the longest abstracts that are encoded whole.
_ALL_ALIGNMENTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class NearestSentence:
    """The sentence of the other paper that is nearest to a sentence of this paper, at ``distance`` (L2).

    ``usual`` is the mean distance to the nearest sentence of each of the sampled other papers, ``None``
    without any. A sentence whose nearest one is not nearer than that is only in this paper (``alone``).
    """

    nearest: int
    distance: float
    usual: float | None

    @property
    def alone(self) -> bool:
        """Whether the other paper has no similar sentence."""
        return self.usual is not None and self.distance >= self.usual


@dataclass(frozen=True, slots=True)
class Side:
    """One of two papers: the nearest sentence of the other paper for each encoded one, and its words.

    ``terms`` are the words that only this paper has, as it writes them, the heaviest first. ``affinity`` is 1
    minus the distance of the other paper as a share of this one's usual distance: 1 for the same text.
    ``other`` is the other paper as a result of a search for this one.
    """

    paper: Paper
    dropped_sentences: int
    sentences: tuple[NearestSentence, ...]
    terms: tuple[str, ...]
    affinity: float
    other: RankedPaper


@dataclass(frozen=True, slots=True)
class FacetShare:
    """The share of the match from a to b between sentences of two facets, and their mean distance."""

    a: Facet | None
    b: Facet | None
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two papers compared in both directions; ``facets`` are heaviest first, and their weights sum to 1."""

    a: Side
    b: Side
    facets: tuple[FacetShare, ...]
    generation: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float


def side_by_side(engine: SearchEngine, a: Seed, b: Seed) -> SideBySide:
    """Compare two papers, each in the collection or pasted, as whole abstracts.

    Each side's score is minus the sum of weight x distance over its alignments and words, as in a search
    without specificity. Raises PaperNotFoundError, SentenceSelectionError, MissingVectorsError,
    EncoderMismatchError, DeadlineError.
    """
    started = time.perf_counter()
    nearness = PaperDistances(engine.snapshot)
    reader = engine.reader
    first, second = reader.read(a), reader.read(b)
    sides = _side(nearness, first, second), _side(nearness, second, first)
    return SideBySide(
        *sides,
        facets=_facets(sides[0].other.alignments, first.paper, second.paper),
        generation=engine.snapshot.generation,
        warnings=tuple(dict.fromkeys((*first.warnings, *second.warnings))),
        took_ms=(time.perf_counter() - started) * 1000,
    )


def _side(nearness: PaperDistances, own: EncodedSeed, other: EncodedSeed) -> Side:
    ranked = nearness.compared(own, other, max_alignments=_ALL_ALIGNMENTS)
    return Side(
        own.paper,
        own.dropped_sentences,
        tuple(_nearest(nearness, own, other)),
        _only(nearness, own.paper, other.paper),
        1 + ranked.score / nearness.usual(own),
        ranked,
    )


def _nearest(nearness: PaperDistances, own: EncodedSeed, other: EncodedSeed) -> Iterator[NearestSentence]:
    snapshot = nearness.snapshot
    # Every sentence of the other paper is treated as a paper.
    distances = nearest_distances(own.vectors, other.vectors, np.arange(len(other.vectors) + 1))
    known = [each.position for each in (own, other) if each.position is not None]
    others = nearness.sample[~np.isin(nearness.sample, known)]
    usual: list[float | None] = [None] * len(own.vectors)
    if len(others):
        usual = nearest_distances(own.vectors, *snapshot.gather(others)).mean(axis=1).tolist()
    for row, from_others in zip(distances, usual, strict=True):
        yield NearestSentence(int(row.argmin()), float(row.min()), from_others)


def _only(nearness: PaperDistances, own: Paper, other: Paper) -> tuple[str, ...]:
    words = nearness.snapshot.words
    if words is None:
        return ()
    vector, others = (words.vector(QueryWords(paper).bags()) for paper in (own, other))
    there = common_stems().union(others.stems)
    heaviest = sorted(
        (-weight, stem)
        for stem, weight in zip(vector.stems, vector.weights.tolist(), strict=True)
        if stem not in there
    )
    stems = [stem for _, stem in heaviest[:MAX_TERMS]]
    written = spellings_of(f"{own.title} {own.abstract}", stems)
    return tuple(written.get(stem, stem) for stem in stems)


def _facets(alignments: tuple[Alignment, ...], a: Paper, b: Paper) -> tuple[FacetShare, ...]:
    weights: dict[tuple[Facet | None, Facet | None], float] = {}
    costs: dict[tuple[Facet | None, Facet | None], float] = {}
    for cell in alignments:
        if cell.query_sentence is None or cell.sentence is None:
            continue  # only with one vector per paper, which is not compared here
        pair = a.sentences[cell.query_sentence].facet, b.sentences[cell.sentence].facet
        weights[pair] = weights.get(pair, 0.0) + cell.weight
        costs[pair] = costs.get(pair, 0.0) + cell.weight * cell.distance
    shares = [FacetShare(*pair, weight, costs[pair] / weight) for pair, weight in weights.items()]
    return tuple(sorted(shares, key=lambda share: -share.weight))
