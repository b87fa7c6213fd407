"""Files of results are computed a part at a time, each at a place of the request's queue."""

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
    """All parts."""
    return [part async for part in parts]


def test_each_part_is_computed_at_a_place() -> None:
    """And at none while the client reads it, however slowly."""
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
    """What has begun is not refused where a new request would be; it has its turn once a place is free."""
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
    """It cannot be waited for without an end."""
    queue = Admission(1, 0)

    async def scenario() -> None:
        async with queue.place(Deadline(10.0)):
            await read(in_turn(queue, iter([b"a"]), turn_s=0.01))

    with pytest.raises(OverloadedError):
        anyio.run(scenario)


@pytest.fixture
def client(hashed_data: Path, tmp_path: Path) -> Iterator[TestClient]:
    """A client of a service over the demo papers."""
    data = tmp_path / "data"
    shutil.copytree(hashed_data, data)
    with client_of(data) as client:
        yield client


@pytest.mark.parametrize("address", ["/v1/batches/{}/results", "/batch/{}.csv"])
def test_files_of_results_come_in_turn(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """By either address, at places for requests that ask the database."""
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
