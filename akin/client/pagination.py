"""Pagination: requests for pages until the list has as many entries as the caller requested."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from akin.client.params import as_sent
from akin.client.requests import Request
from akin.client.responses.papers import PaperList
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer

PAGE: Final = 100  # entries, the largest page of a service

_List = TypeVar("_List", SearchAnswer, RecommendationsAnswer, PaperList)


class Pages(Generic[_List]):
    """The pages of one list; ``make`` returns the request for each page.

    The list ends with ``limit`` entries, if ``params`` has one, else with its first page.
    """

    def __init__(self, make: Callable[[Any], Request[_List]], params: Mapping[str, Any]) -> None:
        self._make: Callable[[Any], Request[_List]] = make
        self._params = as_sent(params)
        self._pages: list[_List] = []

    def next_request(self) -> Request[_List] | None:
        """Return the request for the next page, or ``None`` if there is none, or there are enough entries."""
        limit = self._params.get("limit")
        if not self._pages:
            # A limit that is not a number is sent as it is, and the check of the request names it.
            page = min(limit, PAGE) if isinstance(limit, int) else limit
            return self._make({**self._params, **({} if limit is None else {"limit": page})})
        cursor = self._pages[-1].next_cursor
        missing = limit - sum(map(len, self._pages)) if isinstance(limit, int) else 0
        # Stop at an empty page with a cursor, which could repeat forever.
        if cursor is None or missing < 1 or not len(self._pages[-1]):
            return None
        return self._make({**self._params, "limit": min(missing, PAGE), "cursor": cursor})

    def take(self, page: _List) -> None:
        """Add the answer to the last request."""
        self._pages.append(page)

    def answer(self) -> _List:
        """Return all pages as one list; its cursor continues after the last page."""
        first, last = self._pages[0], self._pages[-1]
        if first is last:
            return first
        joined: dict[str, Any] = {
            first.LIST: tuple(chain.from_iterable(self._pages)),
            "next_cursor": last.next_cursor,
            "total": first.total if last.total is None else last.total,
        }
        if not isinstance(first, PaperList):
            of_pages = [each for page in self._pages for each in page.warnings]
            joined["warnings"] = tuple(dict.fromkeys(of_pages))
            joined["took_ms"] = sum(page.took_ms for page in self._pages)
        return replace(first, **joined)
