"""``POST /v1/search``: the query, its aspect and filters, and the ranked, explained papers."""

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from indexer.rows import MAX_SENTENCES
from models.transport import Scorer
from models.types import Facet, Paper
from service.api.schemas.alternatives import ONE_CHOICE, Shape, any_of
from service.api.schemas.base import (
    NOT_BLANK,
    WHOLE,
    WITH_TEXT,
    Abstract,
    CursorIn,
    Facets,
    Out,
    PaperId,
    PaperOut,
    SentenceOut,
    Strict,
    Title,
    WarningOut,
    facet_tuple,
    pasted_paper,
)
from service.api.schemas.filters import FiltersIn
from service.resolve.text_query import MAX_TEXT_CHARS
from service.search.aspect import DEFAULT_CONTRAST, Aspect, Contrast
from service.search.query import SearchAnswer, SearchQuery, Seed
from service.search.reasons import Reason

_ShortText = Annotated[
    str, Field(min_length=1, max_length=MAX_TEXT_CHARS, json_schema_extra=WITH_TEXT), NOT_BLANK
]
Numbers = Annotated[
    list[Annotated[int, Field(ge=0), WHOLE]], Field(fail_fast=True, min_length=1, max_length=MAX_SENTENCES)
]


def number_tuple(given: list[int] | None) -> tuple[int, ...] | None:
    """The sentence numbers as a request holds them; ``None`` where it holds none."""
    return None if given is None else tuple(given)


def expect_one_choice(sentences: list[int] | None, facet: Facet | list[Facet] | None) -> None:
    """Refuse sentences beside a facet; raises ValueError."""
    if sentences is not None and facet is not None:
        raise ValueError("choose sentences or a facet, not both")


# An indexed paper, or a pasted one.
ONE_PAPER = (
    Shape(["paper_id"], null=["abstract"], empty=["title"]),
    Shape(["abstract"], null=["paper_id"]),
)
_PAPER_OR_TEXT = (
    Shape(["paper_id"], null=["abstract", "text"], empty=["title"]),
    Shape(["abstract"], null=["paper_id", "text"]),
    Shape(["text"], null=["paper_id", "abstract"], empty=["title"]),
)


class QueryIn(Strict):
    """The paper to start from: an indexed one by id, or a pasted title and abstract."""

    model_config = ConfigDict(json_schema_extra=any_of(ONE_PAPER))

    paper_id: PaperId | None = None
    title: Title = ""
    abstract: Abstract | None = Field(default=None, description="Text, or the list of its sentences.")

    @model_validator(mode="after")
    def _one_paper(self) -> "QueryIn":
        if (self.paper_id is None) == (self.abstract is None):
            raise ValueError("give either paper_id, or title and abstract")
        if self.paper_id is not None and self.title:
            raise ValueError("a title goes with an abstract, not with paper_id")
        return self

    def to_paper(self) -> Paper | None:
        """The pasted paper; ``None`` where an id was given."""
        return None if self.abstract is None else pasted_paper(self.title, self.abstract)


class SearchQueryIn(QueryIn):
    """What to start from: a paper, or a short text such as a claim."""

    model_config = ConfigDict(json_schema_extra=any_of(_PAPER_OR_TEXT))

    text: (
        Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS, json_schema_extra=WITH_TEXT), NOT_BLANK]
        | None
    ) = Field(
        default=None,
        description="Taken as one sentence without facet, so sentences, facet, unlike and focus stay out.",
    )

    @model_validator(mode="after")
    def _one_paper(self) -> "SearchQueryIn":
        n_given = sum(given is not None for given in (self.paper_id, self.abstract, self.text))
        if n_given != 1:
            raise ValueError("give either paper_id, or title and abstract, or text")
        if self.abstract is None and self.title:
            raise ValueError("a title goes with an abstract, not with paper_id or text")
        return self


class UnlikeIn(Strict):
    """The respect in which papers should differ from the query: some of its sentences, or a facet of them."""

    model_config = ConfigDict(
        json_schema_extra=any_of(
            [
                Shape(["sentences"], null=["facet"]),
                Shape(["facet"], null=["sentences"]),
            ]
        )
    )

    sentences: Numbers | None = Field(default=None, description="Numbers, from 0, of query sentences.")
    facet: Facets | None = Field(default=None, description="A facet, or a list of them.")
    weight: Annotated[float, Field(gt=0, le=1)] = Field(
        default=DEFAULT_CONTRAST,
        description="How much being far from these counts against being near to the others.",
    )

    @model_validator(mode="after")
    def _one_choice(self) -> "UnlikeIn":
        if (self.sentences is None) == (self.facet is None):
            raise ValueError("unlike takes sentences or a facet, one of the two")
        return self

    def to_contrast(self) -> Contrast:
        """The same as a domain value."""
        return Contrast(number_tuple(self.sentences), facet_tuple(self.facet), self.weight)


class SearchShapeIn(Strict):
    """The respect in which papers should be akin to a query, and what to return; not the query itself."""

    model_config = ConfigDict(json_schema_extra=any_of(ONE_CHOICE))

    sentences: Numbers | None = Field(
        default=None, description="Numbers, from 0, of the query sentences that count."
    )
    facet: Facets | None = Field(
        default=None,
        description="Count the query sentences of this facet, or of these; objective counts as background.",
    )
    unlike: UnlikeIn | None = Field(
        default=None,
        description="Contrast: prefer papers far from these query sentences; where nothing else is chosen, "
        "all the others are to be like.",
    )
    focus: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="How far chosen sentences are turned away from the rest of their abstract; "
        "by default what suits the facet, the least where there are several.",
    )
    filters: FiltersIn = FiltersIn()
    scorer: Annotated[Scorer, Field(strict=False)] = Scorer.OT
    tau: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Temperature of the marginals: small favours the best-matching sentences.",
    )
    limit: Annotated[int, Field(ge=1, le=100), WHOLE] = Field(default=10, description="Papers on this page.")

    @model_validator(mode="after")
    def _one_aspect(self) -> "SearchShapeIn":
        expect_one_choice(self.sentences, self.facet)
        return self

    def to_shape(self, seed: Seed) -> SearchQuery:
        """The same as a domain value: a search for what is akin to ``seed``, whose aspect is the one here."""
        aspect = Aspect(
            number_tuple(self.sentences),
            facet_tuple(self.facet),
            self.focus,
            None if self.unlike is None else self.unlike.to_contrast(),
        )
        return SearchQuery(
            (replace(seed, aspect=aspect),),
            filters=self.filters.to_filters(),
            scorer=self.scorer,
            tau=self.tau,
            limit=self.limit,
        )


class FirstPageIn(SearchShapeIn):
    """A search from its first page: a query, and all of ``SearchShapeIn``."""

    query: SearchQueryIn

    def to_query(self) -> SearchQuery:
        """The same as a domain value, from the first page."""
        query = self.query
        return self.to_shape(Seed(query.paper_id, query.to_paper(), query.text))


class SearchIn(FirstPageIn):
    """A search: a paper, the respect in which others should be akin to it, and what to return."""

    cursor: CursorIn | None = None


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


class ResultOut(Out):
    """One paper with its score, higher is better; scores compare within one search, on whatever page.

    It is minus the sum of weight x distance over ``alignments`` and, where there are more than 64 of them and
    the lightest are summed up (one entry, or one each for the sentences to be like and unlike), ``omitted``.
    """

    paper: PaperOut
    score: float
    alignments: tuple[AlignmentOut, ...]
    omitted: tuple[OmittedOut, ...]
    highlights: tuple[HighlightOut, ...]
    converged: bool


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

    The papers nearest by their best matching sentences are re-ranked together, hundreds at a time, then the
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
    took_ms: float

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
            generation=answer.generation,
            reason=answer.reason,
            detail=answer.detail,
            warnings=tuple(WarningOut.model_validate(each) for each in answer.warnings),
            took_ms=round(answer.took_ms, 3),
        )
