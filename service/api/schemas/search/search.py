"""``POST /v1/search``: the query, the parts of it that count, filters, and what to return."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from models.transport import Scorer
from service.api.schemas.base import (
    WHOLE,
    CursorIn,
    Strict,
)
from service.api.schemas.search.filters import FiltersIn
from service.api.schemas.search.query import AspectIn, QueryIn
from service.search.aspect import MAX_SPECIFICITY
from service.search.query import MAX_ALIGNMENTS, Detail, SearchQuery, Seed
from service.search.words import MAX_WEIGHT


class ResultsIn(Strict):
    """Which papers to return, and which parts of them."""

    filters: FiltersIn = FiltersIn()
    limit: Annotated[int, Field(ge=1, le=100), WHOLE] = Field(default=10, description="Papers on this page.")
    include: Annotated[
        list[Annotated[Detail, Field(strict=False)]], Field(fail_fast=True, max_length=len(Detail))
    ] = Field(
        default=list(Detail),
        description="What results contain besides title, metadata and score; fields of parts that are not "
        "named are empty. With an empty list, shared words are not listed either: the cheapest answer.",
    )
    max_alignments: Annotated[int, Field(ge=0, le=MAX_ALIGNMENTS), WHOLE] = Field(
        default=MAX_ALIGNMENTS,
        description="Maximum number of alignments of a result; the rest, with the smallest weights, are "
        "summed up in omitted.",
    )

    def returned(self) -> dict[str, Any]:
        """Return these fields as arguments of a query."""
        return {
            "filters": self.filters.to_filters(),
            "limit": self.limit,
            "include": frozenset(self.include),
            "max_alignments": self.max_alignments,
        }


WordsIn = Annotated[
    Annotated[float, Field(ge=0, le=MAX_WEIGHT)] | None,
    Field(
        description="Weight of the words that query and result share, relative to the distances of "
        "sentences; 0: ignore words, null: the encoder's default."
    ),
]

SpecificityIn = Annotated[
    Annotated[float, Field(ge=0, le=MAX_SPECIFICITY)] | None,
    Field(
        description="Extra weight of specific sentences: each weighs exp(this x its mean distance to the "
        "nearest papers of a sample); 0: all the same, null: the encoder's default. Sentences chosen by "
        "number always have the same weight."
    ),
]


class SearchShapeIn(AspectIn, ResultsIn):
    """The respect in which papers should be similar to a query, and what to return; without the query."""

    scorer: Annotated[Scorer, Field(strict=False)] = Scorer.OT
    tau: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Temperature of the marginals: small values favour the best-matching sentences.",
    )
    words: WordsIn = None
    specificity: SpecificityIn = None

    def to_shape(self, seed: Seed) -> SearchQuery:
        """Return the domain value: a search for papers akin to ``seed`` in the aspect given here."""
        return SearchQuery(
            (replace(seed, aspect=self.to_aspect()),),
            scorer=self.scorer,
            tau=self.tau,
            words=self.words,
            specificity=self.specificity,
            **self.returned(),
        )


class FirstPageIn(SearchShapeIn):
    """The first page of a search: a query, the respect in which papers should be similar, what to return."""

    query: QueryIn

    def to_query(self) -> SearchQuery:
        """Return the domain value, at the first page."""
        return self.to_shape(self.query.to_seed())


class SearchIn(FirstPageIn):
    """A search: a query, the respect in which papers should be similar to it, and what to return."""

    cursor: CursorIn | None = None
