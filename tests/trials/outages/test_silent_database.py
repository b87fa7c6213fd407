"""Tests that a silent or busy database keeps no request waiting past its deadline."""

import gc
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import httpx
import pytest
from alembic import command
from alembic.config import Config
from fastapi.testclient import TestClient
from sqlalchemy import Connection, event, select, text

from indexer.catalog import catalog as catalog_module
from indexer.catalog.catalog import Catalog
from indexer.catalog.database import Database
from indexer.catalog.migrations import migrate, scripts
from indexer.files.data_folder import CATALOG_FILE
from models.errors import StorageError
from models.interruption import limit_silence, silence_limit_s, without_interruption
from models.types import Paper, Sentence
from service.access.api_keys import Keys
from service.access.keys import KeyRing
from service.app import create_app
from service.collection import ingest
from service.collection.generations import open_engine
from service.context import BACKGROUND_TIMEOUT_S, with_deadline
from service.settings import Settings
from tests.support.builds import WHALES, collection
from tests.support.servers.loopback import served
from tests.support.servers.patience import soon
from tests.support.servers.postgres import Server, running

PAPER = Paper("a", "", "One.", (Sentence("One.", 0, 4),))
BATCH = {"seeds": ["p1"], "limit": 1}
SEARCH = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}


@pytest.fixture(scope="module")
def module_postgres() -> Iterator[Server]:
    """Yield a PostgreSQL server only for this module; pauses end, and each test has its own database."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install akin[postgres]")
    with running() as server:
        yield server


@pytest.fixture
def postgres_server(module_postgres: Server) -> str:
    """Return the URL of the same server, so that no other is started."""
    return module_postgres.url


@pytest.fixture
def paused(module_postgres: Server, postgres_url: str) -> Iterator[Server]:
    """Yield a server with a catalog at ``postgres_url``, and resume it after the test pauses it."""
    Catalog.open(postgres_url).close()
    yield module_postgres
    module_postgres.resume()


# A timeout that never ends a wait in these tests.
LONG_S = 100_000


def expect_given_up(seconds: float, work: Callable[[], object], reason: str) -> None:
    """Check that the deadline ends the work with an error, as nothing else would."""
    with limit_silence(math.inf), pytest.raises(StorageError, match=reason):
        with_deadline(seconds, work)


def test_a_silent_server_is_waited_for_until_the_deadline(paused: Server, postgres_url: str) -> None:
    """Reads and writes on an open connection end at their deadline, and work again later."""
    with Catalog.open(postgres_url) as catalog:
        catalog.count()
        paused.pause()
        expect_given_up(0.5, catalog.count, "did not answer in time")
        paused.resume()
        assert 0 == catalog.count()
        paused.pause()
        expect_given_up(0.5, lambda: catalog.add([PAPER]), "did not answer")
        paused.resume()
        assert 1 == catalog.add([PAPER]).number


def test_a_server_that_is_silent_too_long_is_an_error(paused: Server, postgres_url: str) -> None:
    """Without a deadline a silent server is an error after a while, except ``without_interruption``."""
    database = Database(postgres_url)

    def sleep() -> None:
        with database.reading() as connection:
            connection.execute(select(text("pg_sleep(1.5)")))

    with limit_silence(0.5):
        with pytest.raises(StorageError, match="may be overloaded"):
            sleep()
        with without_interruption():
            sleep()
    database.close()


def test_commands_that_change_every_row_wait_for_the_server(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replacing a whole collection, and purging, may leave the server silent for as long as it needs."""
    slow: list[str] = []

    def slowly(name: str) -> None:
        change = getattr(catalog_module, name)

        def after_a_while(connection: Connection, *given: object, **named: object) -> object:
            connection.execute(select(text("pg_sleep(1.5)")))
            slow.append(name)
            return change(connection, *given, **named)

        monkeypatch.setattr(catalog_module, name, after_a_while)

    slowly("publish_staged")
    slowly("remove_batches")
    with Catalog.open(postgres_url) as catalog, limit_silence(0.5):
        catalog.add([PAPER])
        catalog.publish("a load", 0, replace=True)
        assert 0 == catalog.count()
        catalog.purge([PAPER.id])
        with pytest.raises(StorageError, match="may be overloaded"):
            catalog.publish("a load", 0)
    assert ["publish_staged", "remove_batches"] == slow


def test_a_migration_is_not_cut_short(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration of an older catalog is not ended by the deadline of its caller."""
    upgrade = command.upgrade

    def slowly(config: Config, revision: str) -> None:
        config.attributes["connection"].execute(select(text("pg_sleep(3)")))
        upgrade(config, revision)

    older = Database(postgres_url)
    with older.writing() as connection:
        scripts.upgrade(connection, "0005")
    older.close()
    monkeypatch.setattr(command, "upgrade", slowly)
    with_deadline(2.0, lambda: migrate(postgres_url))
    with Catalog.open(postgres_url) as catalog:
        assert 0 == catalog.count()


def test_what_nobody_waits_for_ends_on_the_server_too(paused: Server, postgres_url: str) -> None:
    """A statement given up by the client also ends on the server."""
    database = Database(postgres_url)

    def sleep() -> None:
        with database.reading() as connection:
            connection.execute(select(text("pg_sleep(60)")))

    def n_at_work() -> int:
        statement = text("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%'")
        with database.reading() as connection:
            return int(connection.execute(statement).scalar_one()) - 1  # without this statement

    expect_given_up(0.3, sleep, "may be overloaded")
    soon(lambda: n_at_work() == 0)
    database.close()


def test_connecting_ends_at_the_deadline(paused: Server) -> None:
    """Connecting ends at its deadline, even if a silent server is named several times."""
    folder = str(paused.folder)
    database = Database(f"postgresql://postgres@/postgres?host={folder}&host={folder}&host={folder}")

    def ask() -> None:
        with database.reading() as connection:
            connection.execute(text("SELECT 1"))

    ask()
    database.close()
    paused.pause()
    expect_given_up(0.5, ask, "catalog postgres")


def test_no_thread_waits_for_the_connections_of_others(catalog_place: str | Path) -> None:
    """While 20 connections are in use, one more can be opened."""
    with Catalog.open(catalog_place) as catalog, ExitStack() as using:
        for _ in range(20):
            connection = using.enter_context(catalog.database.reading())
            connection.execute(text("SELECT 1"))
        assert 0 == catalog.count()


def test_a_writer_waits_for_another_until_the_deadline(catalog_place: str | Path) -> None:
    """A writer waits for another transaction until its deadline, and can write afterwards."""
    with Catalog.open(catalog_place, busy_timeout_s=LONG_S) as catalog, Catalog.open(catalog_place) as other:
        with other.database.writing():
            expect_given_up(0.5, lambda: catalog.add([PAPER]), "catalog")
        assert 1 == catalog.add([PAPER]).number


def test_a_locked_sqlite_file_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    """If another program locks the SQLite file, the error says that another process is writing."""
    with Catalog.open(tmp_path / CATALOG_FILE, busy_timeout_s=LONG_S) as catalog:
        other = sqlite3.connect(tmp_path / CATALOG_FILE, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        expect_given_up(0.3, lambda: catalog.add([PAPER]), "locked; another process is still writing")
        threading.Timer(0.3, other.rollback).start()
        assert 1 == catalog.add([PAPER]).number
        other.close()


def test_a_connection_in_use_is_closed_when_it_comes_back(catalog_place: str | Path) -> None:
    """A connection in use while its database is closed is closed when it is returned."""
    database = Database(catalog_place)
    with database.reading() as connection:
        driver = connection.connection.driver_connection
        database.close()
        connection.execute(text("SELECT 1"))
    with pytest.raises(Exception, match="closed"):
        driver.cursor().execute("SELECT 1")  # type: ignore[union-attr]  # either driver's
    database.close()
    gc.collect()


def test_a_connection_that_comes_back_while_the_database_is_closed_is_closed_too(
    catalog_place: str | Path,
) -> None:
    """A connection returned while the database is being closed is closed, too."""
    database = Database(catalog_place)
    with ExitStack() as using:
        driver = using.enter_context(database.reading()).connection.driver_connection
        event.listen(database.engine, "engine_disposed", lambda _: using.close())
        database.close()
    with pytest.raises(Exception, match="closed"):
        driver.cursor().execute("SELECT 1")  # type: ignore[union-attr]  # either driver's


def test_keys_that_are_being_read_are_waited_for_at_the_end(
    catalog_place: str | Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service ends only after its thread has finished reading the keys."""
    Keys.open(catalog_place).close()
    reading, read = threading.Event(), threading.Event()
    all_keys = Keys.all

    def slowly(keys: Keys) -> object:
        reading.set()
        time.sleep(0.3)
        found = all_keys(keys)
        read.set()
        return found

    ring = KeyRing(catalog_place)

    async def used() -> None:
        with ring.refreshing():
            monkeypatch.setattr(Keys, "all", slowly)
            with anyio.fail_after(60):
                while not reading.is_set():
                    await anyio.sleep(0.01)

    anyio.run(used)
    assert read.is_set()


def test_writes_are_answered_in_time_while_the_database_is_frozen(
    tmp_path: Path, paused: Server, postgres_url: str
) -> None:
    """With PostgreSQL paused, searches go on and each write gets 503 by its deadline; later all works."""
    data = collection(tmp_path, n_papers=2, catalog=postgres_url)
    settings = Settings(data=data, keyless="write", device="cpu", catalog_url=postgres_url, deadline_ms=1000)  # type: ignore[arg-type]  # made secret
    with (
        served(create_app(settings, open_engine(settings))) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):

        def degraded() -> set[str]:
            return {each["part"] for each in client.get("/readyz").json()["degraded"]}

        def wrote() -> int:
            return client.post("/v1/papers", json={"papers": [WHALES]}).status_code

        def given(method: str, path: str, body: object) -> None:
            with httpx.Client(base_url=address, timeout=30) as other:
                answers.append(other.request(method, path, json=body))

        assert 202 == wrote()
        soon(lambda: client.get("/v1/papers/whales").status_code == 200)
        batch = client.post("/v1/batches", json=BATCH).headers["Location"]
        soon(lambda: client.get(batch).json()["state"] == "done")
        answers: list[httpx.Response] = []
        paused.pause()
        requests = [
            ("POST", "/v1/papers", {"papers": [{**WHALES, "id": "refused"}]}),
            ("DELETE", "/v1/papers/whales", None),
            ("POST", "/v1/batches", BATCH),
            ("GET", batch, None),
            ("GET", f"{batch}/results", None),
            ("DELETE", batch, None),
        ]
        writers = [threading.Thread(target=given, args=each) for each in requests]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            assert 200 == client.post("/v1/search", json=SEARCH).status_code
        # All while it is paused: none of them waits for the database to come back.
        assert [(503, True)] * len(requests) == [
            (answer.status_code, "Retry-After" in answer.headers) for answer in answers
        ]
        soon(lambda: {"writes", "keys", "batches"} <= degraded())
        assert 200 == client.post("/v1/search", json=SEARCH).status_code
        paused.resume()
        soon(lambda: wrote() == 202)
        soon(lambda: not degraded())
        assert 404 == client.get("/v1/papers/refused").status_code
        assert 200 == client.get(batch).status_code
        paused.pause()  # it must end all the same


def test_a_freeze_while_changes_are_published_is_reported_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing changes waits seconds for a silent server, not a minute."""
    patience: list[float] = []
    publish_pending = ingest.publish_pending

    def noting(*given: object, **options: object) -> object:
        patience.append(silence_limit_s())
        return publish_pending(*given, **options)  # type: ignore[arg-type]  # goes through

    monkeypatch.setattr(ingest, "publish_pending", noting)
    settings = Settings(data=collection(tmp_path, n_papers=2), keyless="write", device="cpu")
    with TestClient(create_app(settings, open_engine(settings))) as client:
        client.post("/v1/papers", json={"papers": [WHALES]})
        soon(lambda: client.get("/v1/papers/whales").status_code == 200)
    assert {BACKGROUND_TIMEOUT_S} == {*patience}
