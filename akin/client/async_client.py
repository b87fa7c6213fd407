"""The client for asyncio and trio."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Self, TypeVar, Unpack, cast

import anyio
import httpx

from akin.client import requests
from akin.client.base_client import DEFAULT_URL
from akin.client.batch_results import ResultsReader
from akin.client.client import Client
from akin.client.library import seeds_of, with_libraries
from akin.client.pagination import NamedPage, Pages
from akin.client.params import (
    BatchRequest,
    Draft,
    ListFilters,
    ListRequest,
    MatchRequest,
    Profiles,
    RecommendationsRequest,
    RecommendKeywords,
    SearchKeywords,
    SearchRequest,
    SeedLike,
    Seeds,
    SentenceKeywords,
    SentenceRequest,
    Submissions,
    as_sent,
    ids_of,
)
from akin.client.requests import Request
from akin.client.responses import parsing
from akin.client.responses.batches import Batch, BatchResult
from akin.client.responses.matches import ComparedPapers, MatchAnswer, Profile, ProfileSummary
from akin.client.responses.papers import Paper, PaperList, PapersAccepted, TitlesAnswer
from akin.client.responses.ranked import PaperLike, RecommendationsAnswer, SearchAnswer
from akin.client.responses.saved import News, SavedQuery, SavedQuerySummary
from akin.client.responses.sentences import Analysis, SentenceAnswer
from akin.client.responses.vectors import Embedding, PaperVectorsAnswer
from akin.client.retries import Retries, checked_retries
from akin.client.signatures import all_like
from akin.client.uploads import Papers
from models.errors import ServiceError

_Answer = TypeVar("_Answer")
_List = TypeVar("_List", SearchAnswer, RecommendationsAnswer, PaperList)


@all_like(Client)
class AsyncClient:
    """As ``Client``, for asyncio and trio; use it in an ``async with`` block, or ``aclose`` it."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        timeout_s: float | None = 30.0,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._http = httpx.AsyncClient(**parsing.options(url, key, timeout_s), transport=transport)
        self._retries = checked_retries(retries)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def search(
        self, paper_id: PaperLike | None = None, **params: Unpack[SearchKeywords]
    ) -> SearchAnswer:
        """As ``Client.search``."""
        return await self._listed(Pages(requests.search, requests.given(paper_id=paper_id, **params)))

    async def recommend(
        self, seeds: Seeds = (), **params: Unpack[RecommendKeywords]
    ) -> RecommendationsAnswer:
        """As ``Client.recommend``."""
        lookup = with_libraries(requests.given(**params, seeds=seeds_of(seeds)))
        try:
            names = next(lookup)
            while True:
                names = lookup.send(await self.papers(names))
        except StopIteration as done:
            return await self._listed(Pages(requests.recommend, done.value))

    async def search_sentences(
        self, text: str | None = None, **params: Unpack[SentenceKeywords]
    ) -> SentenceAnswer:
        """As ``Client.search_sentences``."""
        request = requests.given(text=text, **params)
        return await self._send(requests.search_sentences(cast(SentenceRequest, request)))

    async def match(
        self,
        submissions: Submissions,
        profiles: Profiles,
        **params: Unpack[MatchRequest],
    ) -> MatchAnswer:
        """As ``Client.match``."""
        request = cast(MatchRequest, requests.given(**params))
        return await self._send(requests.match(submissions, profiles, request))

    async def put_profile(
        self,
        name: str,
        papers: Iterable[PaperLike],
        *,
        conflicts: Iterable[PaperLike] = (),
        quota: int | None = None,
    ) -> Profile:
        """As ``Client.put_profile``."""
        return await self._send(requests.put_profile(name, papers, conflicts, quota))

    async def profiles(self) -> AsyncIterator[ProfileSummary]:
        """As ``Client.profiles``."""
        async for page in self._each_page(requests.profiles):
            for summary in page.profiles:
                yield summary

    async def delete_profile(self, name: str) -> None:
        """As ``Client.delete_profile``."""
        await self._send(requests.delete_profile(name))

    async def embed(self, papers: Draft | Iterable[Draft]) -> Embedding:
        """As ``Client.embed``."""
        return await self._send(requests.embed(papers))

    async def vectors(self, name: PaperLike) -> PaperVectorsAnswer:
        """As ``Client.vectors``."""
        return await self._send(requests.vectors(name))

    async def compare(self, a: SeedLike, b: SeedLike) -> ComparedPapers:
        """As ``Client.compare``."""
        return await self._send(requests.compare(a, b))

    async def analyze(self, abstract: str | Sequence[str], *, title: str = "") -> Analysis:
        """As ``Client.analyze``."""
        return await self._send(requests.analyze(title, abstract))

    async def paper(self, paper_id: PaperLike) -> Paper:
        """As ``Client.paper``."""
        return (await self._send(requests.paper(paper_id))).paper

    async def papers(self, names: PaperLike | Iterable[PaperLike]) -> tuple[Paper | None, ...]:
        """As ``Client.papers``."""
        given = ids_of(names)
        return (await self._send(requests.papers(given))).papers if given else ()

    async def list_papers(self, **params: Unpack[ListRequest]) -> PaperList:
        """As ``Client.list_papers``."""
        return await self._listed(Pages(requests.list_papers, {"limit": 100, **requests.given(**params)}))

    async def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """As ``Client.count_papers``."""
        return (await self.list_papers(limit=1, **filters)).total

    async def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """As ``Client.find_papers``."""
        return await self._send(requests.find_papers(title, limit))

    async def add(self, papers: Papers, *, wait: bool = False) -> PapersAccepted:
        """As ``Client.add``."""
        return await self._send(requests.add(papers, wait=wait))

    async def delete(self, paper_id: PaperLike | Iterable[PaperLike]) -> None:
        """As ``Client.delete``."""
        for each in ids_of(paper_id):
            await self._send(requests.delete(each))

    async def save_query(
        self,
        name: str,
        *,
        search: SearchRequest | None = None,
        recommendations: RecommendationsRequest | None = None,
    ) -> SavedQuery:
        """As ``Client.save_query``."""
        return await self._send(requests.save_query(name, search, recommendations))

    async def saved_queries(self) -> tuple[SavedQuerySummary, ...]:
        """As ``Client.saved_queries``."""
        return (await self._send(requests.saved_queries())).queries

    async def saved_query(self, query_id: str) -> SavedQuery:
        """As ``Client.saved_query``."""
        return await self._send(requests.saved_query(query_id))

    async def delete_query(self, query_id: str) -> None:
        """As ``Client.delete_query``."""
        await self._send(requests.delete_query(query_id))

    async def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """As ``Client.new_papers``."""
        return await self._send(requests.new_papers(query_id, limit, weak=weak))

    async def mark_seen(self, query_id: str, up_to: int) -> SavedQuerySummary:
        """As ``Client.mark_seen``."""
        return await self._send(requests.mark_seen(query_id, up_to))

    async def open_feed(self, query_id: str) -> str:
        """As ``Client.open_feed``."""
        return requests.feed_address(self._http.base_url, await self._send(requests.open_feed(query_id)))

    async def close_feed(self, query_id: str) -> None:
        """As ``Client.close_feed``."""
        await self._send(requests.close_feed(query_id))

    async def batch(self, *, idempotency_key: str | None = None, **params: Unpack[BatchRequest]) -> Batch:
        """As ``Client.batch``."""
        return await self._send(requests.batch(cast(BatchRequest, requests.given(**params)), idempotency_key))

    async def get_batch(self, batch_id: str) -> Batch:
        """As ``Client.get_batch``."""
        return await self._send(requests.get_batch(batch_id))

    async def batches(self) -> AsyncIterator[Batch]:
        """As ``Client.batches``."""
        async for page in self._each_page(requests.batches):
            for batch in page.batches:
                yield batch

    async def batch_results(
        self, batch_id: str, *, start: int = 0, poll_s: float = 1.0
    ) -> AsyncIterator[BatchResult]:
        """As ``Client.batch_results``."""
        reader = ResultsReader(batch_id, start)
        while not reader.finished:
            wait_s = poll_s
            try:
                with parsing.sending():
                    async with self._http.stream(**reader.request()) as response:
                        if response.is_error:
                            await response.aread()
                            raise parsing.problem(response)
                        async for content in response.aiter_bytes():
                            for answer in reader.answers(content):
                                yield answer
                        reader.end(response)
            except httpx.RequestError as broken:
                wait_s = self._retries.next_wait_s(
                    reader.attempt, parsing.unreachable(broken, self._http.base_url, resumable=True)
                )
            except ServiceError as problem:
                wait_s = self._retries.next_wait_s(reader.attempt, problem)
            if not reader.finished:
                await self._sleep(wait_s)

    async def cancel_batch(self, batch_id: str) -> None:
        """As ``Client.cancel_batch``."""
        await self._send(requests.cancel_batch(batch_id))

    async def _each_page(self, make: Callable[[str], Request[NamedPage]]) -> AsyncIterator[NamedPage]:
        """As in the other client."""
        after: str | None = ""
        while after is not None:
            page = await self._send(make(after))
            yield page
            after = page.next_after if len(page) else None

    async def _listed(self, pages: Pages[_List]) -> _List:
        while (request := pages.next_request()) is not None:
            pages.take(await self._send(request))
        return pages.answer()

    async def _send(self, request: Request[_Answer]) -> _Answer:
        attempt, sent = 0, as_sent(request.body)
        while True:
            attempt += 1
            try:
                with parsing.sending():
                    response = await self._http.request(
                        request.method, request.path, json=sent, headers=request.headers
                    )
                return parsing.received(request, response)
            except httpx.RequestError as broken:
                error = parsing.unreachable(broken, self._http.base_url)
            except ServiceError as problem:
                error = problem
            await self._sleep(self._retries.next_wait_s(attempt, error))
