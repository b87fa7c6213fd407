"""Filters: the papers that a request allows as results."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from models.errors import QueryError
from models.types import Facet, Filters
from service.api.schemas.base import IN_ADDRESS, WHOLE, FacetIn, PaperId, Strict

# Longer names are accepted in papers, but no filter names them.
MAX_NAME_CHARS: Final = 300
_Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
_Year = Annotated[int, Field(ge=1000, le=2100)]
Names = Annotated[list[_Name], Field(fail_fast=True, max_length=100)]
HasFacets = Annotated[list[FacetIn], Field(fail_fast=True, max_length=len(Facet))]
# More than a reference manager holds on one subject, and as many as a ranked list has.
_MAX_IDS = 10_000


class _FiltersIn(Strict):
    """Filters of years, in an address or in a body."""

    year_from: int | None = None
    year_to: int | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        first, last = self.year_from, self.year_to
        if first is not None and last is not None and first > last:
            raise QueryError(f"The first year, {first}, is after the last, {last}; change one of them.")
        return self


class AddressFiltersIn(_FiltersIn):
    """The filters of listed papers, as parameters of the address; repeat a parameter to give a list."""

    year_from: Annotated[_Year, IN_ADDRESS] | None = Field(
        default=None, description="Earliest year, inclusive."
    )
    year_to: Annotated[_Year, IN_ADDRESS] | None = Field(default=None, description="Latest year, inclusive.")
    venues: Names = Field(default_factory=list, description="Any of these; case does not matter.")
    fields: Names = Field(default_factory=list, description="Any of these; case does not matter.")
    authors: Names = Field(default_factory=list, description="Any of these full names.")
    has_facets: HasFacets = Field(
        default_factory=list, description="With a sentence of each of these facets."
    )

    def to_filters(self) -> Filters:
        """Return the domain value."""
        return Filters(
            self.year_from,
            self.year_to,
            tuple(self.venues),
            tuple(self.fields),
            tuple(self.has_facets),
            authors=tuple(self.authors),
        )


class FiltersIn(_FiltersIn):
    """The filters of papers that may be returned; the case of names does not matter."""

    year_from: Annotated[_Year, WHOLE] | None = Field(default=None, description="Earliest year, inclusive.")
    year_to: Annotated[_Year, WHOLE] | None = Field(default=None, description="Latest year, inclusive.")
    venues: Names = Field(default_factory=list)
    fields: Names = Field(default_factory=list)
    authors: Names = Field(
        default_factory=list,
        description="Any of these full names, as spelled in the collection.",
    )
    ids: Annotated[list[PaperId], Field(fail_fast=True, min_length=1, max_length=_MAX_IDS)] | None = Field(
        default=None, description="Only these papers; unknown ids are ignored."
    )
    exclude_ids: Annotated[list[PaperId], Field(fail_fast=True, max_length=_MAX_IDS)] = Field(
        default_factory=list, description="None of these papers."
    )
    has_facets: HasFacets = Field(
        default_factory=list,
        description="Only papers with a sentence of each of these facets; objective counts as background.",
    )

    def to_filters(self) -> Filters:
        """Return the domain value."""
        return Filters(
            self.year_from,
            self.year_to,
            tuple(self.venues),
            tuple(self.fields),
            tuple(self.has_facets),
            exclude_ids=frozenset(self.exclude_ids),
            authors=tuple(self.authors),
            ids=frozenset(self.ids or ()),
        )
