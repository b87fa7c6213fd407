"""Answers of searches and recommendations: ranked papers with their explanation."""

from dataclasses import dataclass, field
from typing import Any

from akin.client.responses.lists import Described, Faceted, Results, named
from akin.client.responses.papers import AnswerWarning, FoundTitle, Paper, Sentence
from models.counts import counted


@dataclass(frozen=True, slots=True)
class Alignment:
    """A pair of a query sentence and a result sentence; ``None`` if the paper has only one vector."""

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class Omitted:
    """The sum of the ``count`` alignments with the smallest weights; ``distance`` is their mean."""

    count: int
    weight: float
    distance: float


@dataclass(frozen=True, slots=True)
class Highlight:
    """A sentence of a result, ``abstract[start:end]``, and its share of the match.

    The ``marked`` sentences are the fewest that make up most of the match, as on the page.
    """

    sentence: int | None
    start: int
    end: int
    weight: float
    marked: bool = True  # not given by an older service


@dataclass(frozen=True, slots=True)
class SharedWord:
    """A word that query and result share, as the result spells it, and its share among these words."""

    term: str
    share: float


@dataclass(frozen=True, slots=True)
class Words:
    """The distance of query and result by words, its weight, and the shared words that count most."""

    weight: float
    distance: float
    terms: tuple[SharedWord, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Strength:
    """The strength of a match, comparable between queries: ``label`` is strong, fair or weak.

    ``nearer_than`` is the share of papers, in a sample of the collection, whose own nearest paper is farther
    away than this result is from the query.
    """

    label: str
    nearer_than: float


@dataclass(frozen=True, slots=True, repr=False)
class Result(Described):
    """One paper with its score, higher is better.

    The score is minus the sum of weight x distance over ``alignments``, ``omitted`` and ``words``. ``gap`` is
    an upper bound on how far the objective of the transport plan is from its minimum, in units of distance.
    """

    paper: Paper
    score: float
    alignments: tuple[Alignment, ...]
    omitted: tuple[Omitted, ...]
    highlights: tuple[Highlight, ...]
    words: Words
    converged: bool
    strength: Strength | None = None
    gap: float = 0.0

    def matching(self, limit: int | None = None) -> tuple[tuple[str, float], ...]:
        """Return the sentences that the page marks, at most ``limit``, with their shares, heaviest first."""
        marked = [each for each in self.highlights if each.marked][:limit]
        return tuple((self.paper.abstract[each.start : each.end], each.weight) for each in marked)

    @property
    def about(self) -> Paper:
        """The paper."""
        return self.paper

    def line(self) -> str:
        """Return the score, and the id, title and year of the paper, on one line."""
        return f"{self.score:.3f}  {self.paper.line()}"

    def row(self) -> dict[str, Any]:
        """Return the result's cells in a table: the match, then the paper; ``match`` is the best sentence."""
        best = self.matching(1)
        strength = self.strength
        return {
            "score": self.score,
            "strength": None if strength is None else strength.label,
            "nearer_than": None if strength is None else strength.nearer_than,
            "match": best[0][0] if best else "",
            **self.paper.row(),
        }


# What names a paper in a request: its id or another of its names, or what an earlier answer has of it.
PaperLike = str | Paper | Result | FoundTitle


@dataclass(frozen=True, slots=True, repr=False)
class QuerySentence(Faceted):
    """A sentence of the query with its text and its facet."""

    start: int
    end: int
    facet: str | None
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class Query(Described):
    """The query as it was read; ``selected`` and ``unlike`` are numbers of its sentences."""

    id: str | None
    title: str
    sentences: tuple[QuerySentence, ...]
    selected: tuple[int, ...]
    unlike: tuple[int, ...]
    dropped_sentences: int

    def line(self) -> str:
        """Return the id and title, or the first sentence, and how many sentences count, on one line."""
        title = self.title or "".join(each.text for each in self.sentences[:1])
        return f"{named(self.id, title)} ({len(self.selected)} of {counted(len(self.sentences), 'sentence')})"


@dataclass(frozen=True, slots=True, repr=False)
class SearchAnswer(Results[Result]):
    """Ranked papers; ``reason``, and ``detail`` in words, say why there are none.

    Papers are re-ranked in groups: scores descend within each group, but may rise from one group to the
    next. ``total`` is the number of papers of all pages, ``None`` if that is not known yet. ``next_cursor``
    leads to the next page and is ``None`` at the end of the list.
    """

    query: Query
    results: tuple[Result, ...]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float = 0.0  # not given in a batch
    coverage: float = 1.0  # the share of the collection's papers that could be found


@dataclass(frozen=True, slots=True)
class SeedAlignment(Alignment):
    """An alignment with number ``seed`` of the seeds or, if ``negative``, of the negatives."""

    seed: int
    negative: bool


@dataclass(frozen=True, slots=True)
class SeedOmitted(Omitted):
    """The sum of the alignments of one seed, or negative, with the smallest weights; ``None``: all others."""

    seed: int | None
    negative: bool


@dataclass(frozen=True, slots=True, repr=False)
class Recommendation(Result):
    """One paper with its score, as in a search; alignments and sums of omitted ones name their seed."""

    alignments: tuple[SeedAlignment, ...]
    omitted: tuple[SeedOmitted, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Seed(Described):
    """A seed as it was understood; ``selected`` are the numbers of its sentences that counted."""

    seed: int
    negative: bool
    id: str | None
    title: str
    sentences: tuple[Sentence, ...]
    selected: tuple[int, ...]
    dropped_sentences: int

    def line(self) -> str:
        """Return the id and title, and how many sentences count, on one line."""
        start = f"{'not ' if self.negative else ''}{named(self.id, self.title)}"
        return f"{start} ({len(self.selected)} of {counted(len(self.sentences), 'sentence')})"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A paper that an unknown id may mean."""

    id: str
    title: str


@dataclass(frozen=True, slots=True, repr=False)
class Unresolved(Described):
    """A seed, or negative, that could not be used, and why."""

    seed: int
    negative: bool
    reason: str
    detail: str
    did_you_mean: tuple[Suggestion, ...]

    @property
    def why(self) -> str:
        """Why it cannot be used, and the papers that it may mean."""
        if not self.did_you_mean:
            return self.detail
        meant = ", ".join(f"{near.id!r} ({near.title})" for near in self.did_you_mean)
        why, _, _ = self.detail.partition("; did_you_mean")  # a field of JSON
        return f"{why}; did you mean {meant}?"

    def line(self) -> str:
        """Return which seed was left out, and why, on one line."""
        return f"Left out: {'negative' if self.negative else 'seed'} {self.seed}: {self.why}"


@dataclass(frozen=True, slots=True, repr=False)
class RecommendationsAnswer(Results[Recommendation]):
    """Ranked papers, the seeds that counted and those that could not be used; scores are as in a search.

    ``reason``, and ``detail`` in words, say why there are no papers. ``total`` is the number of papers of all
    pages, ``None`` if that is not known yet. ``next_cursor`` leads to the next page and is ``None`` at the
    end of the list.
    """

    results: tuple[Recommendation, ...]
    seeds: tuple[Seed, ...]
    unresolved: tuple[Unresolved, ...]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: str | None
    detail: str | None
    warnings: tuple[AnswerWarning, ...]
    took_ms: float = 0.0  # not given in a batch
    coverage: float = 1.0  # the share of the collection's papers that could be found
