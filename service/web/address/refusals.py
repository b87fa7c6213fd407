"""The page's messages for queries that cannot be answered, and links to corrected queries."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fastapi import Response
from starlette.datastructures import QueryParams

from models.errors import (
    AkinError,
    CursorError,
    CursorExpiredError,
    InputError,
    KeyRefusedError,
    PaperNotFoundError,
    QueryError,
    SentenceSelectionError,
)
from service.api.errors import ProblemPages
from service.api.public_details import public_detail
from service.api.schemas.operations import ProblemOut
from service.resolve.filter_names import ONE, FilterKind
from service.web.address.given import FURTHER, MAX_FURTHER_PAPERS
from service.web.address.links import Link, short
from service.web.address.page_query import DEFAULT_LIMIT, KNOWN, PageQuery
from service.web.render import render

_WORDS: Final[dict[type[InputError], str]] = {
    CursorExpiredError: "The collection has changed since; start again from the first page.",
    PaperNotFoundError: "This paper is not in this collection; paste its title and abstract instead.",
    CursorError: "The link to this page of results is incomplete, or belongs to another search.",
}
_NO_KEY_SENT: Final = "A web page cannot send a key: use the API, or a proxy that adds the key."
# Errors count sentences from 0, pages from 1. Errors name sentences in a range or in a list.
_RANGE = re.compile(r"numbered 0 to (\d+)")
_LIST = re.compile(r"\[(\d+(?:, \d+)*)\]")


def in_words(error: AkinError) -> str:
    """Return the message of ``error`` for a page, with sentences counted from 1."""
    said = next((_WORDS[cls] for cls in type(error).__mro__ if cls in _WORDS), "") or public_detail(error)
    if isinstance(error, KeyRefusedError):
        said = f"{said} {_NO_KEY_SENT}"
    if not isinstance(error, SentenceSelectionError):
        return said.replace("`", "")
    said = _RANGE.sub(lambda found: f"numbered 1 to {int(found[1]) + 1}", said)
    return _LIST.sub(lambda found: ", ".join(str(int(number) + 1) for number in found[1].split(", ")), said)


def not_here(page_query: PageQuery) -> str:
    """Return the message that the collection lacks the query's paper, with its name."""
    named = short(page_query.paper)
    return f"This paper is not in this collection: {named}. Paste its title and abstract instead."


def correction(page_query: PageQuery, error: InputError) -> Link | None:
    """Return a link to the query without its invalid part, or ``None`` if no such query is known."""
    if isinstance(error, CursorError):
        return Link("Show the first page", page_query.address())
    if isinstance(error, SentenceSelectionError):
        nothing: dict[str, Any] = dict.fromkeys(
            ("sentences", "facets", "unlike_sentences", "unlike_facets"), ()
        )
        return Link("Search with the whole abstract", page_query.address(**nothing))
    if isinstance(error, PaperNotFoundError):
        rest = page_query.without_start()
        return Link("Search without this paper", rest.address()) if page_query.like else None
    return None if _is_valid(page_query) else _with_other_numbers(page_query)


def _with_other_numbers(page_query: PageQuery) -> Link | None:
    """Return a link to the first valid query: without years, with the default limit, or both changed."""
    changes: list[tuple[str, dict[str, Any]]] = [
        ("Search without these years", {"year_from": None, "year_to": None}),
        ("Search with ten results per page", {"limit": DEFAULT_LIMIT}),
    ]
    changes.append(("Search without these years, ten results per page", {**changes[0][1], **changes[1][1]}))
    for words, change in changes:
        if _is_valid(correction := replace(page_query, **change)):
            return Link(words, correction.address())
    return None


def without_names(page_query: PageQuery, kind: FilterKind) -> Link | None:
    """Return a link to the query without its filter ``kind``, or ``None`` if it has no paper or text."""
    if not page_query.has_seeds:
        return None
    return Link(f"Search without the {ONE[kind]}", page_query.address(**{kind: ()}))


def without_malformed(given: QueryParams) -> Link | None:
    """Return a link without what cannot be parsed, or ``None`` if nothing is left to search.

    This is either the further papers that are too many or one parameter.
    """
    if (page_query := _read(_first_papers(given))) is not None and page_query.has_further_papers:
        return Link(f"Search with the first {MAX_FURTHER_PAPERS} papers", page_query.address())
    for name in reversed(KNOWN):
        rest = QueryParams([each for each in given.multi_items() if each[0] != name])
        if name in given and (page_query := _read(rest)) is not None:
            asks = page_query.has_seeds or page_query.has_only_filters
            return Link(f"Search without “{name}”", page_query.address()) if asks else None
    return None


def _first_papers(given: QueryParams) -> QueryParams:
    """Return ``given`` with as many further papers as an address may have, and their facets."""
    rest, n_papers = [], 0
    for name, value in given.multi_items():
        n_papers += bool(value) and name in FURTHER
        if n_papers <= MAX_FURTHER_PAPERS or name not in {*FURTHER, "in"}:
            rest.append((name, value))
    return QueryParams(rest)


def _read(given: QueryParams) -> PageQuery | None:
    try:
        return PageQuery.of(given)
    except QueryError:
        return None


def _is_valid(page_query: PageQuery) -> bool:
    """Return whether the query itself is valid, whatever papers the collection holds."""
    try:
        if page_query.has_only_filters:
            page_query.listing()
        else:
            page_query.settled(()).request()
    except QueryError:
        return False
    return True


def _problem_page(body: ProblemOut, headers: Mapping[str, str]) -> Response:
    """Return a problem as an HTML page, with the headers of its answer."""
    page = render("problem.html", body.status, problem=body, retry_after=headers.get("Retry-After"))
    for name, value in headers.items():
        page.headers.setdefault(name, value)
    return page


PROBLEM_PAGES: Final = ProblemPages(in_words, _problem_page)
