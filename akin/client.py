"""Clients of a running service, for programs::

import akin

with akin.Client("http://127.0.0.1:8000") as client:
    for result in client.search(paper_id="demo:p03-m07", facet="method").results:
        print(result.score, result.paper.title)
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import uniform
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack
from urllib.parse import quote

import anyio
import httpx
from pydantic import TypeAdapter, ValidationError

from akin.answers import (
    Analysis,
    Paper,
    PaperAnswer,
    RecommendationsAnswer,
    SearchAnswer,
    SentenceAnswer,
)
from akin.queries import RecommendationsRequest, SearchRequest, SentenceRequest
from models.errors import InputError, ServiceError

DEFAULT_URL = "http://127.0.0.1:8000"
_Answer = TypeVar("_Answer")
_ANSWERS = {
    answer: TypeAdapter(answer)
    for answer in (Analysis, PaperAnswer, RecommendationsAnswer, SearchAnswer, SentenceAnswer)
}
_PAPER_KEYS = ("paper_id", "title", "abstract", "text")
_SENTENCE_KEYS = ("text", "paper_id", "sentence")
_RETRIED = frozenset({429, 503})
_MAX_DETAIL = 300


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


@dataclass(frozen=True, slots=True)
class _Call(Generic[_Answer]):
    """One request and what its answer is."""

    method: str
    path: str
    answer: type[_Answer]
    body: dict[str, Any] | None = None


def _with_query(asked: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The body of a search: what names the query apart from the rest."""
    query = {key: asked[key] for key in keys if key in asked}
    return {"query": query, **{key: value for key, value in asked.items() if key not in keys}}


def _search(asked: SearchRequest) -> _Call[SearchAnswer]:
    return _Call("POST", "/v1/search", SearchAnswer, _with_query(asked, _PAPER_KEYS))


def _recommendations(asked: RecommendationsRequest) -> _Call[RecommendationsAnswer]:
    return _Call("POST", "/v1/recommendations", RecommendationsAnswer, dict(asked))


def _sentences(asked: SentenceRequest) -> _Call[SentenceAnswer]:
    return _Call("POST", "/v1/sentences/search", SentenceAnswer, _with_query(asked, _SENTENCE_KEYS))


def _analyze(title: str, abstract: str | list[str]) -> _Call[Analysis]:
    return _Call("POST", "/v1/analyze", Analysis, {"title": title, "abstract": abstract})


def _paper(paper_id: str) -> _Call[PaperAnswer]:
    return _Call("GET", f"/v1/papers/{quote(paper_id, safe='')}", PaperAnswer)


def _received(call: _Call[_Answer], response: httpx.Response) -> _Answer:
    """The answer; raises ServiceError for a problem and for what no service of Akin would answer."""
    if response.status_code != httpx.codes.OK:
        raise _problem(response)
    try:
        adapter: TypeAdapter[_Answer] = _ANSWERS[call.answer]  # type: ignore[index,assignment]  # by its type
        return adapter.validate_json(response.content)
    except ValidationError as error:
        raise ServiceError(
            f"The answer is not what {call.path} of a service of Akin answers; look at the address and at "
            "the versions of both.",
            type="about:blank",
            status=response.status_code,
        ) from error


def _problem(response: httpx.Response) -> ServiceError:
    """The problem a service answered (RFC 9457), or the bare status of whatever stands before it."""
    problem: Any = {}
    if "json" in response.headers.get("content-type", ""):
        try:
            problem = response.json()
        except ValueError:
            problem = {}
    if not isinstance(problem, dict):
        problem = {}
    return ServiceError(
        str(problem.get("detail") or response.reason_phrase)[:_MAX_DETAIL],
        type=str(problem.get("type", "about:blank")),
        status=response.status_code,
        request_id=response.headers.get("x-request-id"),
        retry_after_s=_retry_after_s(response.headers.get("retry-after")),
    )


def _retry_after_s(given: str | None) -> float | None:
    """Seconds, given as such or as a date (RFC 9110, 10.2.3); ``None`` for anything else."""
    if given is None:
        return None
    if given.strip().isdecimal():
        return float(given)
    try:
        until = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _unreachable(error: httpx.TransportError, url: httpx.URL) -> ServiceError:
    """A connection that was not made, broke, or took too long."""
    slow = isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout)
    what = "did not answer in time; ask for less or allow a longer timeout_s" if slow else "cannot be reached"
    return ServiceError(
        f"The service at {url.copy_with(userinfo=None)} {what} ({type(error).__name__}).",
        type=f"urn:akin:problem:{'timeout' if slow else 'unreachable'}",
        status=504 if slow else None,
    )


def _options(url: str, key: str | None, timeout_s: float) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise InputError("The address of a service starts with http:// or https://; give it in full.")
    headers = {"Accept": "application/json", **({} if key is None else {"Authorization": f"Bearer {key}"})}
    return {"base_url": url, "headers": headers, "timeout": timeout_s}


class Client:
    """A client of the service at ``url``; use it in a ``with`` block, or ``close`` it. Threads may share it.

    ``key`` is an API key, where the service wants one; ``timeout_s`` bounds the wait for each answer. Every
    method raises ServiceError for what is no answer.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**_options(url, key, timeout_s), transport=transport)
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

    def search(self, **asked: Unpack[SearchRequest]) -> SearchAnswer:
        """Papers akin to one, in the respect chosen; SearchRequest tells the keywords."""
        return self._send(_search(asked))

    def recommendations(self, **asked: Unpack[RecommendationsRequest]) -> RecommendationsAnswer:
        """Papers akin to many and far from others; RecommendationsRequest tells the keywords."""
        return self._send(_recommendations(asked))

    def sentences(self, **asked: Unpack[SentenceRequest]) -> SentenceAnswer:
        """The sentences nearest to one; SentenceRequest tells the keywords."""
        return self._send(_sentences(asked))

    def analyze(self, abstract: str | list[str], *, title: str = "") -> Analysis:
        """The sentences of an abstract and what each does."""
        return self._send(_analyze(title, abstract))

    def paper(self, paper_id: str) -> Paper:
        """A paper of the collection."""
        return self._send(_paper(paper_id)).paper

    def _send(self, call: _Call[_Answer]) -> _Answer:
        attempt = 0
        while True:
            attempt += 1
            try:
                return _received(call, self._http.request(call.method, call.path, json=call.body))
            except httpx.TransportError as broken:
                error = _unreachable(broken, self._http.base_url)
            except ServiceError as problem:
                error = problem
            wait_s = self._retries.wait_s(attempt, error)
            if wait_s is None:
                raise error
            time.sleep(wait_s)


class AsyncClient:
    """The same for asyncio and trio; use it in an ``async with`` block, or ``aclose`` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**_options(url, key, timeout_s), transport=transport)
        self._retries = retries or Retries()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def search(self, **asked: Unpack[SearchRequest]) -> SearchAnswer:
        """As ``Client.search``."""
        return await self._send(_search(asked))

    async def recommendations(self, **asked: Unpack[RecommendationsRequest]) -> RecommendationsAnswer:
        """As ``Client.recommendations``."""
        return await self._send(_recommendations(asked))

    async def sentences(self, **asked: Unpack[SentenceRequest]) -> SentenceAnswer:
        """As ``Client.sentences``."""
        return await self._send(_sentences(asked))

    async def analyze(self, abstract: str | list[str], *, title: str = "") -> Analysis:
        """As ``Client.analyze``."""
        return await self._send(_analyze(title, abstract))

    async def paper(self, paper_id: str) -> Paper:
        """As ``Client.paper``."""
        return (await self._send(_paper(paper_id))).paper

    async def _send(self, call: _Call[_Answer]) -> _Answer:
        attempt = 0
        while True:
            attempt += 1
            try:
                return _received(call, await self._http.request(call.method, call.path, json=call.body))
            except httpx.TransportError as broken:
                error = _unreachable(broken, self._http.base_url)
            except ServiceError as problem:
                error = problem
            wait_s = self._retries.wait_s(attempt, error)
            if wait_s is None:
                raise error
            await anyio.sleep(wait_s)
