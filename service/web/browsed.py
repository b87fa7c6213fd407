"""Papers that are listed without a query, and authors by a part of their names."""

from dataclasses import dataclass, replace
from typing import Final

from models.errors import QueryError
from models.types import Paper
from service.api.dependencies.cursors import Paging
from service.resolve.authors import authors_called
from service.search.engine import SearchEngine
from service.search.lookup import Listing, list_papers
from service.web.address.asked import Asked
from service.web.address.given import MAX_NAMES
from service.web.address.links import Link

_NAMED: Final = 3  # authors that are named where too many are called so


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of the papers that pass filters, the first of them number ``first``; ``total`` have all pages.

    The cursors lead to the pages before and after, and are ``None`` where there is none.
    """

    asked: Asked
    papers: tuple[Paper, ...]
    total: int
    first: int
    previous_cursor: str | None
    next_cursor: str | None


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
    )


def with_authors(engine: SearchEngine, asked: Asked) -> Asked:
    """The same with the names of authors as the collection spells them, where a part of one was given.

    Raises QueryError where more authors are called so than an address takes.
    """
    if not asked.authors:
        return asked
    names = dict.fromkeys(name for given in asked.authors for name in _authors(engine, given))
    if len(names) > MAX_NAMES:
        raise _too_many(len(names), list(names))
    return replace(asked, authors=tuple(names))


def authors_meant(engine: SearchEngine, asked: Asked) -> tuple[Link, ...]:
    """The same with one author each of those that are called as was given; none unless these are too many.

    Of many it is the first MAX_NAMES.
    """
    found = {given: _authors(engine, given) for given in asked.authors}
    if len({name for names in found.values() for name in names}) <= MAX_NAMES:
        return ()
    given = max(found, key=lambda each: len(found[each]))
    kept = tuple(each for each in asked.authors if each != given)
    return tuple(Link(name, asked.address(authors=(*kept, name))) for name in found[given][:MAX_NAMES])


def _authors(engine: SearchEngine, given: str) -> list[str]:
    """The authors called so; the name itself, which then passes no paper, where nobody is."""
    return authors_called(engine.snapshot, given) or [given]


def _too_many(n_names: int, names: list[str]) -> QueryError:
    some = ", ".join(names[:_NAMED])
    return QueryError(
        f"{n_names:,} authors have this name, such as {some}; at most {MAX_NAMES} are allowed, so give more "
        "of it."
    )
