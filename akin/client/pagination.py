"""Pagination: requests for pages until the list has as many entries as the caller requested."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from akin.client.params import as_sent
from akin.client.requests import Request
from akin.client.responses.batches import BatchList
from akin.client.responses.matches import ProfileList
from akin.client.responses.papers import AnswerWarning, PaperList
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer

PAGE: Final = 100  # entries, the largest page of a service

_List = TypeVar("_List", SearchAnswer, RecommendationsAnswer, PaperList)
NamedPage = TypeVar("NamedPage", ProfileList, BatchList)


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
            ranked = [page for page in self._pages if not isinstance(page, PaperList)]
            joined["coverage"] = min(page.coverage for page in ranked)
            joined["warnings"] = _joined_warnings(ranked, joined["coverage"])
            joined["took_ms"] = sum(page.took_ms for page in ranked)
        return replace(first, **joined)


def _joined_warnings(
    pages: Sequence[SearchAnswer | RecommendationsAnswer], coverage: float
) -> tuple[AnswerWarning, ...]:
    """Return each warning once: inexact results are counted over all pages, the ``coverage`` is the least."""
    found: dict[object, AnswerWarning] = {}
    for page in pages:
        for each in page.warnings:
            if each.code == "not_converged":
                found[each.code] = _counted_together(found.get(each.code), each)
            elif each.code != "partial_coverage" or page.coverage == coverage:
                found[each] = each
    return tuple(found.values())


def _counted_together(before: AnswerWarning | None, added: AnswerWarning) -> AnswerWarning:
    """Return the warning about the results of both, if there is one ``before``."""
    if before is None:
        return added
    one, other = int(before.about[0]), int(added.about[0])
    message = added.message.replace(f"{other:,}", f"{one + other:,}", 1)
    return replace(added, message=message, about=(str(one + other),))
