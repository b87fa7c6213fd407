"""``/v1/queries``: saved queries, their new papers, and their feeds (``/v1/feeds``)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from indexer.catalog.current import AddedPaper
from models.errors import SavedQueryConflictError, SavedQueryNotFoundError
from service.access.feeds import FeedOf
from service.access.in_turn import read_then_compute
from service.access.keys import Caller
from service.access.policy import FEED, OWN, requires
from service.api.dependencies.callers import CallerDep, owner_of, seen_by
from service.api.dependencies.engine import EngineDep
from service.api.dependencies.formats import COVERED, coverage_header
from service.api.errors import RESPONSES
from service.api.exports import Feed, to_atom
from service.api.json_body import JSONBodyRoute
from service.api.middleware.routing import PATH_PATTERN
from service.api.schemas.base import IN_ADDRESS, PaperOut
from service.api.schemas.saved.queries import (
    NewsOut,
    SavedQueriesOut,
    SavedQueryOut,
    SavedQuerySummaryOut,
    SaveIn,
    SeenIn,
    to_query,
)
from service.api.services import public_address, services_of
from service.saved.news import MAX_NEWS, News, newest_of, news_of, unusable_seeds
from service.saved.saved_queries import MAX_ADDED, NewSavedQuery, SavedQueries, SavedQuery, SavedQuerySummary
from service.search.engine import SearchEngine
from service.search.query import Reason

router = APIRouter(tags=["saved queries"], route_class=JSONBodyRoute)
_ALL: Final = "/v1/queries"
_ONE: Final = f"{_ALL}/{{query_id}}"
_FEEDS: Final = "/v1/feeds"
_MAX_BODY_BYTES: Final = 500_000  # 500 names, or some 300 pasted abstracts
_FEED_S: Final = 60 * 86_400  # how long a paper stays in a feed: readers keep what they have fetched
_FEED_PAPERS: Final = 100
_NO_SEED: Final = "Nothing can be new to this query, because none of its seeds can be used."
_ONLY_LAST: Final = f"Only the last {MAX_ADDED:,} papers added are compared with this query."
_ATOM: Final = "application/atom+xml"
_Shown = TypeVar("_Shown")
_QueryId = Annotated[str, Path(pattern=PATH_PATTERN, description="The `id` of a saved query.")]
_Token = Annotated[str, Path(pattern=PATH_PATTERN, description="The last part of the address of the feed.")]
_Most = Annotated[int, Field(ge=1, le=MAX_NEWS), IN_ADDRESS]
_Limit = Annotated[_Most | None, Query(description="Number of papers to return; default: the saved limit.")]
_Weak = Annotated[bool, Query(description="Also return papers that are hardly related to the query.")]
_MADE: dict[int | str, dict[str, Any]] = {
    200: {"model": SavedQueryOut, "description": "The same query was already saved under that name"},
    201: {
        "headers": {
            "Location": {"description": "The address of the saved query", "schema": {"type": "string"}}
        }
    },
    409: {
        **RESPONSES[422],
        "description": "The name belongs to another query, or there are too many queries",
    },
}

_NO_FEED: dict[int | str, dict[str, Any]] = {
    409: {**RESPONSES[422], "description": "The service has no secret that lasts, so no feed would"}
}


def _get_saved(request: Request) -> SavedQueries:
    store = services_of(request.app).saved
    if not store.is_there:
        raise SavedQueryNotFoundError("This service has no saved queries.")
    return store.get()


SavedDep = Annotated[SavedQueries, Depends(_get_saved)]


def feed_path(request: Request, summary: SavedQuerySummary) -> str | None:
    """Return the path of a query's feed, or its address if ``public_url`` is set.

    ``None`` without a feed, or if its address would not last.
    """
    services = services_of(request.app)
    if not summary.has_feed or not services.feeds.lasting:
        return None
    token = services.feeds.write(FeedOf(summary.id, summary.n_feeds))
    root = services.settings.public_url.rstrip("/") or request.scope.get("root_path", "")
    return f"{root}{_FEEDS}/{token}"


@router.post(_ALL, status_code=201, responses=_MADE)
@requires(replace(OWN, max_body_bytes=_MAX_BODY_BYTES))
def save_query(
    body: SaveIn, engine: EngineDep, caller: CallerDep, request: Request, response: Response
) -> SavedQueryOut:
    """Save a search or recommendations, with what to be like and unlike, under a name; 100 at most.

    Papers that are added from now on are new to it. Saving the same query under the same name again changes
    nothing. A query whose sentences cannot be chosen is refused; papers that it names may be added later.
    """
    kind, content = body.stored()
    unresolved = unusable_seeds(engine, to_query(kind.value, content))
    change = engine.snapshot.manifest.change
    new = NewSavedQuery(owner_of(caller), body.name, kind.value, content, change)
    saved, is_new = services_of(request.app).saved.get().save(new)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"{_ALL}/{saved.summary.id}"
    return SavedQueryOut.of_saved(saved, feed=feed_path(request, saved.summary), unresolved=unresolved)


@router.get(_ALL)
@requires(OWN)
def saved_queries(caller: CallerDep, request: Request) -> SavedQueriesOut:
    """Return the saved queries of the caller, without their bodies."""
    store = services_of(request.app).saved
    summaries = store.get().all(owner=owner_of(caller)) if store.is_there else []
    return SavedQueriesOut(
        queries=[SavedQuerySummaryOut.of(summary, feed=feed_path(request, summary)) for summary in summaries]
    )


@router.get(_ONE)
@requires(OWN)
def saved_query(query_id: _QueryId, saved: SavedDep, caller: CallerDep, request: Request) -> SavedQueryOut:
    """Return one saved query."""
    found = saved.get(query_id, owner=seen_by(caller))
    return SavedQueryOut.of_saved(found, feed=feed_path(request, found.summary))


@router.delete(_ONE, status_code=204)
@requires(OWN)
def delete_query(query_id: _QueryId, caller: CallerDep, request: Request) -> None:
    """Delete a saved query, with its feed; one that is not there, or no longer, gives 204 too."""
    store = services_of(request.app).saved
    if store.is_there:
        store.get().remove(query_id, owner=seen_by(caller))


async def with_news(
    request: Request,
    engine: SearchEngine,
    query_id: str,
    shown: Callable[[SavedQuery, News], _Shown],
    *,
    limit: int | None = None,
    weak: bool = False,
) -> _Shown:
    """Return the answer that ``shown`` makes of a saved query of the caller and its new papers.

    Raises SavedQueryNotFoundError, QueryError, OverloadedError, StorageError, DeadlineError.
    """
    caller: Caller = request.state.caller

    def read() -> tuple[SavedQuery, list[AddedPaper]]:
        saved = _get_saved(request)
        found = saved.get(query_id, owner=seen_by(caller))
        return found, saved.added(found.summary.seen)

    def compute(given: tuple[SavedQuery, list[AddedPaper]]) -> _Shown:
        found, added = given
        query = to_query(found.summary.kind, found.body)
        most, since = limit or query.limit, found.summary.seen
        return shown(found, news_of(engine, query, added, since=since, limit=most, weak=weak))

    queues = services_of(request.app).queues
    return await read_then_compute(request.state.turn, read, queues.computing, compute)


@router.get(f"{_ONE}/new", response_model=NewsOut)
@requires(OWN)
async def new_papers(
    query_id: _QueryId,
    request: Request,
    engine: EngineDep,
    limit: _Limit = None,
    weak: _Weak = False,
) -> Response:
    """Return papers that match a saved query and were added since it was last marked as seen, best first."""

    def written(saved: SavedQuery, news: News) -> bytes:
        return NewsOut.of(saved.summary, news).model_dump_json().encode()

    content = await with_news(request, engine, query_id, written, limit=limit, weak=weak)
    return Response(content, media_type="application/json")


@router.post(f"{_ONE}/seen")
@requires(OWN)
def mark_seen(
    query_id: _QueryId, body: SeenIn, saved: SavedDep, caller: CallerDep, request: Request
) -> SavedQuerySummaryOut:
    """Mark the new papers of a saved query as seen, as far as they were read; again it changes nothing.

    Only the key that saved the query may do so.
    """
    summary = saved.mark_seen(query_id, body.up_to, owner=owner_of(caller))
    return SavedQuerySummaryOut.of(summary, feed=feed_path(request, summary))


@router.post(f"{_ONE}/feed", responses=_NO_FEED)
@requires(OWN)
def open_feed(
    query_id: _QueryId, saved: SavedDep, caller: CallerDep, request: Request
) -> SavedQuerySummaryOut:
    """Create an Atom feed of a saved query: ``feed`` is its address, which anyone can read without a key.

    If there is a feed already, it stays.
    """
    if not services_of(request.app).feeds.lasting:
        raise SavedQueryConflictError(
            "The address of a feed would stop working at the next restart, as this service can store no "
            "secret to sign it with; set AKIN_SECRET."
        )
    summary = saved.open_feed(query_id, owner=seen_by(caller))
    return SavedQuerySummaryOut.of(summary, feed=feed_path(request, summary))


@router.delete(f"{_ONE}/feed", status_code=204)
@requires(OWN)
def close_feed(query_id: _QueryId, saved: SavedDep, caller: CallerDep) -> None:
    """Revoke the feed of a saved query: its address never works again, even if a feed is created later."""
    saved.close_feed(query_id, owner=seen_by(caller))


@router.get(
    f"{_FEEDS}/{{token}}",
    response_class=Response,
    responses={200: {"content": {_ATOM: {"schema": {"type": "string"}}}, **COVERED}},
)
@requires(FEED)
async def feed(token: _Token, request: Request, engine: EngineDep) -> Response:
    """Return papers that match a saved query and were added since it was saved, in the last 60 days, as Atom.

    No key is needed, as long as the key that saved the query is valid.
    """
    services = services_of(request.app)

    def read() -> tuple[SavedQuery, list[AddedPaper]]:
        saved = _get_saved(request)
        found = saved.of_feed(*request.state.feed)
        services.keys.expect_readable(request, found.summary.owner)
        return found, saved.added(found.summary.since, within_s=_FEED_S)

    def compute(given: tuple[SavedQuery, list[AddedPaper]]) -> tuple[bytes, float]:
        found, added = given
        summary = found.summary
        query = replace(to_query(summary.kind, found.body), include=frozenset(), max_alignments=0)
        newest, answer = newest_of(engine, query, added, since=summary.since, most=_FEED_PAPERS)
        root = public_address(request)
        note = _ONLY_LAST if len(added) >= MAX_ADDED and len(newest) < _FEED_PAPERS else ""
        if answer.reason is Reason.NO_SEED_RESOLVED:
            note = _NO_SEED
        about = Feed(
            summary.id,
            f"Akin: {summary.name}",
            f"{root}{_FEEDS}/{token}",
            f"{root}/",
            summary.created_at,
            note,
        )
        snapshot = engine.snapshot
        texts = (snapshot.paper(snapshot.position(each.ranked.paper.id)) for each in newest)
        papers = [
            (PaperOut.model_validate(text), each.added_at) for text, each in zip(texts, newest, strict=True)
        ]
        return to_atom(about, papers), answer.coverage

    content, coverage = await read_then_compute(request.state.turn, read, services.queues.computing, compute)
    return Response(content, media_type=_ATOM, headers=coverage_header(coverage))
