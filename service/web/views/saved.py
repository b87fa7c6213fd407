"""The view of saved queries and their new papers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from service.api.schemas.search.results import ResultOut
from service.saved.news import NewPaper, News
from service.saved.saved_queries import SavedQuerySummary
from service.search.engine import SearchEngine
from service.search.query import Reason, SearchQuery, SeedReason, UnresolvedSeed
from service.web.address.further import Further
from service.web.address.page_query import PageQuery
from service.web.views.results.cards import PaperLinks, links_names, paper_links, web_address
from service.web.views.results.rows import key_sentences
from service.web.views.seeds import name_seeds
from service.web.views.summary import Part, summarize

_NO_START: Final = (
    "Nothing can be new to this search, because none of the papers that it starts from can be used. Papers "
    "added meanwhile stay new until one of those is back. If none comes back, delete this search and save "
    "another."
)


@dataclass(frozen=True, slots=True)
class SavedView:
    """A saved query of the list; days are in UTC, ``seen`` is empty if its news were never marked as seen.

    ``feed`` is the address of its feed, empty if it has none. ``has_additions``: papers were added since.
    """

    id: str
    name: str
    saved: str
    seen: str
    feed: str
    has_additions: bool


@dataclass(frozen=True, slots=True)
class FreshPaper:
    """A new paper, the day it was added, its best matching sentence, and a link to a search from it."""

    title: str
    about: PaperLinks
    added: str
    strength: str
    match: str
    start: str
    out: str


@dataclass(frozen=True, slots=True)
class NewsView:
    """The new papers of a saved query; ``detail`` says why there are none.

    ``parts`` are the query in words and ``href`` its address; both are empty if no address can express it.
    ``n_hidden`` of the ``n_matching`` papers are not shown; ``lost`` says which papers of the query do not
    count. ``up_to`` is sent to mark the news as seen, if they ``may_be_marked``. If all new papers
    ``may_be_weak`` matches, none are shown.
    """

    saved: SavedView
    parts: tuple[Part, ...]
    href: str
    papers: tuple[FreshPaper, ...]
    n_added: int
    n_matching: int
    n_hidden: int
    may_be_marked: bool
    up_to: int
    detail: str
    may_be_weak: bool
    lost: tuple[str, ...]
    warnings: tuple[str, ...]


def view_saved(summary: SavedQuerySummary, feed: str | None, *, last_added: int = 0) -> SavedView:
    """Return the view of a saved query, with the address of its feed if it has one.

    ``last_added`` is the change that added the newest paper of the collection.
    """
    seen = "" if summary.seen_at is None else _day(summary.seen_at)
    return SavedView(
        id=summary.id,
        name=summary.name,
        saved=_day(summary.created_at),
        seen=seen,
        feed=feed or "",
        has_additions=last_added > summary.seen,
    )


def view_news(
    engine: SearchEngine,
    saved: SavedView,
    query: SearchQuery,
    page_query: PageQuery | None,
    news: News,
    *,
    is_own: bool,
) -> NewsView:
    """Return the new papers of ``saved``; ``query`` is its query, ``page_query`` the same on the page.

    Only if the caller's own key saved the query (``is_own``), the papers may be marked as seen.
    """
    answer = news.answer
    start = page_query or PageQuery()
    linked = links_names(start)
    return NewsView(
        saved=saved,
        parts=() if page_query is None else _in_words(engine, page_query),
        href="" if page_query is None else page_query.address(),
        papers=tuple(_fresh(each, start, linked=linked) for each in news.papers),
        n_added=news.n_added,
        n_matching=news.n_matching,
        n_hidden=news.n_hidden,
        may_be_marked=is_own
        and bool(news.n_added)
        and not news.n_hidden
        and answer.coverage == 1
        and answer.reason is not Reason.NO_SEED_RESOLVED,
        up_to=news.up_to,
        detail=_NO_START if answer.reason is Reason.NO_SEED_RESOLVED else answer.detail or "",
        may_be_weak=answer.reason is Reason.NO_MATCH_ADDED,
        lost=tuple(_lost(query, each) for each in answer.unresolved),
        warnings=tuple(each.message for each in answer.warnings),
    )


def _lost(query: SearchQuery, unresolved: UnresolvedSeed) -> str:
    """Return the message that names a paper of the query that does not count, and why."""
    seed = (query.negatives if unresolved.negative else query.seeds)[unresolved.number]
    does = "avoids" if unresolved.negative else "starts from"
    name = seed.paper_id or (seed.paper and seed.paper.title) or "a text of your own"
    if unresolved.reason is SeedReason.NOT_INDEXED:
        return f"This search {does} {name}, which is no longer in the collection."
    return f"This search {does} {name}, which does not count: {unresolved.detail}"


def _in_words(engine: SearchEngine, page_query: PageQuery) -> tuple[Part, ...]:
    paper = engine.names.identifiers.position(page_query.paper) if page_query.paper else None
    title = page_query.title if paper is None else engine.snapshot.paper(paper).title
    return summarize(page_query, title, name_seeds(engine, page_query))


def _fresh(new: NewPaper, page_query: PageQuery, *, linked: bool) -> FreshPaper:
    result = ResultOut.model_validate(new.ranked)
    paper, best = result.paper, key_sentences(result).match
    span = None if best is None else paper.sentences[best]
    facets = {sentence.facet for sentence in paper.sentences}
    return FreshPaper(
        title=paper.title or "Without a title",
        about=paper_links(page_query, paper, linked=linked),
        added=_day(new.added_at),
        strength=result.strength.label if result.strength else "",
        match="" if span is None else paper.abstract[span.start : span.end],
        start=page_query.start_from(Further(paper.id), facets).address(),
        out=web_address(paper),
    )


def _day(unix_s: int) -> str:
    moment = datetime.fromtimestamp(unix_s, UTC)
    return f"{moment.day} {moment:%B %Y}"
