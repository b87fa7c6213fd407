"""Papers that are listed without a query, and authors, venues and fields by a part of their names."""

from dataclasses import dataclass, replace
from typing import Any, Final

from models.errors import QueryError
from models.types import Paper
from service.api.dependencies.cursors import Paging
from service.resolve.filter_names import NAMED, ONE, Named, is_known, names_called
from service.search.engine import SearchEngine
from service.search.lookup import Listing, list_papers
from service.web.address.asked import Asked
from service.web.address.given import MAX_NAMES
from service.web.address.links import Link

_NAMED: Final = 3  # names that are told where there are too many


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of the papers that pass filters, the first of them number ``first``; ``total`` have all pages.

    The cursors lead to the pages before and after, and are ``None`` where there is none. ``detail`` says why
    nothing passes, where that is known.
    """

    asked: Asked
    papers: tuple[Paper, ...]
    total: int
    first: int
    previous_cursor: str | None
    next_cursor: str | None
    detail: str = ""


def browse(paging: Paging, asked: Asked) -> Browsed:
    """The papers that pass the filters, in the order in which they came; raises QueryError, CursorError."""
    given = asked.listing()
    listing, engine = paging.at(given.cursor, Listing(given.to_filters(), given.limit))
    found, start = list_papers(engine, listing), listing.page.offset
    before = replace(listing.page, offset=max(0, start - listing.limit)) if start else None
    return Browsed(
        asked,
        found.papers,
        found.total,
        start + 1,
        paging.cursors.following(before, listing, engine),
        paging.cursors.following(found.next_page, listing, engine),
        "" if found.total else name_unknown(engine, asked),
    )


def with_names(engine: SearchEngine, asked: Asked) -> Asked:
    """The same with authors, venues and fields as the collection spells them, where a part was given.

    Raises QueryError where more are called so than an address takes.
    """
    spelt: dict[str, Any] = {}
    for kind in NAMED:
        found = _found(engine, asked, kind)
        names = tuple(dict.fromkeys(name for called in found.values() for name in called))
        if len(names) > MAX_NAMES:
            raise _too_many(kind, names)
        spelt[kind] = names
    return replace(asked, **spelt)


def names_meant(engine: SearchEngine, asked: Asked) -> tuple[Named, tuple[Link, ...]] | None:
    """The same with each one of those that are called as was given; ``None`` unless these are too many.

    Of many it is the first MAX_NAMES.
    """
    for kind in NAMED:
        found = _found(engine, asked, kind)
        if len({name for names in found.values() for name in names}) <= MAX_NAMES:
            continue
        given = max(found, key=lambda each: len(found[each]))
        kept = tuple(each for each in getattr(asked, kind) if each != given)
        return kind, tuple(
            Link(name, asked.address(**{kind: (*kept, name)})) for name in found[given][:MAX_NAMES]
        )
    return None


def name_unknown(engine: SearchEngine, asked: Asked) -> str:
    """Which filter passes nothing as no name contains it, in words; empty where there is none such."""
    for kind in NAMED:
        given: tuple[str, ...] = getattr(asked, kind)
        if given and not any(is_known(engine.snapshot, kind, name) for name in given):
            return f"No {ONE[kind]}'s name contains {' or '.join(given)}."
    return ""


def _found(engine: SearchEngine, asked: Asked, kind: Named) -> dict[str, list[str]]:
    """Those called as each name says; the name itself, which then passes no paper, where there is none."""
    return {given: names_called(engine.snapshot, kind, given) or [given] for given in getattr(asked, kind)}


def _too_many(kind: Named, names: tuple[str, ...]) -> QueryError:
    return QueryError(
        f"{len(names):,} {kind} have this name, such as {', '.join(names[:_NAMED])}; at most {MAX_NAMES} are "
        "allowed, so give more of it."
    )
