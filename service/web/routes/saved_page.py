"""``/saved``: saved searches and their new papers.

These routes change nothing: scripts send changes to ``/v1/queries`` as JSON, which pages of other origins
may not.
"""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse

from models.errors import QueryError
from service.access.policy import OWN, Dialect, requires
from service.api.dependencies.callers import CallerDep, owner_of, seen_by
from service.api.dependencies.engine import EngineDep
from service.api.middleware.routing import PATH_PATTERN
from service.api.routes.saved.queries import SavedDep, feed_path, with_news
from service.api.schemas.saved.queries import to_query
from service.api.services import services_of
from service.saved.news import MAX_NEWS, News
from service.saved.saved_queries import SavedQuery
from service.web.render import render
from service.web.saved import page_query_of_saved
from service.web.views.saved import view_news, view_saved

router = APIRouter(prefix="/saved", include_in_schema=False)
_OWN_PAGE: Final = replace(OWN, dialect=Dialect.PAGE)
_QueryId = Annotated[str, Path(pattern=PATH_PATTERN)]


@router.get("")
@requires(_OWN_PAGE)
def page(request: Request, caller: CallerDep) -> Response:
    """List the saved searches of the caller, sorted by name."""
    store = services_of(request.app).saved
    summaries = store.get().all(owner=owner_of(caller)) if store.is_there else []
    added = store.get().last_addition(min(each.seen for each in summaries)) if summaries else 0
    saved = [view_saved(each, feed_path(request, each), last_added=added) for each in summaries]
    return render("saved.html", saved=saved)


@router.get("/{query_id}")
@requires(_OWN_PAGE)
async def new_papers(
    query_id: _QueryId,
    request: Request,
    engine: EngineDep,
    caller: CallerDep,
    weak: bool = False,
    whole: bool = False,
) -> Response:
    """Show a search's new papers, best first; ``whole``: all that match, ``weak``: weak matches too."""

    def shown(saved: SavedQuery, news: News) -> Response:
        view = view_saved(saved.summary, feed_path(request, saved.summary))
        query = to_query(saved.summary.kind, saved.body)
        start, is_own = page_query_of_saved(saved), saved.summary.owner == owner_of(caller)
        shown_news = view_news(engine, view, query, start, news, is_own=is_own)
        return render("news.html", news=shown_news, weak=weak, whole=whole)

    return await with_news(request, engine, query_id, shown, limit=MAX_NEWS if whole else None, weak=weak)


@router.get("/{query_id}/search")
@requires(_OWN_PAGE)
def search(query_id: _QueryId, saved: SavedDep, caller: CallerDep) -> Response:
    """Redirect to the address of a saved search; raises QueryError if an address cannot express it."""
    page_query = page_query_of_saved(saved.get(query_id, owner=seen_by(caller)))
    if page_query is None:
        raise QueryError(
            "A program saved this search with options that the page does not have; look at its new papers, "
            "or run it with a program."
        )
    return RedirectResponse(page_query.address(), 303)
