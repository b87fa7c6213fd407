"""Saved queries of a collection in this process."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from akin.client import requests
from akin.client.params import (
    RecommendationsRequest,
    SearchRequest,
    name_of,
)
from akin.client.responses.saved import News, SavedQuery, SavedQueryList, SavedQuerySummary
from akin.local.folder import OpenFolder, as_answer, checked
from service.api.schemas.base import WHOLE, Strict
from service.api.schemas.saved.queries import (
    NewsOut,
    SavedQueriesOut,
    SavedQueryOut,
    SavedQuerySummaryOut,
    SaveIn,
    SeenIn,
    to_query,
)
from service.saved.news import MAX_NEWS, news_of, unusable_seeds
from service.saved.saved_queries import NewSavedQuery, SavedQueries

_SAVED: TypeAdapter[Any] = TypeAdapter(SaveIn)
_SEEN = TypeAdapter(SeenIn)


class _NewsIn(Strict):
    """The parameters of ``new_papers``: the most papers to return."""

    limit: Annotated[int, Field(ge=1, le=MAX_NEWS), WHOLE] | None = None


_NEWS = TypeAdapter(_NewsIn)


class WithSavedQueries(OpenFolder):
    """The methods of ``akin.Client`` for saved queries and their new papers."""

    def save_query(
        self,
        name: str,
        *,
        search: SearchRequest | None = None,
        recommendations: RecommendationsRequest | None = None,
    ) -> SavedQuery:
        """As ``Client.save_query``."""
        body = checked(_SAVED, requests.save_query(name, search, recommendations).body)
        kind, content = body.stored()
        engine = self._engine
        unresolved = unusable_seeds(engine, to_query(kind.value, content))
        change = engine.snapshot.manifest.change
        saved, _ = self._queries.save(NewSavedQuery("", body.name, kind.value, content, change))
        return as_answer(SavedQuery, SavedQueryOut.of_saved(saved, feed=None, unresolved=unresolved))

    def saved_queries(self) -> tuple[SavedQuerySummary, ...]:
        """As ``Client.saved_queries``, for the queries of all keys."""
        summaries = [SavedQuerySummaryOut.of(summary, feed=None) for summary in self._queries.all(owner=None)]
        return as_answer(SavedQueryList, SavedQueriesOut(queries=summaries)).queries

    def saved_query(self, query_id: str) -> SavedQuery:
        """As ``Client.saved_query``."""
        saved = self._queries.get(name_of(query_id), owner=None)
        return as_answer(SavedQuery, SavedQueryOut.of_saved(saved, feed=None))

    def delete_query(self, query_id: str) -> None:
        """As ``Client.delete_query``."""
        self._queries.remove(name_of(query_id), owner=None)

    def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """As ``Client.new_papers``."""
        request = checked(_NEWS, {"limit": limit})
        found = self._queries.get(name_of(query_id), owner=None)
        query = to_query(found.summary.kind, found.body)
        added, most = self._queries.added(found.summary.seen), request.limit or query.limit
        news = news_of(self._engine, query, added, since=found.summary.seen, limit=most, weak=weak)
        return as_answer(News, NewsOut.of(found.summary, news))

    def mark_seen(self, query_id: str, up_to: int) -> SavedQuerySummary:
        """As ``Client.mark_seen``, only for queries saved without a key: those of a key are its owner's."""
        seen = checked(_SEEN, requests.mark_seen(query_id, up_to).body)
        summary = self._queries.mark_seen(name_of(query_id), seen.up_to, owner="")
        return as_answer(SavedQuerySummary, SavedQuerySummaryOut.of(summary, feed=None))

    @property
    def _queries(self) -> SavedQueries:
        if self._saved is None:
            self._saved = SavedQueries.open_existing(self._settings.catalog)
        return self._saved
