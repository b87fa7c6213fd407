"""``/v1/queries``: saved queries and their new papers."""

import json
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, Tag, TypeAdapter, ValidationError

from models.errors import QueryError
from service.api.schemas.base import WHOLE, Strict, TookMs, WarningOut, kind_of, of_answer, tag, utc_time
from service.api.schemas.search.recommendations import (
    FirstRecommendationsIn,
    RecommendationOut,
    UnresolvedOut,
)
from service.api.schemas.search.search import FirstPageIn
from service.saved.news import News
from service.saved.saved_queries import MAX_NAME_CHARS, SavedQuery, SavedQuerySummary
from service.search.query import Reason, SearchQuery, UnresolvedSeed

_Name = Annotated[
    str,
    Field(min_length=1, max_length=MAX_NAME_CHARS, description="The name of the query; names are unique."),
]


class Kind(StrEnum):
    """The kind of a saved query, which is also the name of its field in a request."""

    SEARCH = "search"
    RECOMMENDATIONS = "recommendations"


_BODIES: Final[dict[Kind, TypeAdapter[FirstPageIn] | TypeAdapter[FirstRecommendationsIn]]] = {
    Kind.SEARCH: TypeAdapter(FirstPageIn),
    Kind.RECOMMENDATIONS: TypeAdapter(FirstRecommendationsIn),
}


class SaveSearchIn(Strict):
    """A search to save, as the body of ``/v1/search`` without ``cursor``."""

    name: _Name
    search: FirstPageIn

    def stored(self) -> tuple[Kind, str]:
        """Return the kind and the body, as ``to_query`` reads them; equal bodies are the same text."""
        return Kind.SEARCH, _stored(self.search)


class SaveRecommendationsIn(Strict):
    """Recommendations to save, as the body of ``/v1/recommendations`` without ``cursor``."""

    name: _Name
    recommendations: FirstRecommendationsIn

    def stored(self) -> tuple[Kind, str]:
        """Return the kind and the body, as ``to_query`` reads them; equal bodies are the same text."""
        return Kind.RECOMMENDATIONS, _stored(self.recommendations)


SaveIn = Annotated[
    Annotated[SaveSearchIn, Tag(tag("search"))]
    | Annotated[SaveRecommendationsIn, Tag(tag("recommendations"))],
    kind_of("search", "recommendations", problem="give a name and either search or recommendations"),
]


def _stored(body: BaseModel) -> str:
    plain = body.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(plain, separators=(",", ":"), sort_keys=True)


def to_query(kind: str, body: str) -> SearchQuery:
    """Return the query of a saved body; raises QueryError if this version of Akin cannot read it."""
    try:
        return _BODIES[Kind(kind)].validate_json(body).to_query()
    except (ValueError, ValidationError) as error:
        raise QueryError("This version cannot run the saved query; delete it and save it again.") from error


class SeenIn(Strict):
    """How far the new papers of a query were read."""

    up_to: Annotated[int, Field(ge=0, le=2**53 - 1), WHOLE] = Field(
        description="seen_up_to of the results that were read; papers added later stay new."
    )


class SavedQuerySummaryOut(BaseModel):
    """A saved query. Times are in UTC (RFC 3339); ``seen_at`` is when it was last marked as seen.

    Papers added after the change ``seen_up_to`` of the collection are new. ``feed`` is the address of its
    feed, which needs no key; null if it has no feed. ``owner`` is the id of the key that saved it, empty if
    it was saved without a key.
    """

    id: str
    owner: str
    name: str
    kind: Kind
    created_at: datetime
    seen_at: datetime | None
    seen_up_to: int
    feed: str | None

    @classmethod
    def of(cls, summary: SavedQuerySummary, *, feed: str | None, **more: Any) -> "SavedQuerySummaryOut":
        """Build from the domain value and the address of its feed."""
        return cls(
            id=summary.id,
            owner=summary.owner,
            name=summary.name,
            kind=Kind(summary.kind),
            created_at=utc_time(summary.created_at),
            seen_at=None if summary.seen_at is None else utc_time(summary.seen_at),
            seen_up_to=summary.seen,
            feed=feed,
            **more,
        )


class SavedQueriesOut(BaseModel):
    """All saved queries of a caller, sorted by name."""

    queries: list[SavedQuerySummaryOut]


class SavedQueryOut(SavedQuerySummaryOut):
    """A saved query with the body of its request, without the fields that have their default values.

    When it is saved, ``unresolved`` are the seeds that cannot be used now, such as papers not added yet.
    """

    search: dict[str, Any] | None = None
    recommendations: dict[str, Any] | None = None
    unresolved: list[UnresolvedOut] = []

    @classmethod
    def of_saved(
        cls, saved: SavedQuery, *, feed: str | None, unresolved: Iterable[UnresolvedSeed] = ()
    ) -> "SavedQueryOut":
        """Build from domain values and the address of its feed."""
        summary = SavedQuerySummaryOut.of(saved.summary, feed=feed)
        return cls(
            **summary.model_dump(),
            **{saved.summary.kind: json.loads(saved.body)},
            unresolved=[UnresolvedOut.of(lost) for lost in unresolved],
        )


class NewPaperOut(RecommendationOut):
    """A new paper, as in recommendations; a search has one seed, number 0."""

    added_at: datetime = Field(description="When it was added to the collection (RFC 3339).")


class NewsOut(BaseModel):
    """Papers that are new to a saved query, best first; ``reason`` and, in words, ``detail`` say why if none.

    ``added`` is the number of papers added since that pass its filters; those that are hardly related are
    left out unless requested. ``matching`` papers match, at most ``limit`` are returned. All papers up to the
    change ``seen_up_to`` were compared: send it back to mark all matches as seen. It stays where it was if
    ``coverage`` is below 1 or ``reason`` is ``no_seed_resolved``. ``unresolved`` are seeds that could not be
    used.
    """

    id: str
    name: str
    results: list[NewPaperOut]
    added: int
    matching: int
    seen_up_to: int
    unresolved: list[UnresolvedOut]
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[WarningOut, ...]
    coverage: float = Field(description="The share of the collection's papers that was searched.", ge=0, le=1)
    took_ms: TookMs

    @classmethod
    def of(cls, summary: SavedQuerySummary, news: News) -> "NewsOut":
        """Build from domain values."""
        answer = news.answer
        return cls(
            id=summary.id,
            name=summary.name,
            results=[
                NewPaperOut(
                    **RecommendationOut.model_validate(each.ranked).__dict__, added_at=utc_time(each.added_at)
                )
                for each in news.papers
            ],
            added=news.n_added,
            matching=news.n_matching,
            seen_up_to=news.up_to,
            unresolved=[UnresolvedOut.of(lost) for lost in answer.unresolved],
            **of_answer(answer),
        )
