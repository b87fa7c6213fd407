"""Batches while what works on them is killed: every seed exactly once, over real processes and servers."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from akin.cli import app
from akin.client import Client, Retries
from service.app import create_app
from service.collection.generations import open_engine
from service.settings import Settings
from service.timings import USUAL, Timings
from tests.support.builds import DEMO_CORPUS, collection
from tests.support.servers.loopback import free_port, served
from tests.support.servers.patience import soon
from tests.support.servers.postgres import Server
from tests.support.servers.processes import akin_process, service_process
from tests.support.servers.redis import RedisServer
from tests.support.trials.batches import Processes, kill_at_random

IDS = [json.loads(line)["id"] for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
SEEDS = IDS
BODY = {"seeds": SEEDS, "limit": 2}
FINAL = {"done", "failed"}


@pytest.fixture
def data(hashed_data: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own with the demo corpus."""
    return Path(copytree(hashed_data, tmp_path / "data"))


def worker_process(data: Path, redis: RedisServer) -> Any:
    """`akin worker`, once it works."""
    return akin_process("worker", "--data", str(data), ready="Working", AKIN_REDIS_URL=redis.url)


def wait_until(holds: Callable[[dict[str, Any]], bool], client: httpx.Client, path: str) -> dict[str, Any]:
    """The batch once something holds of it."""
    soon(lambda: holds(client.get(path).json()))
    return dict(client.get(path).json())


def is_final(batch: dict[str, Any]) -> bool:
    """Whether it is finished."""
    return batch["state"] in FINAL


def expect_each_once(client: httpx.Client, path: str) -> None:
    """Every seed has one line, in order, and an answer in it."""
    assert "done" == wait_until(is_final, client, path)["state"]
    results = [json.loads(line) for line in client.get(f"{path}/results").content.splitlines()]
    assert list(enumerate(SEEDS)) == [(line["seed"], line["paper_id"]) for line in results]
    assert {2} == {len(line["results"]) for line in results}


def test_a_killed_service_goes_on_where_it_was(data: Path) -> None:
    """SIGKILL in the middle of a batch: the next start does the rest, and each seed once."""
    with service_process(data) as (process, client):
        path = client.post("/v1/batches", json=BODY).headers["Location"]
        before = wait_until(lambda batch: batch["done"] >= 20, client, path)
        process.kill()
        process.wait()
    assert before["done"] < len(SEEDS)
    with service_process(data) as (_, client):
        assert client.get(path).json()["done"] >= before["done"]
        expect_each_once(client, path)


@pytest.fixture
def woken(data: Path, redis_server: RedisServer) -> Iterator[httpx.Client]:
    """A client of a service that has batches done by workers over Redis."""
    with waking(data, redis_server, USUAL) as client:
        yield client


@pytest.fixture
def impatient(data: Path, redis_server: RedisServer) -> Iterator[httpx.Client]:
    """The same of a service that soon works itself, and soon tries Redis again."""
    with waking(data, redis_server, Timings(without_worker_s=0.2, without_redis_s=0.2)) as client:
        yield client


@contextmanager
def waking(data: Path, redis_server: RedisServer, timings: Timings) -> Iterator[httpx.Client]:
    """A service that has batches done by workers over Redis."""
    settings = Settings(data=data, device="cpu", redis_url=redis_server.url)  # type: ignore[arg-type]  # made secret
    with (
        served(create_app(settings, open_engine(settings), timings=timings)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        yield client


def test_killed_workers_leave_each_seed_once(
    woken: httpx.Client, data: Path, redis_server: RedisServer
) -> None:
    """SIGKILL of a worker in the middle, Redis emptied too: another does the rest, and each seed once."""
    with worker_process(data, redis_server) as (first, _):
        path = woken.post("/v1/batches", json=BODY).headers["Location"]
        before = wait_until(lambda batch: batch["done"] >= 20, woken, path)
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert before["done"] < len(SEEDS)
    redis_server.flush()
    with worker_process(data, redis_server) as (second, _):
        expect_each_once(woken, path)
        second.send_signal(signal.SIGTERM)
        assert 0 == second.wait(timeout=60)


@pytest.mark.parametrize("fault", [RedisServer.stop, RedisServer.pause])
def test_without_redis_or_workers_the_service_works(
    impatient: httpx.Client, redis_server: RedisServer, fault: Callable[[RedisServer], None]
) -> None:
    """Redis stopped or silent, and so no worker woken: a batch is taken all the same, and done."""
    fault(redis_server)
    answer = impatient.post("/v1/batches", json=BODY)
    assert 202 == answer.status_code
    expect_each_once(impatient, answer.headers["Location"])


def test_redis_that_is_back_is_told_though_nothing_waits(
    impatient: httpx.Client, redis_server: RedisServer
) -> None:
    """/readyz says that workers cannot be woken while that is so, and no longer."""

    def expect_soon(*, told: bool) -> None:
        soon(lambda: ("tickets" in impatient.get("/readyz").text) is told)

    redis_server.stop()
    expect_each_once(impatient, impatient.post("/v1/batches", json=BODY).headers["Location"])
    expect_soon(told=True)
    redis_server.start()
    expect_soon(told=False)


def test_a_worker_needs_redis(data: Path) -> None:
    """Without a URL there is nobody to wake it: one line says which setting is missing."""
    done = CliRunner().invoke(app, ["worker", "--data", str(data)])
    assert 1 == done.exit_code
    assert "set AKIN_REDIS_URL" in done.stderr


def test_a_worker_needs_the_collection(tmp_path: Path) -> None:
    """In a folder without one it does not start: it would end batches whose generation it cannot see."""
    environment = {"AKIN_REDIS_URL": "redis://127.0.0.1:9/0"}
    done = CliRunner().invoke(app, ["worker", "--data", str(tmp_path)], env=environment)
    assert 1 == done.exit_code
    assert "nothing is indexed here" in done.stderr


def test_a_database_stopped_and_started(data: Path, own_postgres: Server) -> None:
    """PostgreSQL away in the middle of a batch: searches go on, batches get 503; once back it is finished."""
    settings = Settings(data=data, device="cpu", catalog_url=own_postgres.url)  # type: ignore[arg-type]  # made secret
    search = {"query": {"paper_id": IDS[0]}, "limit": 1}
    with (
        served(create_app(settings, open_engine(settings))) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        path = client.post("/v1/batches", json=BODY).headers["Location"]
        wait_until(lambda batch: batch["done"] >= 20, client, path)
        own_postgres.stop()
        for answer in (
            client.get(path),
            client.post("/v1/batches", json=BODY),
            client.get(f"{path}/results"),
        ):
            assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])
        assert 200 == client.post("/v1/search", json=search).status_code
        own_postgres.start()
        expect_each_once(client, path)
        assert 202 == client.post("/v1/batches", json=BODY).status_code


@pytest.mark.trial
def test_ten_thousand_seeds_while_processes_are_killed(tmp_path: Path, redis_server: RedisServer) -> None:
    """Two workers and a service, SIGKILLed at random: no seed is missing and none comes twice."""
    data = collection(tmp_path, n_papers=3_000)
    seeds = [f"p{i % 3_000}" for i in range(10_000)]
    processes = Processes(data, free_port(), redis_server.url)
    for name in ("service", "worker 0", "worker 1"):
        processes.start(name)
    address = f"http://127.0.0.1:{processes.port}"
    try:
        with Client(address, retries=Retries(attempts=200, max_wait_s=1)) as client:
            client.paper("p0")  # once it listens
            batch, started = client.batch(seeds=seeds, limit=5), time.monotonic()
            kill_at_random(processes, client, batch.id, n_kills=10)
            rate = len(seeds) / (time.monotonic() - started)
            came = Counter((answer.seed, answer.paper_id) for answer in client.batch_results(batch.id))
    finally:
        processes.end()
    print(f"{rate:.1f} seeds a second; killed: {dict(processes.n_killed)}")  # noqa: T201 - `make trials` shows it
    assert Counter(enumerate(seeds)) == came
    assert 10 == processes.n_killed.total()
