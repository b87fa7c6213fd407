"""How a client sends its requests: over one set of connections, tried again where that helps."""

import time
from dataclasses import dataclass
from random import uniform
from types import TracebackType
from typing import Self, TypeVar

import httpx

from akin.client import responses
from akin.client.answers.papers import PaperList
from akin.client.answers.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.calls import Call
from akin.client.paging import Pages
from models.errors import ServiceError

DEFAULT_URL = "http://127.0.0.1:8000"
_Answer = TypeVar("_Answer")
_List = TypeVar("_List", SearchAnswer, RecommendationsAnswer, PaperList)
_RETRIED = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when to try again: after 429, 503 and where no connection was made or it broke.

    Everything a client asks may be asked twice. ``attempts`` counts the first one; a wait is what the
    service tells (``Retry-After``), else random between 0 and ``backoff_s`` doubled each time. Where the
    service tells more than ``max_wait_s``, the client gives up at once.
    """

    attempts: int = 4
    backoff_s: float = 0.5
    max_wait_s: float = 60.0

    def wait_s(self, attempt: int, error: ServiceError) -> float | None:
        """How long to wait after attempt number ``attempt`` (from 1) failed; ``None``: give up."""
        if attempt >= self.attempts or error.status not in _RETRIED | {None}:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.max_wait_s else None
        return uniform(0, min(self.backoff_s * 2 ** (attempt - 1), self.max_wait_s))  # noqa: S311 - no secret

    def next_wait_s(self, attempt: int, error: ServiceError, *, repeatable: bool = True) -> float:
        """The same; raises ``error`` to give up, as for what may have been done and must not be twice."""
        wait_s = None if error.status is None and not repeatable else self.wait_s(attempt, error)
        if wait_s is None:
            raise error
        return wait_s


class Sender:
    """The connections to a service; use it in a ``with`` block, or ``close`` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**responses.options(url, key, timeout_s), transport=transport)
        self._retries = retries or Retries()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _listed(self, pages: Pages[_List]) -> _List:
        while (call := pages.next_call()) is not None:
            pages.take(self._send(call))
        return pages.answer()

    def _send(self, call: Call[_Answer]) -> _Answer:
        attempt = 0
        while True:
            attempt += 1
            try:
                return responses.received(
                    call, self._http.request(call.method, call.path, json=call.body, headers=call.headers)
                )
            except httpx.TransportError as broken:
                error = responses.unreachable(broken, self._http.base_url)
            except ServiceError as problem:
                error = problem
            time.sleep(self._retries.next_wait_s(attempt, error, repeatable=call.repeatable))
