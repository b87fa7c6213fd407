"""The client for asyncio and trio."""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

import anyio
import httpx

from akin.client import calls, responses
from akin.client.answers import (
    Analysis,
    Paper,
    PaperList,
    PapersAccepted,
    RecommendationsAnswer,
    SearchAnswer,
    SentenceAnswer,
    TitlesAnswer,
)
from akin.client.batch_answers import Batch, SeedAnswer
from akin.client.calls import Call, Reading
from akin.client.client import DEFAULT_URL, Retries
from akin.client.match_answers import ComparedPapers, MatchAnswer, Profile, ProfileHead
from akin.client.queries import (
    BatchRequest,
    Draft,
    ListFilters,
    MatchRequest,
    NewPaper,
    RecommendationsRequest,
    SearchRequest,
    Seed,
    SentenceRequest,
)
from akin.client.saved_answers import News, SavedQuery, SavedQueryHead
from akin.client.vector_answers import Embedding, PaperVectorsAnswer
from models.errors import ServiceError

_Answer = TypeVar("_Answer")


class AsyncClient:
    """As ``Client``, for asyncio and trio; use it in an ``async with`` block, or ``aclose`` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**responses.options(url, key, timeout_s), transport=transport)
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
        return await self._send(calls.search(asked))

    async def recommendations(self, **asked: Unpack[RecommendationsRequest]) -> RecommendationsAnswer:
        """As ``Client.recommendations``."""
        return await self._send(calls.recommendations(asked))

    async def sentences(self, **asked: Unpack[SentenceRequest]) -> SentenceAnswer:
        """As ``Client.sentences``."""
        return await self._send(calls.sentences(asked))

    async def match(
        self,
        submissions: Sequence[str | Seed],
        profiles: Mapping[str, Sequence[str] | None],
        **asked: Unpack[MatchRequest],
    ) -> MatchAnswer:
        """As ``Client.match``."""
        return await self._send(calls.match(submissions, profiles, asked))

    async def put_profile(
        self, name: str, papers: Sequence[str], *, conflicts: Sequence[str] = (), quota: int | None = None
    ) -> Profile:
        """As ``Client.put_profile``."""
        return await self._send(calls.put_profile(name, papers, conflicts, quota))

    async def profiles(self) -> AsyncIterator[ProfileHead]:
        """As ``Client.profiles``."""
        after: str | None = ""
        while after is not None:
            page = await self._send(calls.profiles(after))
            for head in page.profiles:
                yield head
            after = page.next_after

    async def delete_profile(self, name: str) -> None:
        """As ``Client.delete_profile``."""
        await self._send(calls.delete_profile(name))

    async def embed(self, papers: Sequence[Draft]) -> Embedding:
        """As ``Client.embed``."""
        return await self._send(calls.embed(papers))

    async def vectors(self, name: str) -> PaperVectorsAnswer:
        """As ``Client.vectors``."""
        return await self._send(calls.vectors(name))

    async def compare(self, a: str | Seed, b: str | Seed) -> ComparedPapers:
        """As ``Client.compare``."""
        return await self._send(calls.compare(a, b))

    async def analyze(self, abstract: str | list[str], *, title: str = "") -> Analysis:
        """As ``Client.analyze``."""
        return await self._send(calls.analyze(title, abstract))

    async def paper(self, paper_id: str) -> Paper:
        """As ``Client.paper``."""
        return (await self._send(calls.paper(paper_id))).paper

    async def papers(self, names: Sequence[str]) -> tuple[Paper | None, ...]:
        """The papers with these ids, DOIs, arXiv ids, addresses or titles, at most 500, in this order."""
        return (await self._send(calls.papers(names))).papers

    async def list_papers(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[ListFilters]
    ) -> PaperList:
        """As ``Client.list_papers``."""
        return await self._send(calls.list_papers(limit, cursor, filters))

    async def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """As ``Client.count_papers``."""
        return (await self.list_papers(limit=1, **filters)).total

    async def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """As ``Client.find_papers``."""
        return await self._send(calls.find_papers(title, limit))

    async def add_papers(self, papers: Sequence[NewPaper], *, wait: bool = False) -> PapersAccepted:
        """As ``Client.add_papers``."""
        return await self._send(calls.add_papers(papers, wait=wait))

    async def delete_paper(self, paper_id: str) -> None:
        """As ``Client.delete_paper``."""
        await self._send(calls.delete_paper(paper_id))

    async def save_query(
        self,
        name: str,
        *,
        search: SearchRequest | None = None,
        recommendations: RecommendationsRequest | None = None,
    ) -> SavedQuery:
        """As ``Client.save_query``."""
        return await self._send(calls.save_query(name, search, recommendations))

    async def saved_queries(self) -> tuple[SavedQueryHead, ...]:
        """As ``Client.saved_queries``."""
        return (await self._send(calls.saved_queries())).queries

    async def saved_query(self, query_id: str) -> SavedQuery:
        """As ``Client.saved_query``."""
        return await self._send(calls.saved_query(query_id))

    async def delete_query(self, query_id: str) -> None:
        """As ``Client.delete_query``."""
        await self._send(calls.delete_query(query_id))

    async def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """As ``Client.new_papers``."""
        return await self._send(calls.new_papers(query_id, limit, weak=weak))

    async def mark_seen(self, query_id: str, up_to: int) -> SavedQueryHead:
        """As ``Client.mark_seen``."""
        return await self._send(calls.mark_seen(query_id, up_to))

    async def open_feed(self, query_id: str) -> str:
        """As ``Client.open_feed``."""
        return calls.feed_address(self._http.base_url, await self._send(calls.open_feed(query_id)))

    async def close_feed(self, query_id: str) -> None:
        """As ``Client.close_feed``."""
        await self._send(calls.close_feed(query_id))

    async def batch(self, *, idempotency_key: str | None = None, **asked: Unpack[BatchRequest]) -> Batch:
        """As ``Client.batch``."""
        return await self._send(calls.batch(asked, idempotency_key))

    async def batch_progress(self, batch_id: str) -> Batch:
        """As ``Client.batch_progress``."""
        return await self._send(calls.batch_progress(batch_id))

    async def batch_results(
        self, batch_id: str, *, start: int = 0, poll_s: float = 1.0
    ) -> AsyncIterator[SeedAnswer]:
        """As ``Client.batch_results``."""
        reading = Reading(batch_id, start)
        while not reading.finished:
            wait_s = poll_s
            try:
                async with self._http.stream(**reading.request()) as response:
                    if response.is_error:
                        await response.aread()
                        raise responses.problem(response)
                    async for content in response.aiter_bytes():
                        for answer in reading.answers(content):
                            yield answer
                    reading.end(response)
            except httpx.TransportError as broken:
                wait_s = self._retries.next_wait_s(
                    reading.attempt, responses.unreachable(broken, self._http.base_url)
                )
            except ServiceError as problem:
                wait_s = self._retries.next_wait_s(reading.attempt, problem)
            if not reading.finished:
                await anyio.sleep(wait_s)

    async def cancel_batch(self, batch_id: str) -> None:
        """As ``Client.cancel_batch``."""
        await self._send(calls.cancel_batch(batch_id))

    async def _send(self, call: Call[_Answer]) -> _Answer:
        attempt = 0
        while True:
            attempt += 1
            try:
                return responses.received(
                    call,
                    await self._http.request(call.method, call.path, json=call.body, headers=call.headers),
                )
            except httpx.TransportError as broken:
                error = responses.unreachable(broken, self._http.base_url)
            except ServiceError as problem:
                error = problem
            await anyio.sleep(self._retries.next_wait_s(attempt, error, repeatable=call.repeatable))
