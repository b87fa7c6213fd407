"""The answer of a search: ranked papers with their explanations."""

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
from service.api.schemas.writing import JSONAnswer, writer
from service.search.query import Reason, SearchAnswer


class AlignmentOut(Out):
    """The weight of a query and a result sentence together; null: the encoder has one vector per paper.

    Weights sum to 1; the alignments of ``unlike`` have negative weights, which sum to minus its weight.
    """

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


class OmittedOut(Out):
    """The sum of the ``count`` alignments with the smallest weights; ``distance`` is their weighted mean."""

    count: int
    weight: float
    distance: float


class HighlightOut(Out):
    """A sentence of the result, ``abstract[start:end]``, and its share of the match; null: the whole paper.

    The match is with the query sentences to be like; contrast does not count. If a paper has more than 32
    sentences, only the 32 with the largest weights are listed; the others have the rest of the weight.
    ``marked`` are the fewest sentences that make up 80 % of the match, except those with less than an even
    share of it: the ones that the page and the command line mark.
    """

    sentence: int | None
    start: int
    end: int
    weight: float
    marked: bool


class SharedWordOut(Out):
    """A word that query and result share, as the result spells it, and its share among all shared words.

    The absolute shares of all shared words sum to 1; words of the part to be unlike have negative shares.
    Words of any abstract ("we", "our", "propose", "results") have shares too, but are not listed.
    """

    term: str
    share: float


class WordsOut(Out):
    """How far apart query and result are by their words, and at most ten shared words that count most.

    ``distance`` is 1 minus the cosine of their tf-idf vectors; for a query of several parts (contrast, seeds)
    the sum of the weight of each part times its distance. ``weight`` is 0 if words do not count.
    """

    weight: float
    distance: float
    terms: tuple[SharedWordOut, ...]


class StrengthOut(Out):
    """How good a match is, comparable between all queries to a collection.

    ``nearer_than`` is the share of papers, in a sample of the collection, that are farther from their nearest
    paper than this one is from the query, by the same facets, each in units of what is usual. Of several
    seeds, the one with the strongest match counts; with the strategy ``all``, the mean distance is compared
    with the mean in the sample. A match is strong from 0.5 and weak below 0.05.
    """

    label: StrengthLabel
    nearer_than: float


class ResultOut(Out):
    """One paper with its score; higher is better, and scores of one search are comparable across pages.

    The score is minus the sum of weight x distance over ``alignments``, ``omitted`` and ``words``. If there
    are more alignments than ``max_alignments``, those with the smallest weights are summed up in
    ``omitted``, in one entry or in one each for the sentences to be like and to be unlike.
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
    strength: StrengthOut | None = Field(
        description="Null if the query or a seed of it sets `focus` or `unlike.sentences`, or another `tau`, "
        "`specificity`, `unlike.weight` or weight of `words` (except 0) than the default; if the seeds "
        "differ in more than 16 ways; if fewer than 16 papers of a sample of the collection have the "
        "query's facets; and sometimes if `coverage` is below 1."
    )


class QuerySentenceOut(SentenceOut):
    """A sentence of the query with its text and the facet that it was taken to have."""

    text: str


class QueryOut(BaseModel):
    """How the query was read: its sentences, those that counted, and how many were past the encoder's limit.

    ``selected`` are the numbers of the sentences to be like, ``unlike`` those of the sentences to be unlike.
    """

    id: str | None
    title: str
    sentences: list[QuerySentenceOut]
    selected: tuple[int, ...]
    unlike: tuple[int, ...]
    dropped_sentences: int


class SearchOut(BaseModel):
    """Ranked papers; if there are none, ``reason``, and ``detail`` in words, say why.

    The papers nearest by sentences and by shared words are re-ranked together, a block of hundreds at a time:
    within a block scores descend, from one block to the next they may rise. A score does not depend on its
    block, so the papers of several pages may be sorted by score.

    ``total`` is the number of papers of the whole list, on all pages: those that pass the filters, without
    the paper of the query, and 10,000 at most; null if it is not known yet. ``next_cursor`` leads to the
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
        """Build from the domain value and the cursor of its next page."""
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
    def written(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> JSONAnswer:
        """Return the answer of ``of`` as JSON, in a third of the time."""
        rest = cls.of(replace(answer, results=()), next_cursor=next_cursor)
        return JSONAnswer.of(rest).with_results(_write_results(answer.results))


_write_results = writer(ResultOut)
