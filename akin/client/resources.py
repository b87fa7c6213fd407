"""The client's methods for profiles, saved queries and batches, which a service stores."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, cast

import httpx

from akin.client import requests
from akin.client.base_client import BaseClient
from akin.client.batch_results import ResultsReader
from akin.client.params import (
    BatchMatch,
    BatchRequest,
    DetailName,
    FacetName,
    Filters,
    NamedRecommendations,
    Profiles,
    RecommendationsRequest,
    ScorerName,
    SearchRequest,
    SeedLike,
    Unlike,
)
from akin.client.responses import parsing
from akin.client.responses.batches import Batch, BatchResult
from akin.client.responses.matches import Profile, ProfileSummary
from akin.client.responses.ranked import PaperLike
from akin.client.responses.saved import News, SavedQuery, SavedQuerySummary
from models.errors import ServiceError


class Resources(BaseClient):
    """Profiles, saved queries with their feeds, and batches."""

    def put_profile(
        self,
        name: str,
        papers: Iterable[PaperLike],
        *,
        conflicts: Iterable[PaperLike] = (),
        quota: int | None = None,
    ) -> Profile:
        """Save a set of papers under a name; a saved profile with the same name is replaced."""
        return self._send(requests.put_profile(name, papers, conflicts, quota))

    def profiles(self) -> Iterator[ProfileSummary]:
        """Yield the saved profiles, ordered by name."""
        for page in self._each_page(requests.profiles):
            yield from page.profiles

    def delete_profile(self, name: str) -> None:
        """Delete a saved profile, if it exists."""
        self._send(requests.delete_profile(name))

    def save_query(
        self,
        name: str,
        *,
        search: SearchRequest | None = None,
        recommendations: RecommendationsRequest | None = None,
    ) -> SavedQuery:
        """Save a query under a name, with a ``limit`` of at most 100 and without ``cursor``.

        ``search`` has the keywords of that method. ``recommendations`` has those of ``recommend`` except
        libraries (``like``, ``unlike``) and ``facet``, which each seed can have; ``seeds`` and ``negatives``
        are lists. Saving the same query under the same name again changes nothing.
        """
        return self._send(requests.save_query(name, search, recommendations))

    def saved_queries(self) -> tuple[SavedQuerySummary, ...]:
        """Return all saved queries of this key, ordered by name."""
        return self._send(requests.saved_queries()).queries

    def saved_query(self, query_id: str) -> SavedQuery:
        """Return a saved query with its keywords."""
        return self._send(requests.saved_query(query_id))

    def delete_query(self, query_id: str) -> None:
        """Delete a saved query and its feed, if it exists."""
        self._send(requests.delete_query(query_id))

    def new_papers(self, query_id: str, *, limit: int | None = None, weak: bool = False) -> News:
        """Return the new papers that match a saved query, best first; with ``weak``, weak matches too."""
        return self._send(requests.new_papers(query_id, limit, weak=weak))

    def mark_seen(self, query_id: str, up_to: int) -> SavedQuerySummary:
        """Mark the new papers of a saved query as seen; ``up_to`` is ``seen_up_to`` of ``new_papers``."""
        return self._send(requests.mark_seen(query_id, up_to))

    def open_feed(self, query_id: str) -> str:
        """Return the address of a saved query's Atom feed, created if needed; feed readers need no key."""
        return requests.feed_address(self._http.base_url, self._send(requests.open_feed(query_id)))

    def close_feed(self, query_id: str) -> None:
        """Delete the feed of a saved query; its address stops working."""
        self._send(requests.close_feed(query_id))

    def batch(
        self,
        *,
        idempotency_key: str | None = None,
        seeds: Sequence[SeedLike] | None = None,
        queries: Sequence[SearchRequest] | None = None,
        recommendations: Sequence[NamedRecommendations] | None = None,
        profiles: Profiles | None = None,
        match: BatchMatch | None = None,
        negatives: Sequence[SeedLike] | None = None,
        strategy: Literal["any", "all"] | None = None,
        negative_weight: float | None = None,
        sentences: Sequence[int] | None = None,
        facet: FacetName | Sequence[FacetName] | None = None,
        unlike: Unlike | None = None,
        focus: float | None = None,
        scorer: ScorerName | None = None,
        tau: float | None = None,
        words: float | None = None,
        specificity: float | None = None,
        filters: Filters | None = None,
        limit: int | None = None,
        include: Sequence[DetailName] | None = None,
        max_alignments: int | None = None,
    ) -> Batch:
        """Start many searches in the background; give one of the first five keywords after the key.

        ``seeds`` are papers to search with, and all other keywords apply to each of them. ``queries`` and
        ``recommendations`` have their own keywords. ``profiles`` are sets of papers by name (``None``: the
        saved profile), which share ``negatives``, ``strategy`` and ``negative_weight``. ``match`` compares
        submissions with profiles. Requests with the same ``idempotency_key`` start one batch.
        """
        params = requests.given(**{**locals(), "idempotency_key": None})
        return self._send(requests.batch(cast(BatchRequest, params), idempotency_key))

    def get_batch(self, batch_id: str) -> Batch:
        """Return the state of a batch."""
        return self._send(requests.get_batch(batch_id))

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of this key, the last started first; with a key of scope admin, those of all."""
        for page in self._each_page(requests.batches):
            yield from page.batches

    def batch_results(self, batch_id: str, *, start: int = 0, poll_s: float = 1.0) -> Iterator[BatchResult]:
        """Yield the results in order, from number ``start``, as they finish; interruptions are retried.

        Raises ServiceError after the last result of a batch that failed.
        """
        reader = ResultsReader(batch_id, start)
        while not reader.finished:
            wait_s = poll_s
            try:
                with parsing.sending(), self._http.stream(**reader.request()) as response:
                    if response.is_error:
                        response.read()
                        raise parsing.problem(response)
                    for content in response.iter_bytes():
                        yield from reader.answers(content)
                    reader.end(response)
            except httpx.RequestError as broken:
                wait_s = self._retries.next_wait_s(
                    reader.attempt, parsing.unreachable(broken, self._http.base_url, resumable=True)
                )
            except ServiceError as problem:
                wait_s = self._retries.next_wait_s(reader.attempt, problem)
            if not reader.finished:
                self._sleep(wait_s)

    def cancel_batch(self, batch_id: str) -> None:
        """Cancel a batch if it is not finished, and delete it with its results."""
        self._send(requests.cancel_batch(batch_id))
