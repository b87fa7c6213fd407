"""Tests of batches while their workers are killed: every seed is processed exactly once."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy2, copytree
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from akin.cli.app import app
from akin.client.client import Client
from akin.client.retries import Retries
from indexer.files.data_folder import CATALOG_FILE
from service.app import create_app
from service.collection.generations import open_engine
from service.settings import Settings
from service.timings import DEFAULTS, Timings
from tests.support.builds import DEMO_CORPUS, collection
from tests.support.servers.loopback import free_port, served
from tests.support.servers.patience import soon
from tests.support.servers.postgres import Server
from tests.support.servers.processes import AKIN_WITHOUT_WEIGHTS, akin_process, service_process
from tests.support.trials.batches import Processes, kill_at_random
from tests.support.trials.settings import print_figure

IDS = [json.loads(line)["id"] for line in DEMO_CORPUS.read_text(encoding="utf-8").splitlines()]
BODY = {"seeds": IDS, "limit": 2}  # in two chunks, so that a batch can be killed in the middle
SHORT = {"seeds": IDS[:3], "limit": 2}
FINAL = {"done", "failed"}


@pytest.fixture
def data(hashed_data: Path, tmp_path: Path) -> Path:
    """Return a copy of the demo collection."""
    return Path(copytree(hashed_data, tmp_path / "data"))


def worker_process(data: Path, **variables: str) -> Any:
    """Start `akin worker` and wait until it is ready."""
    worker = ("worker", "--data", str(data))
    return akin_process(*worker, ready="Processing", program=AKIN_WITHOUT_WEIGHTS, **variables)


def wait_until(holds: Callable[[dict[str, Any]], bool], client: httpx.Client, path: str) -> dict[str, Any]:
    """Wait until ``holds`` is true of the batch, and return the batch."""
    soon(lambda: holds(client.get(path).json()))
    return dict(client.get(path).json())


def is_final(batch: dict[str, Any]) -> bool:
    """Return whether the batch is finished."""
    return batch["state"] in FINAL


def expect_each_once(client: httpx.Client, path: str, body: dict[str, Any] = BODY) -> None:
    """Check that every seed has one line, in order, with an answer."""
    assert "done" == wait_until(is_final, client, path)["state"]
    results = [json.loads(line) for line in client.get(f"{path}/results").content.splitlines()]
    assert list(enumerate(body["seeds"])) == [(line["seed"], line["paper_id"]) for line in results]
    assert {2} == {len(line["results"]) for line in results}


@contextmanager
def serving(settings: Settings, timings: Timings = DEFAULTS) -> Iterator[httpx.Client]:
    """Yield a client of a service in this process."""
    with (
        served(create_app(settings, open_engine(settings), timings=timings)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        yield client


def test_a_killed_service_goes_on_where_it_was(data: Path) -> None:
    """After a SIGKILL in the middle of a batch, the next service does the rest, and each seed once."""
    with service_process(data, program=AKIN_WITHOUT_WEIGHTS) as (process, client):
        path = client.post("/v1/batches", json=BODY).headers["Location"]
        before = wait_until(lambda batch: batch["done"] >= 20, client, path)
        process.kill()
        process.wait()
    assert before["done"] < len(IDS)
    with serving(Settings(data=data, device="cpu")) as client:
        assert client.get(path).json()["done"] >= before["done"]
        expect_each_once(client, path)


@contextmanager
def leaving_batches(data: Path, timings: Timings = DEFAULTS) -> Iterator[httpx.Client]:
    """Yield a client of a service that leaves batches to workers."""
    with serving(Settings(data=data, device="cpu", workers=True), timings) as client:
        yield client


def test_killed_workers_leave_each_seed_once(data: Path) -> None:
    """After a worker is killed in the middle of a batch, a service does the rest, and each seed once."""
    with leaving_batches(data, Timings(without_worker_s=1e9)) as client:
        with worker_process(data) as (first, _):
            path = client.post("/v1/batches", json=BODY).headers["Location"]
            before = wait_until(lambda batch: batch["done"] >= 20, client, path)
            first.send_signal(signal.SIGKILL)
            first.wait()
        assert before["done"] < len(IDS)
        with serving(Settings(data=data, device="cpu")):
            expect_each_once(client, path)


def test_a_worker_follows_a_catalog_that_is_replaced(data: Path) -> None:
    """After another file replaced the catalog, a worker processes the batches of the new one."""
    catalog = data / CATALOG_FILE
    copy = Path(copy2(catalog, data / "copy.sqlite3"))
    with worker_process(data):
        with leaving_batches(data, Timings(without_worker_s=1e9)) as client:
            expect_each_once(client, client.post("/v1/batches", json=SHORT).headers["Location"], SHORT)
        for log in ("-wal", "-shm"):
            Path(f"{catalog}{log}").unlink(missing_ok=True)
        copy.replace(catalog)
        with leaving_batches(data, Timings(without_worker_s=1e9)) as client:
            expect_each_once(client, client.post("/v1/batches", json=SHORT).headers["Location"], SHORT)


def test_without_workers_the_service_works(data: Path) -> None:
    """If no worker takes a batch, the service that left it to workers processes it."""
    with leaving_batches(data, Timings(without_worker_s=0.2)) as client:
        answer = client.post("/v1/batches", json=SHORT)
        assert 202 == answer.status_code
        expect_each_once(client, answer.headers["Location"], SHORT)


@pytest.mark.usefixtures("log_left_alone")
def test_a_fault_of_ours_ends_no_worker(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an unexpected error the worker goes on."""
    looks: list[object] = []

    def look(*_: object) -> bool:
        looks.append(_)
        if len(looks) == 1:
            raise ZeroDivisionError
        os.kill(os.getpid(), signal.SIGTERM)
        return False

    monkeypatch.setattr("service.batches.worker.ChunkWorker.work_one", look)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        done = CliRunner().invoke(app, ["worker", "--data", str(data)])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (0, True, 2) == (done.exit_code, done.stdout.endswith("Stopped.\n"), len(looks))


def test_a_worker_needs_the_collection(tmp_path: Path) -> None:
    """A worker does not start in a folder without a collection, as it could not process batches."""
    done = CliRunner().invoke(app, ["worker", "--data", str(tmp_path)])
    assert 1 == done.exit_code
    assert "nothing is indexed here" in done.stderr


def test_a_database_stopped_and_started(data: Path, own_postgres: Server) -> None:
    """With PostgreSQL away, searches go on and batches get 503; once it is back, the batch is finished."""
    settings = Settings(data=data, device="cpu", catalog_url=own_postgres.url)  # type: ignore[arg-type]  # made secret
    search = {"query": {"paper_id": IDS[0]}, "limit": 1}
    with serving(settings) as client:
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


def test_a_worker_waits_for_its_database(data: Path, own_postgres: Server) -> None:
    """A worker started while its database is away processes batches once the database is back."""
    settings = Settings(data=data, device="cpu", catalog_url=own_postgres.url, workers=True)  # type: ignore[arg-type]  # made secret
    own_postgres.stop()
    with worker_process(data, AKIN_CATALOG_URL=own_postgres.url):
        own_postgres.start()
        with serving(settings, Timings(without_worker_s=1e9)) as client:
            expect_each_once(client, client.post("/v1/batches", json=SHORT).headers["Location"], SHORT)


@pytest.mark.trial
def test_ten_thousand_seeds_while_processes_are_killed(tmp_path: Path) -> None:
    """With two workers and a service killed at random, no seed is missing and none comes twice."""
    data = collection(tmp_path, n_papers=3_000)
    seeds = [f"p{i % 3_000}" for i in range(10_000)]
    processes = Processes(data, free_port())
    for name in ("service", "worker 0", "worker 1"):
        processes.start(name)
    address = f"http://127.0.0.1:{processes.port}"
    try:
        with Client(address, retries=Retries(attempts=200, max_wait_s=1)) as client:
            client.paper("p0")  # wait until it listens
            batch, started = client.batch(seeds=seeds, limit=5), time.monotonic()
            kill_at_random(processes, client, batch.id, n_kills=10)
            rate = len(seeds) / (time.monotonic() - started)
            came = Counter((answer.seed, answer.paper_id) for answer in client.batch_results(batch.id))
    finally:
        processes.end()
    print_figure(f"{rate:.1f} seeds a second; killed: {dict(processes.n_killed)}")
    assert Counter(enumerate(seeds)) == came
    assert 10 == processes.n_killed.total()
