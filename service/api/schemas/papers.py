"""``/v1/papers``, writing: the papers of a request and what became of them."""

from typing import Annotated

from pydantic import Field

from indexer.rows import (
    MAX_FIELD_CHARS,
    MAX_LIST_ITEMS,
    MAX_SENTENCES,
    MAX_YEAR,
    MIN_YEAR,
    RawPaper,
    to_paper,
)
from models.errors import InputError
from models.types import Paper
from service.api.schemas.base import WHOLE, Abstract, FacetIn, Out, PaperId, Strict, Title

MAX_PAPERS = 1_000
_Text = Annotated[str, Field(max_length=MAX_FIELD_CHARS)]
_Names = Annotated[list[_Text], Field(fail_fast=True, max_length=MAX_LIST_ITEMS)]


class PaperIn(Strict):
    """A paper to add, or to put in the place of the one with its id."""

    id: PaperId
    title: Title
    abstract: Abstract = Field(description="Text, or the list of its sentences.")
    facets: Annotated[list[FacetIn | None], Field(fail_fast=True, max_length=MAX_SENTENCES)] | None = Field(
        default=None, description="One a sentence, where they are known; else they are found."
    )
    year: Annotated[int, Field(ge=MIN_YEAR, le=MAX_YEAR), WHOLE] | None = None
    venue: _Text | None = None
    authors: _Names = Field(default_factory=list)
    url: _Text | None = None
    doi: _Text | None = None
    fields: _Names = Field(default_factory=list)


class PapersIn(Strict):
    """Papers to add or replace, all of them or, where one cannot be used, none."""

    papers: Annotated[list[PaperIn], Field(fail_fast=True, min_length=1, max_length=MAX_PAPERS)]

    def to_papers(self) -> list[Paper]:
        """The papers, cleaned as those of a corpus are; raises InputError that says which cannot be used."""
        papers = []
        first_with: dict[str, int] = {}
        for number, given in enumerate(self.papers):
            if first_with.setdefault(given.id, number) != number:
                raise InputError(
                    f"papers[{number}] has the id of papers[{first_with[given.id]}]; nothing was added."
                )
            try:
                papers.append(to_paper(RawPaper(**given.model_dump())))
            except InputError as error:
                said = str(error).removesuffix(".")
                raise InputError(f"papers[{number}]: {said}; nothing was added.") from error
        return papers


class PapersOut(Out):
    """What the collection now holds for certain, and shows, or will show within seconds.

    ``unchanged`` of the papers were there word for word. ``change`` is the number of the last change of the
    collection, this one or, where nothing changed, an earlier one. ``generation`` is served at the moment.
    """

    accepted: int
    unchanged: int
    change: int
    generation: str
