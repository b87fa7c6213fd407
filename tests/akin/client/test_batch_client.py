"""Tests of batches in the Python client: after failures each is started once and read to its end."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio
import httpx
import pytest

import akin
from akin.client import params
from akin.client.batch_results import ResultsReader
from akin.client.responses import batches
from akin.client.responses.matches import MatchedSubmission
from akin.client.retries import Retries
from models.errors import InputError, ServiceError
from service.api.schemas.batches import (
    BatchOut,
    LargeMatchIn,
    MatchBatchIn,
    ProfilesBatchIn,
    QueriesBatchIn,
    RecommendationsBatchIn,
    SeedsBatchIn,
)
from service.app import create_app
from service.collection.generations import open_engine
from service.settings import Settings
from tests.support.servers.loopback import served

SEEDS = [f"demo:p{i:02}-m07" for i in range(10)]


@pytest.fixture
def address(hashed_data: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a service over a copy of the demo collection."""
    data = Path(copytree(hashed_data, tmp_path / "data"))
    settings = Settings(data=data, device="cpu")
    with served(create_app(settings, open_engine(settings))) as address:
        yield address


def test_a_batch_from_start_to_end(address: str) -> None:
    """Results come in the order of the queries, each with the answer of a search or its problem."""
    with akin.Client(address) as client:
        assert [] == list(client.batches())
        batch = client.batch(seeds=[*SEEDS, "nobody"], facet="method", limit=2)
        results = list(client.batch_results(batch.id, poll_s=0.05))
        assert [(i, seed) for i, seed in enumerate([*SEEDS, "nobody"])] == [
            (result.seed, result.paper_id) for result in results
        ]
        answer = results[3].answer
        assert answer is not None
        assert client.search(paper_id=SEEDS[3], facet="method", limit=2).results == answer.results
        assert (None, 404) == (results[-1].answer, results[-1].problem and results[-1].problem.status)
        now = client.get_batch(batch.id)
        assert ("done", 11, 1) == (now.state, now.done, now.problems)
        assert results[9:] == list(client.batch_results(batch.id, start=9))
        assert [now] == list(client.batches())
        client.cancel_batch(batch.id)
        with pytest.raises(ServiceError, match="no such batch"):
            client.get_batch(batch.id)


def test_recommendations_for_many_readers(address: str) -> None:
    """Batched recommendations carry the names of the readers and equal single recommendations."""
    readers = {"ada": SEEDS[:3], "bo": SEEDS[4:6]}
    with akin.Client(address) as client:
        batch = client.batch(profiles=readers, limit=2, negatives=[SEEDS[9]])
        results = list(client.batch_results(batch.id, poll_s=0.05))
        assert ["ada", "bo"] == [result.name for result in results]
        for result, seeds in zip(results, readers.values(), strict=True):
            alone = client.recommend(seeds=seeds, limit=2, negatives=[SEEDS[9]])
            assert result.answer is not None
            assert alone.results == result.answer.results
        batch = client.batch(recommendations=[{"seeds": SEEDS[:2], "limit": 1, "name": "cy"}])
        (only,) = client.batch_results(batch.id, poll_s=0.05)
        assert ("cy", None) == (only.name, only.paper_id)


def test_a_match_of_many_submissions(address: str) -> None:
    """A batched match gives each submission profiles and warnings that a match of it alone has."""
    reviewers = {"ada": SEEDS[:3], "bo": SEEDS[4:6]}
    with akin.Client(address) as client:
        draft = {"abstract": "Der Fluss tritt über die Ufer. Wir sagen Hochwasser in den Städten vorher."}
        submissions: list[Any] = [SEEDS[7], draft, "nobody"]
        profile_match: params.BatchMatch = {
            "submissions": submissions,
            "profiles": reviewers,
            "conflicts": [(0, "bo")],
            "limit": 1,
        }
        batch = client.batch(match=profile_match)
        first, second, third = client.batch_results(batch.id, poll_s=0.05)
        for number, result in enumerate((first, second)):
            alone = client.match(submissions[number : number + 1], reviewers, limit=2)
            (expected,) = alone.submissions
            assert alone.warnings == result.warnings
            assert isinstance(result.answer, MatchedSubmission)
            assert number == result.answer.submission == result.seed
            (own,) = result.answer.profiles
            assert own in expected.profiles
        assert [(), ("abstract_not_english",)] == [
            tuple(warned.code for warned in each.warnings) for each in (first, second)
        ]
        assert isinstance(first.answer, MatchedSubmission)
        assert ["ada"] == [each.profile for each in first.answer.profiles]
        assert (None, 404) == (third.answer, third.problem and third.problem.status)


def test_async_clients_have_the_same(address: str) -> None:
    """AsyncClient starts, reads, checks and cancels a batch."""

    async def ask() -> tuple[list[batches.BatchResult], batches.Batch]:
        async with akin.AsyncClient(address) as client:
            texts_and_ids: Any = [{"text": "graphs forecast floods", "limit": 1}, {"paper_id": SEEDS[0]}]
            batch = await client.batch(queries=texts_and_ids)
            results = [result async for result in client.batch_results(batch.id, poll_s=0.05)]
            finished = await client.get_batch(batch.id)
            assert [finished] == [each async for each in client.batches()]
            await client.cancel_batch(batch.id)
            return results, finished

    results, finished = anyio.run(ask)
    assert [(0, None), (1, SEEDS[0])] == [(result.seed, result.paper_id) for result in results]
    assert [1, 10] == [len(result.answer.results) for result in results if result.answer is not None]
    assert "done" == finished.state


def test_a_result_of_another_shape_is_an_error_not_an_end() -> None:
    """A result that cannot be read raises an error instead of being skipped."""
    reader = ResultsReader("id", 0)
    with pytest.raises(ServiceError, match="versions of client and service"):
        reader.answers(b'{"seed": 0, "paper_id": null, "other": 1}\n')
    assert 0 == reader.start


class Breaking:
    """A service whose results break off, and whose first answers to POST and DELETE get lost."""

    def __init__(self, breaks: type[httpx.TransportError]) -> None:
        self.breaks = breaks
        self.lines = [json.dumps({"seed": i, "paper_id": f"\u2028{i}", "problem": PROBLEM}) for i in range(5)]
        self.starts: list[int] = []
        self.keys: list[str] = []
        self.n_deletes = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        if request.method == "POST":
            self.keys.append(request.headers["Idempotency-Key"])
            if len(self.keys) == 1:
                raise httpx.ReadError("lost", request=request)
            return httpx.Response(202, json=BATCH)
        if request.method == "DELETE":
            self.n_deletes += 1
            if self.n_deletes == 1:
                raise httpx.ReadError("lost", request=request)
            return httpx.Response(204)
        start = int(request.url.params["start"])
        self.starts.append(start)
        headers = {"X-Akin-Batch-State": "done" if len(self.starts) > 3 else "running"}
        text = "".join(f"{line}\n" for line in self.lines[start : start + 2])
        return httpx.Response(
            200,
            headers=headers,
            stream=Broken(text.encode(), breaks=self.breaks if len(self.starts) == 2 else None),
        )


class Broken(httpx.SyncByteStream):
    """A body that arrives in small pieces and may break in the middle of its second line."""

    def __init__(self, content: bytes, *, breaks: type[httpx.TransportError] | None) -> None:
        self._content = content
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        for at in range(0, len(self._content), 7):
            if self._breaks is not None and at > 0.8 * len(self._content):
                raise self._breaks("broken")
            yield self._content[at : at + 7]


PROBLEM = {"type": "urn:akin:problem:x", "title": "X", "status": 404, "detail": "No."}
BATCH = {
    "id": "a",
    "state": "queued",
    "generation": "000001",
    **dict.fromkeys(("queries", "done", "problems", "ready"), 0),
    "error": None,
    "created_at": "2026-11-22T14:45:46Z",
    "finished_at": None,
    "results": "/",
}


@pytest.mark.parametrize("breaks", [httpx.ReadError, httpx.ReadTimeout])
def test_what_breaks_is_taken_up_again(breaks: type[httpx.TransportError]) -> None:
    """Failed starts, reads and cancellations are retried, and nothing is started twice."""
    script = Breaking(breaks)
    patient = Retries(backoff_s=0.001)
    with akin.Client(transport=httpx.MockTransport(script), retries=patient) as client:
        batch = client.batch(seeds=["a"])
        assert (datetime(2026, 11, 22, 14, 45, 46, tzinfo=UTC), None) == (batch.created_at, batch.finished_at)
        results = list(client.batch_results(batch.id, poll_s=0.001))
        assert list(range(5)) == [result.seed for result in results]
        assert [f"\u2028{i}" for i in range(5)] == [result.paper_id for result in results]
        assert [0, 2, 3, 5] == script.starts
        assert 1 == len(set(script.keys)) < len(script.keys)
        client.cancel_batch(batch.id)
        assert 2 == script.n_deletes


def test_a_key_that_no_header_can_hold_is_refused() -> None:
    """An idempotency key has printable ASCII characters."""
    with (
        akin.Client(transport=httpx.MockTransport(Breaking(httpx.ReadError))) as client,
        pytest.raises(InputError, match="idempotency_key is 'é'; expected printable ASCII"),
    ):
        client.batch(seeds=["a"], idempotency_key="é")


def test_a_response_that_ends_early_is_taken_up_again() -> None:
    """Without a length, as over HTTP/1.0, only the announced number of the next result shows the end."""
    lines = [json.dumps({"seed": number, "paper_id": None, "problem": PROBLEM}) for number in range(3)]
    starts = []

    def respond(request: httpx.Request) -> httpx.Response:
        starts.append(start := int(request.url.params["start"]))
        content = "".join(f"{line}\n" for line in lines[start:])
        if len(starts) < 3:  # the end of a line, and the middle of one
            content = content[: len(lines[0]) + (1 if len(starts) == 1 else 9)]
        headers = {"X-Akin-Batch-State": "done", "X-Akin-Next-Start": "3"}
        return httpx.Response(200, headers=headers, text=content)

    patient = Retries(backoff_s=0.001)
    with akin.Client(transport=httpx.MockTransport(respond), retries=patient) as client:
        assert [0, 1, 2] == [each.seed for each in client.batch_results("x", poll_s=0.001)]
    assert [0, 1, 2] == starts


def results_of(*states: str | None, waits: list[float]) -> list[Any]:
    """Return the results of a batch with these states, one result a response, and record the waits."""
    script = list(enumerate(states))

    def respond(_: httpx.Request) -> httpx.Response:
        number, state = script.pop(0)
        line = json.dumps({"seed": number, "paper_id": None, "problem": PROBLEM})
        return httpx.Response(200, headers={"X-Akin-Batch-State": state} if state else {}, text=f"{line}\n")

    with akin.Client(transport=httpx.MockTransport(respond), sleep=waits.append) as client:
        return list(client.batch_results("x", poll_s=7.0))


@pytest.mark.parametrize(
    ("last", "said"),
    [("failed", "batch failed after 2 results; get_batch says why"), (None, "not one of an Akin")],
)
def test_results_that_do_not_come_are_an_error(last: str | None, said: str) -> None:
    """A failed batch, and a response without a state, raise an error; waits are those of the client."""
    waits: list[float] = []
    assert [0, 1, 2] == [each.seed for each in results_of("queued", "running", "done", waits=waits)]
    assert [7.0, 7.0] == waits
    with pytest.raises(ServiceError, match=said):
        results_of("running", last, waits=waits)

    async def ask() -> None:
        headers = {"X-Akin-Batch-State": last} if last else {}
        transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers))
        async with akin.AsyncClient(transport=transport) as client:
            with pytest.raises(ServiceError, match=said.partition(" after")[0]):
                await anext(client.batch_results("x"))

    anyio.run(ask)


def test_the_fields_are_those_of_the_service() -> None:
    """The client and the service have the same fields for batches."""
    kinds = (SeedsBatchIn, QueriesBatchIn, RecommendationsBatchIn, ProfilesBatchIn, MatchBatchIn)
    taken = {name for kind in kinds for name in kind.model_fields}
    assert taken == set(params.BatchRequest.__annotations__)
    assert set(LargeMatchIn.model_fields) == set(params.BatchMatch.__annotations__)
    assert set(BatchOut.model_fields) == set(batches.Batch.__annotations__)
