"""The client of a running service, for programs::

import akin

with akin.Client("http://127.0.0.1:8000") as client:
    for result in client.search(paper_id="demo:p03-m07", facet="method"):
        print(result.score, result.paper.title)
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import uniform
from types import TracebackType
from typing import Literal, Self, TypeVar, Unpack, cast

import httpx

from akin.client import calls, responses
from akin.client.answers.batches import Batch, BatchResult
from akin.client.answers.matches import ComparedPapers, MatchAnswer, Profile, ProfileHead
from akin.client.answers.papers import Paper, PaperList, PapersAccepted, TitlesAnswer
from akin.client.answers.ranked import RecommendationsAnswer, SearchAnswer
from akin.client.answers.saved import News, SavedQuery, SavedQueryHead
from akin.client.answers.sentences import Analysis, SentenceAnswer
from akin.client.answers.vectors import Embedding, PaperVectorsAnswer
from akin.client.calls import Call, ResultsReader
from akin.client.library import Files, looked_up, seeds_of, with_libraries
from akin.client.paging import Pages
from akin.client.queries import (
    BatchRequest,
    DetailName,
    Draft,
    FacetName,
    Filters,
    ListFilters,
    MatchRequest,
    NewPaper,
    RecommendationsRequest,
    ScorerName,
    SearchRequest,
    Seed,
    SentenceRequest,
    Unlike,
)
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

    def search(
        self,
        paper_id: str | None = None,
        *,
        title: str | None = None,
        abstract: str | Sequence[str] | None = None,
        text: str | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        sentences: Sequence[int] | None = None,
        unlike: Unlike | None = None,
        focus: float | None = None,
        filters: Filters | None = None,
        limit: int = 10,
        scorer: ScorerName | None = None,
        tau: float | None = None,
        words: float | None = None,
        specificity: float | None = None,
        include: Sequence[DetailName] | None = None,
        max_alignments: int | None = None,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Papers akin to one, best first: by its name, pasted (``title``, ``abstract``), or to a short text.

        ``facet``, or ``sentences`` by their numbers from 0, choose what of it counts; ``unlike`` says in what
        papers should differ. ``limit`` may be any number: lists are read page by page, and end after 10,000
        papers. ``cursor`` goes on where an answer ended.
        """
        asked = calls.given(
            paper_id=paper_id,
            title=title,
            abstract=abstract,
            text=text,
            facet=facet,
            sentences=sentences,
            unlike=unlike,
            focus=focus,
            filters=filters,
            limit=limit,
            scorer=scorer,
            tau=tau,
            words=words,
            specificity=specificity,
            include=include,
            max_alignments=max_alignments,
            cursor=cursor,
        )
        return self._listed(Pages(calls.search, asked))

    def recommend(
        self,
        seeds: str | Seed | Sequence[str | Seed] = (),
        *,
        like: Files | None = None,
        negatives: str | Seed | Sequence[str | Seed] = (),
        unlike: Files | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        akin_to: Literal["some", "all"] | None = None,
        negative_weight: float | None = None,
        filters: Filters | None = None,
        limit: int = 10,
        words: float | None = None,
        specificity: float | None = None,
        include: Sequence[DetailName] | None = None,
        max_alignments: int | None = None,
        cursor: str | None = None,
    ) -> RecommendationsAnswer:
        """Papers akin to several, best first: to ``seeds`` and to the papers of the library ``like``.

        Seeds are names of papers, or ``Seed``s with what counts of each; a library is a file as reference
        managers write it (``.bib``, ``.ris`` and others), or several. ``negatives`` and the library
        ``unlike`` are papers to keep away from. ``facet`` counts of every seed that chooses nothing itself.
        ``akin_to`` says whether papers should be akin to some of the seeds or to what all share. ``limit``
        and ``cursor`` are as in ``search``.
        """
        asked = calls.given(
            seeds=seeds_of(seeds),
            like=like,
            negatives=seeds_of(negatives) or None,
            unlike=unlike,
            facet=facet,
            akin_to=akin_to,
            negative_weight=negative_weight,
            filters=filters,
            limit=limit,
            words=words,
            specificity=specificity,
            include=include,
            max_alignments=max_alignments,
            cursor=cursor,
        )
        return self._listed(Pages(calls.recommend, looked_up(with_libraries(asked), self.papers)))

    def search_sentences(
        self,
        text: str | None = None,
        *,
        paper_id: str | None = None,
        sentence: int | None = None,
        by: Literal["meaning", "function"] | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        filters: Filters | None = None,
        limit: int = 10,
    ) -> SentenceAnswer:
        """The sentences nearest to one, which is a ``text`` or number ``sentence`` of a paper; 100 at most.

        Near are those that say the same or, by ``function``, do the same in their abstracts.
        """
        asked = calls.given(
            text=text,
            paper_id=paper_id,
            sentence=sentence,
            by=by,
            facet=facet,
            filters=filters,
            limit=limit,
        )
        return self._send(calls.search_sentences(cast(SentenceRequest, asked)))

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
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        year_from: int | None = None,
        year_to: int | None = None,
        venues: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        authors: Sequence[str] | None = None,
        has_facets: Sequence[FacetName] | None = None,
    ) -> PaperList:
        """The first ``limit`` papers that pass filters, in the order in which they came, and their number.

        Years are inclusive; of several names any one suffices. ``next_cursor`` of the answer, given as
        ``cursor`` with the same filters, leads to those behind.
        """
        asked = calls.given(
            limit=limit,
            cursor=cursor,
            year_from=year_from,
            year_to=year_to,
            venues=venues,
            fields=fields,
            authors=authors,
            has_facets=has_facets,
        )
        return self._listed(Pages(calls.list_papers, asked))

    def count_papers(self, **filters: Unpack[ListFilters]) -> int:
        """How many papers pass filters, which are those of ``list_papers``."""
        return self.list_papers(limit=1, **filters).total

    def find_papers(self, title: str, *, limit: int = 10) -> TitlesAnswer:
        """Papers by a title as it is remembered, misspelt or cut short, the most alike first."""
        return self._send(calls.find_papers(title, limit))

    def add(self, papers: Sequence[NewPaper], *, wait: bool = False) -> PapersAccepted:
        """Add papers, or replace those with their ids: all, or none; at most 1,000.

        With ``wait`` they are in answers when this returns, unless that takes more than five seconds.
        """
        return self._send(calls.add(papers, wait=wait))

    def delete(self, paper_id: str) -> None:
        """Delete a paper; nothing happens where there is none."""
        self._send(calls.delete(paper_id))

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

    def get_batch(self, batch_id: str) -> Batch:
        """How far a batch is."""
        return self._send(calls.get_batch(batch_id))

    def batch_results(self, batch_id: str, *, start: int = 0, poll_s: float = 1.0) -> Iterator[BatchResult]:
        """The results in order, from number ``start`` on, as they are done, whatever breaks in between."""
        reader = ResultsReader(batch_id, start)
        while not reader.finished:
            wait_s = poll_s
            try:
                with self._http.stream(**reader.request()) as response:
                    if response.is_error:
                        response.read()
                        raise responses.problem(response)
                    for content in response.iter_bytes():
                        yield from reader.answers(content)
                    reader.end(response)
            except httpx.TransportError as broken:
                wait_s = self._retries.next_wait_s(
                    reader.attempt, responses.unreachable(broken, self._http.base_url)
                )
            except ServiceError as problem:
                wait_s = self._retries.next_wait_s(reader.attempt, problem)
            if not reader.finished:
                time.sleep(wait_s)

    def cancel_batch(self, batch_id: str) -> None:
        """Ends a batch where it is not finished, and removes it with its results."""
        self._send(calls.cancel_batch(batch_id))

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
