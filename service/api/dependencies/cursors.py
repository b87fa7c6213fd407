"""Cursors, as dependencies of endpoints: the page and its generation."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from service.api.errors import RESPONSES
from service.api.services import services_of
from service.collection.cursors import Cursors
from service.search.engine import SearchEngine
from service.search.lookup import Listing
from service.search.query import SearchQuery

_Paged = TypeVar("_Paged", SearchQuery, Listing)
# Further responses of endpoints that take cursors, for the OpenAPI document.
CURSOR_RESPONSES: dict[int | str, dict[str, Any]] = {
    410: {
        **RESPONSES[422],
        "description": "The cursor's generation is no longer served; start again without it",
    }
}


@dataclass(frozen=True, slots=True)
class Paging:
    """The cursors of the application and the engines they lead to, for one request."""

    cursors: Cursors
    request: Request

    def engine(self, cursor: str) -> SearchEngine:
        """Return the engine of the page at ``cursor``; the query must be read from its papers too.

        Without a cursor, it is the engine of this request. Raises CursorError, CursorExpiredError.
        """
        engine: SearchEngine = self.request.state.engine
        if not cursor:
            return engine
        return services_of(self.request.app).collection.engines.at(self.cursors.generation(cursor))

    def at(self, cursor: str | None, query: _Paged) -> tuple[_Paged, SearchEngine]:
        """Return ``query`` at the page of ``cursor``, or else the first, and the engine that answers it.

        Raises CursorError, CursorExpiredError.
        """
        engines = services_of(self.request.app).collection.engines
        query, engine = self.cursors.at(cursor, query, self.request.state.engine, engines)
        self.request.state.engine = engine
        return query, engine


async def get_paging(request: Request) -> Paging:
    """Return the cursors and engines for this request."""
    return Paging(services_of(request.app).cursors, request)


PagingDep = Annotated[Paging, Depends(get_paging)]
