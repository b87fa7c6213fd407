"""The base class of clients: connections, and sending of requests with retries."""

import time
from collections.abc import Callable, Iterator
from typing import Self, TypeVar

import httpx

from akin.client.pagination import NamedPage, Pages
from akin.client.params import as_sent
from akin.client.requests import Request
from akin.client.responses import parsing
from akin.client.responses.papers import PaperList
from akin.client.responses.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.retries import Retries, checked_retries
from models.errors import ServiceError

DEFAULT_URL = "http://127.0.0.1:8000"
_Answer = TypeVar("_Answer")
_List = TypeVar("_List", SearchAnswer, RecommendationsAnswer, PaperList)


class BaseClient:
    """The connections to a service. Use it in a ``with`` block, or ``close`` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float | None = 30.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = httpx.Client(**parsing.options(url, key, timeout_s), transport=transport)
        self._retries = checked_retries(retries)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _each_page(self, make: Callable[[str], Request[NamedPage]]) -> Iterator[NamedPage]:
        """Yield the pages of a list; ``make`` returns the request for the page after a name, "" the first."""
        after: str | None = ""
        while after is not None:
            page = self._send(make(after))
            yield page
            after = page.next_after if len(page) else None  # an empty page could repeat forever

    def _listed(self, pages: Pages[_List]) -> _List:
        while (request := pages.next_request()) is not None:
            pages.take(self._send(request))
        return pages.answer()

    def _send(self, request: Request[_Answer]) -> _Answer:
        attempt, sent = 0, as_sent(request.body)
        while True:
            attempt += 1
            try:
                with parsing.sending():
                    response = self._http.request(
                        request.method, request.path, json=sent, headers=request.headers
                    )
                return parsing.received(request, response)
            except httpx.RequestError as broken:
                error = parsing.unreachable(broken, self._http.base_url)
            except ServiceError as problem:
                error = problem
            self._sleep(self._retries.next_wait_s(attempt, error))
