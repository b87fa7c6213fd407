"""Lists that are longer than a page, asked for page by page until there are as many entries as are wanted."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from akin.client.answers.papers import PaperList
from akin.client.answers.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.calls import Call

PAGE: Final = 100  # entries, the most that a service gives at a time

_List = TypeVar("_List", SearchAnswer, RecommendationsAnswer, PaperList)


class Pages(Generic[_List]):
    """The pages of one list: ``make`` gives the call of each, from what is ``asked`` for.

    The list ends with ``limit`` entries, where that is asked for, else with its first page.
    """

    def __init__(self, make: Callable[[Any], Call[_List]], asked: Mapping[str, Any]) -> None:
        self._make: Callable[[Any], Call[_List]] = make
        self._asked = dict(asked)
        self._pages: list[_List] = []

    def next_call(self) -> Call[_List] | None:
        """That of the next page; ``None`` where there is none, or enough is there."""
        limit = self._asked.get("limit")
        if not self._pages:
            # What is no number is for whoever checks the request to name.
            page = min(limit, PAGE) if isinstance(limit, int) else limit
            return self._make({**self._asked, **({} if limit is None else {"limit": page})})
        cursor = self._pages[-1].next_cursor
        missing = 0 if limit is None else limit - sum(map(len, self._pages))
        if cursor is None or missing < 1:
            return None
        return self._make({**self._asked, "limit": min(missing, PAGE), "cursor": cursor})

    def take(self, page: _List) -> None:
        """The answer to the last call."""
        self._pages.append(page)

    def answer(self) -> _List:
        """All pages as one; its cursor leads on behind the last of them."""
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
