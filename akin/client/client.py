"""The client of a running service, for programs::

import akin

with akin.Client("http://127.0.0.1:8000") as client:
    for result in client.search(paper_id="demo:p03-m07", facet="method").results:
        print(result.score, result.paper.title)
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import uniform
from types import TracebackType
from typing import Self, TypeVar, Unpack

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

DEFAULT_URL = "http://127.0.0.1:8000"
_Answer = TypeVar("_Answer")
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

    def search(self, **asked: Unpack[SearchRequest]) -> SearchAnswer:
        """Papers akin to one, in the respect chosen; SearchRequest tells the keywords."""
        return self._send(calls.search(asked))

    def recommendations(self, **asked: Unpack[RecommendationsRequest]) -> RecommendationsAnswer:
        """Papers akin to many and far from others; RecommendationsRequest tells the keywords."""
        return self._send(calls.recommendations(asked))

    def sentences(self, **asked: Unpack[SentenceRequest]) -> SentenceAnswer:
        """The sentences nearest to one; SentenceRequest tells the keywords."""
        return self._send(calls.sentences(asked))

    def put_profile(
        self, name: str, papers: Sequence[str], *, conflicts: Sequence[str] = (), quota: int | None = None
    ) -> Profile:
        """Keep a set of papers under a name, in the place of the one that is there."""
        return self._send(calls.put_profile(name, papers, conflicts, quota))

    def profiles(self) -> Iterator[ProfileHead]:
        """The profiles that are kept, by their names."""
        after: str | None = ""
        while after is not None:
            page = self._send(calls.profiles(after))
            yield from page.profiles
            after = page.next_after

    def delete_profile(self, name: str) -> None:
        """Forget a profile; nothing happens where there is none."""
        self._send(calls.delete_profile(name))

    def embed(self, papers: Sequence[Draft]) -> Embedding:
        """The vectors of drafts, sentence by sentence and of the whole; at most 32."""
        return self._send(calls.embed(papers))

    def vectors(self, name: str) -> PaperVectorsAnswer:
        """The vectors of a paper's sentences as they are indexed, and that of the whole."""
        return self._send(calls.vectors(name))

    def compare(self, a: str | Seed, b: str | Seed) -> ComparedPapers:
        """Two papers side by side, each by name or pasted (``title`` and ``abstract``)."""
        return self._send(calls.compare(a, b))

    def match(
        self,
        submissions: Sequence[str | Seed],
        profiles: Mapping[str, Sequence[str] | None],
        **asked: Unpack[MatchRequest],
    ) -> MatchAnswer:
        """How near profiles, sets of papers by name, are to submissions, and which to assign to which.

        Papers of ``None`` are those kept under the name.
        """
        return self._send(calls.match(submissions, profiles, asked))

    def analyze(self, abstract: str | list[str], *, title: str = "") -> Analysis:
        """The sentences of an abstract and what each does."""
        return self._send(calls.analyze(title, abstract))

    def paper(self, paper_id: str) -> Paper:
        """A paper of the collection."""
        return self._send(calls.paper(paper_id)).paper

    def papers(self, names: Sequence[str]) -> tuple[Paper | None, ...]:
        """The papers with these ids, DOIs, arXiv ids, addresses or titles, at most 500, in this order."""
        return self._send(calls.papers(names)).papers

    def list_papers(
        self, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[ListFilters]
    ) -> PaperList:
        """A page of the papers that pass filters, in the order in which they came, and their number.

        ``next_cursor`` of it, given as ``cursor`` with the same filters, leads to the next.
        """
        return self._send(calls.list_papers(limit, cursor, filters))

    def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """How many papers pass filters."""
        return self.list_papers(limit=1, **filters).total

    def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """Papers by a title as it is remembered, misspelt or cut short, the most alike first."""
        return self._send(calls.find_papers(title, limit))

    def add_papers(self, papers: Sequence[NewPaper], *, wait: bool = False) -> PapersAccepted:
        """Add papers, or replace those with their ids: all, or none; at most 1,000.

        With ``wait`` they are in answers when this returns, unless that takes more than five seconds.
        """
        return self._send(calls.add_papers(papers, wait=wait))

    def delete_paper(self, paper_id: str) -> None:
        """Delete a paper; nothing happens where there is none."""
        self._send(calls.delete_paper(paper_id))

    def save_query(
        self,
        name: str,
        *,
        search: SearchRequest | None = None,
        recommendations: RecommendationsRequest | None = None,
    ) -> SavedQuery:
        """Keep a query under a name: the keywords of one of the two methods, but for ``cursor``.

        The same name with the same query is there once.
        """
        return self._send(calls.save_query(name, search, recommendations))

    def saved_queries(self) -> tuple[SavedQueryHead, ...]:
        """All that this key keeps, by their names."""
        return self._send(calls.saved_queries()).queries

    def saved_query(self, query_id: str) -> SavedQuery:
        """One of them, with what it asks."""
        return self._send(calls.saved_query(query_id))

    def delete_query(self, query_id: str) -> None:
        """Forget a saved query, with its feed; nothing happens where there is none."""
        self._send(calls.delete_query(query_id))

    def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """Papers that are new to a saved query and match, best first; also ``weak`` matches, if wanted."""
        return self._send(calls.new_papers(query_id, limit, weak=weak))

    def mark_seen(self, query_id: str, up_to: int) -> SavedQueryHead:
        """The news of a saved query were read, up to ``seen_up_to`` of theirs."""
        return self._send(calls.mark_seen(query_id, up_to))

    def open_feed(self, query_id: str) -> str:
        """The address of an Atom feed of a saved query, made where there is none; it needs no key."""
        return calls.feed_address(self._http.base_url, self._send(calls.open_feed(query_id)))

    def close_feed(self, query_id: str) -> None:
        """Revoke the feed of a saved query: its address is good for nothing any more."""
        self._send(calls.close_feed(query_id))

    def batch(self, *, idempotency_key: str | None = None, **asked: Unpack[BatchRequest]) -> Batch:
        """Starts many searches at once, done in the background; BatchRequest tells the keywords."""
        return self._send(calls.batch(asked, idempotency_key))

    def batch_progress(self, batch_id: str) -> Batch:
        """How far a batch is."""
        return self._send(calls.batch_progress(batch_id))

    def batch_results(self, batch_id: str, *, start: int = 0, poll_s: float = 1.0) -> Iterator[SeedAnswer]:
        """The results in order, from number ``start`` on, as they are done, whatever breaks in between."""
        reading = Reading(batch_id, start)
        while not reading.finished:
            wait_s = poll_s
            try:
                with self._http.stream(**reading.request()) as response:
                    if response.is_error:
                        response.read()
                        raise responses.problem(response)
                    for content in response.iter_bytes():
                        yield from reading.answers(content)
                    reading.end(response)
            except httpx.TransportError as broken:
                wait_s = self._retries.next_wait_s(
                    reading.attempt, responses.unreachable(broken, self._http.base_url)
                )
            except ServiceError as problem:
                wait_s = self._retries.next_wait_s(reading.attempt, problem)
            if not reading.finished:
                time.sleep(wait_s)

    def cancel_batch(self, batch_id: str) -> None:
        """Ends a batch where it is not finished, and removes it with its results."""
        self._send(calls.cancel_batch(batch_id))

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
