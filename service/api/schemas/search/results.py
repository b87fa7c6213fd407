"""The answer of a search: ranked papers with their explanation."""

from dataclasses import replace

from pydantic import BaseModel, Field

from models.types import StrengthLabel
from service.api.schemas.base import (
    Out,
    PaperOut,
    SentenceOut,
    TookMs,
    WarningOut,
    of_answer,
)
from service.api.schemas.writing import Written, writer
from service.search.query import Reason, SearchAnswer


class AlignmentOut(Out):
    """How much a query and a result sentence count together; null: the encoder has one vector a paper.

    Weights sum to 1; with ``unlike``, its cells have negative weights, which sum to minus its weight.
    """

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


class OmittedOut(Out):
    """The lightest alignments, ``count`` of them, summed up; ``distance`` is their mean by weight."""

    count: int
    weight: float
    distance: float


class HighlightOut(Out):
    """A sentence of the result, ``abstract[start:end]``, and its share of the match; null: all of it.

    The match is that with the query sentences to be like; contrast has no part in it. Where a paper has more
    sentences, the heaviest 32 stand here, and what their weights lack to 1 is that of the others.
    """

    sentence: int | None
    start: int
    end: int
    weight: float


class SharedWordOut(Out):
    """A word that query and result share, as the result writes it, and its share of what all of them count.

    The shares of all shared words sum to 1, signs aside; under 0 are words of what to be unlike. Words of any
    abstract ("we", "our", "propose", "results") have shares too, but are not listed.
    """

    term: str
    share: float


class WordsOut(Out):
    """How far apart query and result are by their words, and the shared ones that count most, ten at most.

    ``distance`` is 1 minus the cosine of their tf-idf vectors; of a query of several parts (contrast, seeds)
    the sum of how much each part counts times its distance. ``weight`` is 0 where words do not count.
    """

    weight: float
    distance: float
    terms: tuple[SharedWordOut, ...]


class StrengthOut(Out):
    """How good a match is, on one scale for all queries of a collection.

    ``nearer_than`` is the share of the collection's papers, of a sample, that are farther from their own
    nearest paper than this one is from the query, each in units of what is usual. From 0.5 on a match is
    strong, below 0.05 weak.
    """

    label: StrengthLabel
    nearer_than: float


class ResultOut(Out):
    """One paper with its score, higher is better; scores compare within one search, on whatever page.

    It is minus the sum of weight x distance over ``alignments``, ``omitted`` and ``words``: where there are
    more alignments than ``max_alignments``, the lightest are summed up in ``omitted``, in one entry, or in
    one each for the sentences to be like and unlike.
    """

    paper: PaperOut
    score: float
    alignments: tuple[AlignmentOut, ...]
    omitted: tuple[OmittedOut, ...]
    highlights: tuple[HighlightOut, ...]
    words: WordsOut
    converged: bool
    gap: float = Field(
        description="Upper bound on the distance of the plan's objective from its minimum, in units of "
        "distance; 0 for scorers without transport."
    )
    strength: StrengthOut | None = Field(description="Null if the collection is too small to estimate it.")


class QuerySentenceOut(SentenceOut):
    """A sentence of the query with its text, and the facet it was taken to have."""

    text: str


class QueryOut(BaseModel):
    """What the query was taken to be: its sentences, those that counted, how many were past the limit.

    ``selected`` are the numbers of the sentences to be like, ``unlike`` of those to be unlike.
    """

    id: str | None
    title: str
    sentences: list[QuerySentenceOut]
    selected: tuple[int, ...]
    unlike: tuple[int, ...]
    dropped_sentences: int


class SearchOut(BaseModel):
    """Ranked papers; ``reason``, and ``detail`` in words, say why where there are none.

    The papers nearest by sentences and by shared words are re-ranked together, hundreds at a time, then the
    next nearest, and so on: within each such stretch scores descend, from one to the next they may rise. A
    score does not depend on its stretch, so whoever has read several pages may sort their papers by it.

    ``total`` is how many papers the whole list has, on all its pages: those that pass the filters, without
    the query's own, and 10,000 at most; null where that is not known yet. ``next_cursor`` leads to the
    next page and is null at the end of the list, after 10,000 papers at most.
    """

    query: QueryOut
    results: list[ResultOut]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[WarningOut, ...]
    coverage: float = Field(description="The share of the collection's papers that was searched.", ge=0, le=1)
    took_ms: TookMs

    @classmethod
    def of(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> "SearchOut":
        """From the domain value and the cursor of its next page."""
        (seed,) = answer.seeds
        query = QueryOut(
            id=seed.paper.id or None,
            title=seed.paper.title,
            sentences=[QuerySentenceOut.model_validate(each) for each in seed.paper.sentences],
            selected=seed.selected,
            unlike=seed.unlike,
            dropped_sentences=seed.dropped_sentences,
        )
        return cls(
            query=query,
            results=[ResultOut.model_validate(ranked) for ranked in answer.results],
            total=answer.total,
            next_cursor=next_cursor,
            **of_answer(answer),
        )

    @classmethod
    def written(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> Written:
        """What ``of`` gives, as JSON, in a third of the time."""
        rest = cls.of(replace(answer, results=()), next_cursor=next_cursor)
        return Written.of(rest).with_results(_write_results(answer.results))


_write_results = writer(ResultOut)
