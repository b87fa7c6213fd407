"""Why a query cannot be answered, in the page's own words, and the link that mends it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fastapi import Response

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
from service.web.address.asked import DEFAULT_LIMIT, Asked
from service.web.address.links import Link
from service.web.render import render

_WORDS: Final[dict[type[InputError], str]] = {
    CursorExpiredError: "The collection has changed since; start again from the first page.",
    PaperNotFoundError: "This paper is not in this collection; paste its title and abstract to ask with it.",
    CursorError: "The link to this page of results is incomplete, or belongs to another search.",
}
_NO_KEY_SENT: Final = "A web page cannot send a key: use the API, or a proxy that adds the key."
# Answers count sentences from 0, people from 1: in a range, and in a list.
_RANGE = re.compile(r"numbered 0 to (\d+)")
_LIST = re.compile(r"\[(\d+(?:, \d+)*)\]")


def in_words(error: AkinError) -> str:
    """What ``error`` says, as people are told it: sentences counted from 1."""
    said = next((_WORDS[cls] for cls in type(error).__mro__ if cls in _WORDS), "") or public_detail(error)
    if isinstance(error, KeyRefusedError):
        said = f"{said} {_NO_KEY_SENT}"
    if not isinstance(error, SentenceSelectionError):
        return said.replace("`", "")
    said = _RANGE.sub(lambda found: f"numbered 1 to {int(found[1]) + 1}", said)
    return _LIST.sub(lambda found: ", ".join(str(int(number) + 1) for number in found[1].split(", ")), said)


def mended(asked: Asked, error: InputError) -> Link | None:
    """The same query without what was wrong with it; ``None`` where that cannot be told."""
    if isinstance(error, CursorError):
        return Link("Show the first page", asked.address())
    if isinstance(error, SentenceSelectionError):
        nothing: dict[str, Any] = dict.fromkeys(
            ("sentences", "facets", "unlike_sentences", "unlike_facets"), ()
        )
        return Link("Search with the whole abstract", asked.address(**nothing))
    without = replace(asked, year_from=None, year_to=None, limit=DEFAULT_LIMIT)
    if _is_valid(asked) or not _is_valid(without):
        return None
    return Link("Search without these years, ten results per page", without.address())


def without_authors(asked: Asked) -> Link | None:
    """The same query for papers of any author; ``None`` where nothing else is asked."""
    return Link("Search without the author", asked.address(authors=())) if asked.anything else None


def _is_valid(asked: Asked) -> bool:
    """Whether nothing is wrong with a query itself, whatever the collection holds."""
    try:
        if asked.browses:
            asked.listing()
        else:
            asked.settled(()).request()
    except QueryError:
        return False
    return True


def _problem_page(body: ProblemOut, headers: Mapping[str, str]) -> Response:
    """A problem for who looks at a page."""
    page = render("problem.html", body.status, problem=body, retry_after=headers.get("Retry-After"))
    for name, value in headers.items():
        page.headers.setdefault(name, value)
    return page


PROBLEM_PAGES: Final = ProblemPages(in_words, _problem_page)
