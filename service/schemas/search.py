"""``POST /v1/search``: the query, its aspect and filters, and the ranked, explained papers."""

from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from indexer.rows import MAX_ABSTRACT_CHARS, MAX_SENTENCES, MAX_TITLE_CHARS
from models.sentences import sentences_from_list, split_sentences
from models.transport import Scorer
from models.types import Facet, Filters, Paper
from service.aspect import Aspect
from service.schemas.base import Out, PaperOut, Strict
from service.search import Reason, SearchAnswer, SearchQuery

_Title = Annotated[str, Field(max_length=MAX_TITLE_CHARS)]
_Name = Annotated[str, Field(min_length=1, max_length=300)]
_Year = Annotated[int, Field(ge=1000, le=2100)]
_Text = Annotated[str, Field(max_length=MAX_ABSTRACT_CHARS)]


class QueryIn(Strict):
    """The paper to start from: an indexed one by id, or a pasted title and abstract."""

    paper_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    title: _Title = ""
    abstract: _Text | Annotated[list[_Text], Field(min_length=1, max_length=MAX_SENTENCES)] | None = Field(
        default=None, description="Text, or the list of its sentences."
    )

    @model_validator(mode="after")
    def _one_paper(self) -> "QueryIn":
        if (self.paper_id is None) == (self.abstract is None):
            raise ValueError("give either paper_id, or title and abstract")
        if self.paper_id is not None and self.title:
            raise ValueError("a title goes with an abstract, not with paper_id")
        given = [self.abstract] if isinstance(self.abstract, str) else self.abstract or []
        if any(not text.strip() for text in given):
            raise ValueError("the abstract, or a sentence of it, is blank")
        if isinstance(self.abstract, list) and sum(map(len, self.abstract)) > MAX_ABSTRACT_CHARS:
            raise ValueError(f"the sentences of the abstract hold more than {MAX_ABSTRACT_CHARS} characters")
        return self

    def to_paper(self) -> Paper | None:
        """The pasted paper, split into sentences; ``None`` where an id was given."""
        if self.abstract is None:
            return None
        if isinstance(self.abstract, str):
            # More than an encoder reads of any paper; each further one would only lengthen the answer.
            abstract, sentences = self.abstract, split_sentences(self.abstract)[:MAX_SENTENCES]
        else:
            abstract, sentences = sentences_from_list(self.abstract)
        return Paper(id="", title=self.title, abstract=abstract, sentences=sentences)


class FiltersIn(Strict):
    """Which papers may be returned; names match whatever their case."""

    year_from: _Year | None = Field(default=None, description="Earliest year, inclusive.")
    year_to: _Year | None = Field(default=None, description="Latest year, inclusive.")
    venues: Annotated[list[_Name], Field(max_length=100)] = Field(default_factory=list)
    fields: Annotated[list[_Name], Field(max_length=100)] = Field(default_factory=list)

    def to_filters(self) -> Filters:
        """The same as a domain value."""
        return Filters(self.year_from, self.year_to, tuple(self.venues), tuple(self.fields))


class SearchIn(Strict):
    """A search: a paper, the respect in which others should be akin to it, and what to return."""

    query: QueryIn
    sentences: (
        Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=MAX_SENTENCES)] | None
    ) = Field(default=None, description="Numbers, from 0, of the query sentences that count.")
    facet: Annotated[Facet, Field(strict=False)] | None = Field(
        default=None, description="Count the query sentences of this facet; objective counts as background."
    )
    focus: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="How far chosen sentences are turned away from the rest of their abstract; "
        "by default what suits the facet.",
    )
    filters: FiltersIn = FiltersIn()
    scorer: Annotated[Scorer, Field(strict=False)] = Scorer.OT
    tau: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Temperature of the marginals: small favours the best-matching sentences.",
    )
    limit: Annotated[int, Field(ge=1, le=100)] = 10

    @model_validator(mode="after")
    def _one_aspect(self) -> "SearchIn":
        if self.sentences is not None and self.facet is not None:
            raise ValueError("choose sentences or a facet, not both")
        return self

    def to_query(self) -> SearchQuery:
        """The same as a domain value."""
        return SearchQuery(
            paper_id=self.query.paper_id,
            paper=self.query.to_paper(),
            aspect=Aspect(None if self.sentences is None else tuple(self.sentences), self.facet, self.focus),
            filters=self.filters.to_filters(),
            scorer=self.scorer,
            tau=self.tau,
            limit=self.limit,
        )


class AlignmentOut(Out):
    """How much a query and a result sentence count together; null: the encoder has one vector a paper."""

    query_sentence: int | None
    sentence: int | None
    weight: float
    distance: float


class HighlightOut(Out):
    """A sentence of the result, ``abstract[start:end]``, and its share of the match; null: all of it."""

    sentence: int | None
    start: int
    end: int
    weight: float


class ResultOut(Out):
    """One paper with its score, higher is better: minus the sum of weight x distance over the alignments."""

    paper: PaperOut
    score: float
    alignments: tuple[AlignmentOut, ...]
    highlights: tuple[HighlightOut, ...]
    converged: bool


class QueryOut(BaseModel):
    """What the query was taken to be: its sentences, those that counted, how many were past the limit."""

    id: str | None
    title: str
    sentences: list[str]
    selected: tuple[int, ...]
    dropped_sentences: int


class SearchOut(BaseModel):
    """Ranked papers, best first; ``reason`` says why where there are none."""

    query: QueryOut
    results: list[ResultOut]
    generation: str
    reason: Reason | None
    warnings: tuple[str, ...]
    took_ms: float

    @classmethod
    def of(cls, answer: SearchAnswer) -> "SearchOut":
        """From the domain value."""
        query = QueryOut(
            id=answer.query.id or None,
            title=answer.query.title,
            sentences=[sentence.text for sentence in answer.query.sentences],
            selected=answer.selected,
            dropped_sentences=answer.dropped_sentences,
        )
        return cls(
            query=query,
            results=[ResultOut.model_validate(ranked) for ranked in answer.results],
            generation=answer.generation,
            reason=answer.reason,
            warnings=answer.warnings,
            took_ms=round(answer.took_ms, 3),
        )
