"""The client's methods for what a service stores: profiles, saved queries and batches."""

import time
from collections.abc import Iterator, Sequence
from typing import Unpack

import httpx

from akin.client import requests
from akin.client.base_client import BaseClient
from akin.client.batch_results import ResultsReader
from akin.client.params import BatchRequest, RecommendationsRequest, SearchRequest
from akin.client.responses import parsing
from akin.client.responses.batches import Batch, BatchResult
from akin.client.responses.matches import Profile, ProfileHead
from akin.client.responses.saved import News, SavedQuery, SavedQueryHead
from models.errors import ServiceError


class Resources(BaseClient):
    """Profiles, saved queries with their feeds, and batches."""

    def put_profile(
        self, name: str, papers: Sequence[str], *, conflicts: Sequence[str] = (), quota: int | None = None
    ) -> Profile:
        """Keep a set of papers under a name, in the place of the one that is there."""
        return self._send(requests.put_profile(name, papers, conflicts, quota))

    def profiles(self) -> Iterator[ProfileHead]:
        """The profiles that are kept, by their names."""
        after: str | None = ""
        while after is not None:
            page = self._send(requests.profiles(after))
            yield from page.profiles
            after = page.next_after

    def delete_profile(self, name: str) -> None:
        """Forget a profile; nothing happens where there is none."""
        self._send(requests.delete_profile(name))

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
        return self._send(requests.save_query(name, search, recommendations))

    def saved_queries(self) -> tuple[SavedQueryHead, ...]:
        """All that this key keeps, by their names."""
        return self._send(requests.saved_queries()).queries

    def saved_query(self, query_id: str) -> SavedQuery:
        """One of them, with what it asks."""
        return self._send(requests.saved_query(query_id))

    def delete_query(self, query_id: str) -> None:
        """Forget a saved query, with its feed; nothing happens where there is none."""
        self._send(requests.delete_query(query_id))

    def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """Papers that are new to a saved query and match, best first; also ``weak`` matches, if wanted."""
        return self._send(requests.new_papers(query_id, limit, weak=weak))

    def mark_seen(self, query_id: str, up_to: int) -> SavedQueryHead:
        """The news of a saved query were read, up to ``seen_up_to`` of theirs."""
        return self._send(requests.mark_seen(query_id, up_to))

    def open_feed(self, query_id: str) -> str:
        """The address of an Atom feed of a saved query, made where there is none; it needs no key."""
        return requests.feed_address(self._http.base_url, self._send(requests.open_feed(query_id)))

    def close_feed(self, query_id: str) -> None:
        """Revoke the feed of a saved query: its address is good for nothing any more."""
        self._send(requests.close_feed(query_id))

    def batch(self, *, idempotency_key: str | None = None, **params: Unpack[BatchRequest]) -> Batch:
        """Starts many searches at once, done in the background; BatchRequest tells the keywords."""
        return self._send(requests.batch(params, idempotency_key))

    def get_batch(self, batch_id: str) -> Batch:
        """How far a batch is."""
        return self._send(requests.get_batch(batch_id))

    def batch_results(self, batch_id: str, *, start: int = 0, poll_s: float = 1.0) -> Iterator[BatchResult]:
        """The results in order, from number ``start`` on, as they are done, whatever breaks in between."""
        reader = ResultsReader(batch_id, start)
        while not reader.finished:
            wait_s = poll_s
            try:
                with self._http.stream(**reader.request()) as response:
                    if response.is_error:
                        response.read()
                        raise parsing.problem(response)
                    for content in response.iter_bytes():
                        yield from reader.answers(content)
                    reader.end(response)
            except httpx.TransportError as broken:
                wait_s = self._retries.next_wait_s(
                    reader.attempt, parsing.unreachable(broken, self._http.base_url)
                )
            except ServiceError as problem:
                wait_s = self._retries.next_wait_s(reader.attempt, problem)
            if not reader.finished:
                time.sleep(wait_s)

    def cancel_batch(self, batch_id: str) -> None:
        """Ends a batch where it is not finished, and removes it with its results."""
        self._send(requests.cancel_batch(batch_id))
