"""``/v1/papers``: fetch, list, add and delete papers."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from indexer.corpus.rows import (
    MAX_FIELD_CHARS,
    MAX_LIST_ITEMS,
    MAX_SENTENCES,
    MAX_TITLE_CHARS,
    MAX_YEAR,
    MIN_YEAR,
    RawPaper,
    to_paper,
)
from models.errors import InputError, QueryError
from models.types import Paper
from service.api.schemas.base import (
    MAX_CURSOR_CHARS,
    WHOLE,
    Abstract,
    FacetIn,
    Limit,
    Out,
    PaperId,
    PaperName,
    PaperOut,
    Strict,
    Title,
)
from service.api.schemas.search.filters import AddressFiltersIn
from service.search.lookup import ListedPapers

MAX_PAPERS = 1_000
MAX_FETCHED = 500
_Text = Annotated[str, Field(max_length=MAX_FIELD_CHARS)]
_Names = Annotated[list[_Text], Field(fail_fast=True, max_length=MAX_LIST_ITEMS)]


class PaperIn(Strict):
    """A paper to add; it replaces the paper with the same id, if there is one."""

    id: PaperId
    title: Title
    abstract: Abstract = Field(description="Text, or the list of its sentences.")
    facets: Annotated[list[FacetIn | None], Field(fail_fast=True, max_length=MAX_SENTENCES)] | None = Field(
        default=None, description="One facet per sentence, if known; otherwise a tagger finds them."
    )
    year: Annotated[int, Field(ge=MIN_YEAR, le=MAX_YEAR), WHOLE] | None = None
    venue: _Text | None = None
    authors: _Names = Field(default_factory=list)
    url: _Text | None = None
    doi: _Text | None = None
    fields: _Names = Field(default_factory=list)


class PapersIn(Strict):
    """Papers to add or replace: all of them or, if one cannot be used, none."""

    papers: Annotated[list[PaperIn], Field(fail_fast=True, min_length=1, max_length=MAX_PAPERS)]

    def to_papers(self) -> list[Paper]:
        """Return the papers, cleaned like those of a corpus; raises InputError if one cannot be used."""
        papers = []
        first_with: dict[str, int] = {}
        for number, given in enumerate(self.papers):
            if first_with.setdefault(given.id, number) != number:
                raise InputError(
                    f"papers[{number}] has the same id as papers[{first_with[given.id]}]; nothing was added."
                )
            try:
                papers.append(to_paper(RawPaper(**given.model_dump())))
            except InputError as error:
                said = str(error).removesuffix(".")
                raise InputError(f"papers[{number}]: {said}; nothing was added.") from error
        return papers


class FetchIn(Strict):
    """Names of papers."""

    ids: Annotated[list[PaperName], Field(fail_fast=True, min_length=1, max_length=MAX_FETCHED)] = Field(
        description="Ids, DOIs, arXiv ids, addresses or titles."
    )


class FetchedOut(BaseModel):
    """The papers named, in the order given; null for each that is not in the collection."""

    papers: list[PaperOut | None]
    generation: str

    @classmethod
    def of(cls, papers: Sequence[Paper | None], generation: str) -> "FetchedOut":
        """Build from domain values."""
        shown = [None if paper is None else PaperOut.model_validate(paper) for paper in papers]
        return cls(papers=shown, generation=generation)


class ListIn(AddressFiltersIn):
    """A title to find or, without one, a page of the list of the papers that pass the filters."""

    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)] | None = Field(
        default=None,
        description="A title, also misspelt, or some of its words; case, accents and punctuation do not "
        "matter. Without it, papers are listed page by page.",
    )
    limit: Limit = 10
    cursor: Annotated[str, Field(min_length=1, max_length=MAX_CURSOR_CHARS)] | None = Field(
        default=None, description="next_cursor of the previous page; only without a title."
    )

    @model_validator(mode="after")
    def _one_list(self) -> "ListIn":
        if self.title is not None and self.model_fields_set - {"title", "limit"}:
            raise QueryError(
                "Filters and cursor are for listing papers; leave them out, or leave out the title."
            )
        return self


class ListOut(BaseModel):
    """A page of the papers that pass the filters, in the order they were added; ``total`` is their number.

    ``next_cursor`` leads to the next page and is null at the end. ``detail`` says why filters leave
    none, and names a name that no paper has.
    """

    papers: list[PaperOut]
    total: int
    next_cursor: str | None
    generation: str
    detail: str | None

    @classmethod
    def of(cls, found: ListedPapers, *, next_cursor: str | None, generation: str) -> "ListOut":
        """Build from the domain value."""
        return cls(
            papers=[PaperOut.model_validate(each) for each in found.papers],
            total=found.total,
            next_cursor=next_cursor,
            generation=generation,
            detail=found.detail,
        )


class PapersOut(Out):
    """The papers are stored for certain, and are searchable now or within seconds.

    ``unchanged`` of the papers were there word for word. ``change`` is the number of the last change of the
    collection: this one or, if nothing changed, an earlier one. ``generation`` is served at the moment.
    """

    accepted: int
    unchanged: int
    change: int
    generation: str
