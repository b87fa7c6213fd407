"""Listing of papers by filters alone, and lookup of authors, venues and fields by a part of their names."""

from dataclasses import dataclass, replace
from typing import Any, Final

from models.errors import QueryError
from models.types import Paper
from service.api.dependencies.cursors import Paging
from service.api.schemas.search.filters import MAX_NAME_CHARS
from service.resolve.filter_names import FILTER_KINDS, ONE, FilterKind, any_known, names_called
from service.search.engine import SearchEngine
from service.search.lookup import Listing, list_papers
from service.web.address.given import MAX_NAMES
from service.web.address.links import Link
from service.web.address.page_query import PageQuery

_NAMED: Final = 3  # names listed in the error for too many


@dataclass(frozen=True, slots=True)
class PaperListing:
    """A page of the ``total`` papers that pass the filters; its first paper is number ``first`` of them.

    The cursors lead to the pages before and after, and are ``None`` if there is none. ``detail`` says why
    no paper passes, if that is known.
    """

    page_query: PageQuery
    papers: tuple[Paper, ...]
    total: int
    first: int
    previous_cursor: str | None
    next_cursor: str | None
    detail: str = ""


def browse(paging: Paging, page_query: PageQuery) -> PaperListing:
    """List the papers that pass the filters, in the order they were added; raises QueryError, CursorError."""
    given = page_query.listing()
    listing, engine = paging.at(given.cursor, Listing(given.to_filters(), given.limit))
    found, start = list_papers(engine, listing), listing.page.offset
    before = replace(listing.page, offset=max(0, start - listing.limit)) if start else None
    return PaperListing(
        page_query,
        found.papers,
        found.total,
        start + 1,
        paging.cursors.following(before, listing, engine),
        paging.cursors.following(found.next_page, listing, engine),
        "" if found.total else name_unknown(engine, page_query),
    )


def with_names(engine: SearchEngine, page_query: PageQuery) -> PageQuery:
    """Return the query with the full names of authors, venues and fields that contain the given ones.

    Raises QueryError if there are more of them than an address may have.
    """
    spelt: dict[str, Any] = {}
    for kind in FILTER_KINDS:
        found = _found(engine, page_query, kind)
        names = tuple(dict.fromkeys(name for called in found.values() for name in called))
        if len(names) > MAX_NAMES:
            raise _too_many(kind, names)
        spelt[kind] = names
    return replace(page_query, **spelt)


def names_meant(engine: SearchEngine, page_query: PageQuery) -> tuple[FilterKind, tuple[Link, ...]] | None:
    """Return the filter with too many matching names and a link to the query with each of these names.

    There are links for the first MAX_NAMES names. Returns ``None`` if no filter has too many.
    """
    for kind in FILTER_KINDS:
        found = _found(engine, page_query, kind)
        if len({name for names in found.values() for name in names}) <= MAX_NAMES:
            continue
        given = max(found, key=lambda each: len(found[each]))
        kept = tuple(each for each in getattr(page_query, kind) if each != given)
        return kind, tuple(
            Link(name, page_query.address(**{kind: (*kept, name)})) for name in found[given][:MAX_NAMES]
        )
    return None


def name_unknown(engine: SearchEngine, page_query: PageQuery) -> str:
    """Return the message for a filter that no name in the collection contains, or "" if there is none."""
    for kind in FILTER_KINDS:
        given: tuple[str, ...] = getattr(page_query, kind)
        if given and not any_known(engine.snapshot, kind, given):
            long = any(names_called(engine.snapshot, kind, name) for name in given)
            bound = f" of at most {MAX_NAME_CHARS} characters" if long else ""
            return f"No {ONE[kind]}'s name{bound} contains {' or '.join(f'“{each}”' for each in given)}."
    return ""


def _found(engine: SearchEngine, page_query: PageQuery, kind: FilterKind) -> dict[str, list[str]]:
    """Return the matching names of each given name, without names too long for a filter.

    If there are none, the given name itself stands for them.
    """
    found: dict[str, list[str]] = {}
    for given in getattr(page_query, kind):
        called = names_called(engine.snapshot, kind, given)
        found[given] = [name for name in called if len(name) <= MAX_NAME_CHARS] or [given]
    return found


def _too_many(kind: FilterKind, names: tuple[str, ...]) -> QueryError:
    return QueryError(
        f"{len(names):,} {kind} have this name, such as {', '.join(names[:_NAMED])}; at most {MAX_NAMES} are "
        "allowed, so give more of it."
    )
