"""Tests of files of results, which are computed in parts that each take a place of the queue."""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from fastapi.testclient import TestClient

from models.errors import OverloadedError
from service.access.in_turn import in_turn
from service.access.queue import Admission
from service.api.routes import batches
from service.context import Deadline
from tests.support.clients import client_of
from tests.support.servers.patience import soon

PAPER = "demo:p00-m00"


async def read(parts: AsyncIterator[bytes]) -> list[bytes]:
    """Return all parts."""
    return [part async for part in parts]


def test_each_part_is_computed_at_a_place() -> None:
    """A part holds a place while it is computed, but none while the client reads it."""
    queue = Admission(1, 0)
    computing, reading = [], []

    def parts() -> Iterator[bytes]:
        for part in (b"a", b"", b"b"):
            computing.append(queue.running)
            yield part

    async def scenario() -> list[bytes]:
        found = []
        async for part in in_turn(queue, parts()):
            reading.append(queue.running)
            found.append(part)
        return found

    assert [b"a", b"b"] == anyio.run(scenario)
    assert ([1, 1, 1], [0, 0], 0) == (computing, reading, queue.running)


def test_a_part_waits_however_many_do() -> None:
    """A part of a started answer waits for a place even if a new request would be refused."""
    queue = Admission(1, 0)

    async def scenario() -> list[bytes]:
        found: list[bytes] = []
        async with anyio.create_task_group() as group, queue.place(Deadline(10.0)):

            async def wait() -> None:
                found.extend(await read(in_turn(queue, iter([b"a"]))))

            group.start_soon(wait)
            await anyio.sleep(0)
            assert 1 == queue.waiting
        return found

    assert [b"a"] == anyio.run(scenario)


def test_a_turn_that_does_not_come_ends_the_answer() -> None:
    """A part that gets no place in time ends the answer."""
    queue = Admission(1, 0)

    async def scenario() -> None:
        async with queue.place(Deadline(10.0)):
            await read(in_turn(queue, iter([b"a"]), turn_s=0.01))

    with pytest.raises(OverloadedError):
        anyio.run(scenario)


@pytest.fixture
def client(hashed_data: Path, tmp_path: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the demo papers."""
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)
    with client_of(data) as client:
        yield client


@pytest.mark.parametrize("address", ["/v1/batches/{}/results", "/batch/{}.csv"])
def test_files_of_results_come_in_turn(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Both addresses of a batch's results use places of the queue for the database."""
    queues: list[Admission] = []

    def watched(queue: Admission, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        queues.append(queue)
        return in_turn(queue, parts)

    monkeypatch.setattr(batches, "in_turn", watched)
    started = client.post("/v1/batches", json={"seeds": [PAPER], "limit": 1}).json()
    status = partial(client.get, f"/v1/batches/{started['id']}")
    soon(lambda: status().json()["state"] == "done")
    answer = client.get(address.format(started["id"]))
    assert (200, True) == (answer.status_code, PAPER in answer.text), json.dumps(started)
    assert [client.app.state.services.queues.storing] == queues  # type: ignore[attr-defined]
