"""Tests of a collection that changes while it is served: writes show soon, answers mix no generations."""

import gc
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import akin
from akin.cli.app import app
from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.growth import publish_added
from indexer.collection.rollback import rollback
from indexer.files.data_folder import CATALOG_FILE, KEEP, DataFolder
from indexer.snapshot.folder import current_generation, write_pointer
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import Encoder
from models.errors import BuildLockedError, ServiceError, StorageError
from models.types import Filters
from service.access.queue import N_STORING
from service.app import create_app
from service.cache.store import Cache
from service.collection.generations import Engines
from service.resolve.titles import Titles
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery, Seed
from service.settings import Settings
from service.timings import Timings
from tests.support.annotators import hashing_annotator
from tests.support.builds import build_quietly, many_papers, write_corpus
from tests.support.clients import client_of
from tests.support.servers.loopback import served
from tests.support.servers.patience import soon

N_PAPERS = 60
OFTEN = Timings(follow_every_s=0.02, publish_every_s=0.05)
DOI = "10.5555/whales"
WHALES = {"id": "w/1", "title": "Whales", "abstract": ["Whales sing.", "We count whales."], "year": 2020}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, hashing: Encoder) -> Path:
    """Return a collection of some papers, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build_quietly(write_corpus(folder / "c.jsonl", many_papers(N_PAPERS)), folder / "data", hashing)
    return folder / "data"


@pytest.fixture
def data(built: Path, tmp_path: Path) -> Path:
    """Return this test's own copy of the collection."""
    return Path(shutil.copytree(built, tmp_path / "data"))


def engine_of(data: Path) -> SearchEngine:
    """Return an engine over the served generation."""
    return SearchEngine(open_snapshot(data), hashing_annotator, n_candidates=20)


def writing(data: Path, **settings: Any) -> TestClient:
    """Return a client of a service that takes papers and often checks for changes made by others."""
    given = {"keyless": "write", "device": "cpu", "rate": 0, **settings}
    return client_of(data, engine_of(data), timings=OFTEN, **given)


@pytest.fixture
def client(data: Path) -> Iterator[TestClient]:
    """Yield a client of a service over the collection."""
    with writing(data) as client:
        yield client


def is_there(client: TestClient, paper_id: str) -> bool:
    """Return whether the service finds a paper by its id."""
    return client.get(f"/v1/papers/{paper_id}").status_code == 200


def published_changes(client: TestClient) -> None:
    """Make the service show all pending changes of its catalog at once."""
    ingest = client.app.state.services.collection.ingest  # type: ignore[attr-defined]  # the client keeps its application

    def nothing_pends() -> bool:
        ingest.publish_pending()  # does nothing while the service itself is publishing
        return bool(ingest.pending == 0)

    soon(nothing_pends)


def test_an_added_paper_is_found_and_a_deleted_one_is_not(client: TestClient) -> None:
    """A paper shows up in searches soon after it was accepted, and no longer after it was deleted."""
    answer = client.post("/v1/papers", json={"papers": [WHALES]})
    assert (202, {"accepted": 1, "unchanged": 0, "change": 2, "generation": "000001"}) == (
        answer.status_code,
        answer.json(),
    )
    soon(lambda: is_there(client, "w/1"))
    query = {"query": {"title": "", "abstract": "Whales sing."}, "limit": 1}
    found = client.post("/v1/search", json=query).json()
    assert ("w/1", "000002") == (found["results"][0]["paper"]["id"], found["generation"])
    assert 204 == client.delete("/v1/papers/w/1").status_code
    assert not is_there(client, "w/1")
    assert "w/1" != client.post("/v1/search", json=query).json()["results"][0]["paper"]["id"]
    assert 204 == client.delete("/v1/papers/w/1").status_code  # deleting again is fine


def test_a_paper_is_deleted_by_its_id_alone(client: TestClient) -> None:
    """Deleting by another name is refused with the id to use; deleting an unknown name answers 204."""
    assert 200 == client.post("/v1/papers?wait=true", json={"papers": [{**WHALES, "doi": DOI}]}).status_code
    for name in (DOI, DOI.upper(), "whales"):
        refused = client.delete(f"/v1/papers/{name}")
        assert (422, True) == (refused.status_code, "w/1" in refused.json()["detail"])
    assert is_there(client, "w/1")
    assert [204, 204, 204] == [
        client.delete(f"/v1/papers/{name}").status_code for name in ("w/1", DOI, "whales")
    ]


def test_an_id_that_is_gone_is_deleted_again_though_a_title_reads_like_it(client: TestClient) -> None:
    """Deleting the same id twice answers 204 twice and deletes no other paper, even one with that title."""
    papers = [{**WHALES, "id": "whales"}, {**WHALES, "id": "w/2"}]
    assert 200 == client.post("/v1/papers?wait=true", json={"papers": papers}).status_code
    assert [204, 204] == [client.delete("/v1/papers/whales").status_code for _ in range(2)]
    assert is_there(client, "w/2")


def test_who_waits_finds_what_was_added(client: TestClient) -> None:
    """With wait=true an addition answers 200 once it shows, with the generation that shows it."""
    answer = client.post("/v1/papers?wait=true", json={"papers": [WHALES]})
    assert (200, "000002") == (answer.status_code, answer.json()["generation"])
    assert is_there(client, "w/1")


def test_who_waits_reads_one_generation(client: TestClient) -> None:
    """The header and the body of an answer that waited name the same generation."""
    answer = client.post("/v1/papers?wait=true", json={"papers": [WHALES]})
    assert answer.headers["X-Akin-Generation"] == answer.json()["generation"]


def test_an_id_may_end_like_the_address_of_vectors(client: TestClient) -> None:
    """A paper whose id ends in /vectors can be read, as can its vectors."""
    client.post("/v1/papers?wait=true", json={"papers": [{**WHALES, "id": "w/vectors"}]})
    assert "w/vectors" == client.get("/v1/papers/w/vectors").json()["paper"]["id"]
    assert "w/vectors" == client.get("/v1/papers/w/vectors/vectors").json()["paper"]["id"]


def test_a_new_generation_is_served_once_its_titles_are_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a large merge, nobody who types a title waits until millions of titles are read."""
    read, search, searched = Titles.of, SearchEngine.search, threading.Event()

    def later(snapshot: Snapshot) -> Titles:
        assert searched.wait(60)
        time.sleep(0.5)  # after all else
        return read(snapshot)

    def searching(engine: SearchEngine, query: SearchQuery) -> SearchAnswer:
        answer = search(engine, query)
        searched.set()
        return answer

    engines = Engines.of(Settings(data=data), engine_of(data), Cache(memory_mib=1))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p1"], catalog, keep=KEEP)
    monkeypatch.setattr(Titles, "of", later)
    monkeypatch.setattr(SearchEngine, "search", searching)
    assert engines.follow()
    assert "titles" in vars(engines.current.names)


def test_adding_again_changes_nothing(client: TestClient) -> None:
    """Papers added again unchanged are reported as unchanged and make no new generation."""
    client.post("/v1/papers", json={"papers": [WHALES]})
    soon(lambda: is_there(client, "w/1"))
    assert 1 == client.post("/v1/papers", json={"papers": [WHALES]}).json()["unchanged"]
    published_changes(client)
    assert "000002" == client.get("/readyz").json()["generation"]


def test_a_paper_is_replaced_whole(client: TestClient) -> None:
    """A paper added under an existing id replaces the old one completely."""
    client.post("/v1/papers", json={"papers": [{**WHALES, "id": "p3"}]})
    soon(lambda: client.get("/v1/papers/p3").json()["paper"]["title"] == "Whales")
    paper = client.get("/v1/papers/p3").json()["paper"]
    assert ("Whales sing. We count whales.", 2020) == (paper["abstract"], paper["year"])
    assert N_PAPERS == client.get("/readyz").json()["papers"]


def test_one_unusable_paper_keeps_all_out(client: TestClient) -> None:
    """A request with one unusable paper is refused as a whole, and the error says which paper it is."""
    unusable: list[dict[str, Any]] = [
        {"id": "w/1"}, {"id": " zzz"}, {"id": "zzz\0"}, {"abstract": []}, {"title": ""},
        {"facets": ["method"]}, {"year": 3}, {"nul": 1},
    ]  # fmt: skip
    for broken in unusable:
        papers = [WHALES, {**WHALES, "id": "w2", **broken}]
        answer = client.post("/v1/papers", json={"papers": papers})
        assert 422 == answer.status_code, broken
        assert "1" in answer.text
        assert "zzz" not in answer.text
        assert ".;" not in answer.text
    assert 0 == client.post("/v1/papers", json={"papers": [WHALES]}).json()["unchanged"]


def test_what_nobody_foresaw_does_not_end_what_goes_on_beside_requests(
    client: TestClient, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following and publishing survive unexpected errors of any kind, and /readyz reports them meanwhile."""

    def degraded() -> set[str]:
        return {each["part"] for each in client.get("/readyz").json()["degraded"]}

    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    with monkeypatch.context() as broken:
        broken.setattr("service.collection.generations.current_generation", fault)
        broken.setattr("service.collection.ingest.publish_pending", fault)
        assert 202 == client.post("/v1/papers", json={"papers": [WHALES]}).status_code
        soon(lambda: degraded() == {"swap", "writes"})
    soon(lambda: is_there(client, "w/1"))
    soon(lambda: degraded() == set())
    pointer = (data / "CURRENT").read_bytes()
    (data / "CURRENT").write_bytes(b"\xff")
    soon(lambda: "swap" in degraded())
    (data / "CURRENT").write_bytes(pointer)
    soon(lambda: degraded() == set())


@pytest.mark.parametrize("tried_again", [True, False])
def test_a_write_that_the_disk_has_no_room_for_is_reported(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, *, tried_again: bool
) -> None:
    """If a write fails, /readyz reports `writes` and the disk until one succeeds, or for a while."""

    def degraded() -> list[str]:
        return [each["part"] for each in client.get("/readyz").json()["degraded"]]

    def full(*_: object) -> None:
        raise StorageError("catalog /srv/catalog.sqlite3: database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr("indexer.catalog.catalog.Catalog.add", full)
        refused = client.post("/v1/papers", json={"papers": [WHALES]})
        assert (503, True) == (refused.status_code, "disk" in refused.json()["detail"])
        soon(lambda: degraded() == ["writes"])
        assert "free disk space" in client.get("/readyz").text
    if tried_again:
        assert 202 == client.post("/v1/papers", json={"papers": [WHALES]}).status_code
    else:
        monkeypatch.setattr("service.collection.ingest._REFUSAL_S", 0.0)
    soon(lambda: degraded() == [])


class DeletedMeanwhile:
    """A stand-in for ``publish_added`` that has the service delete a paper during the first publication."""

    def __init__(self, client: TestClient, data: Path, paper_id: str) -> None:
        self.client = client
        self.catalog = data / CATALOG_FILE
        self.paper_id = paper_id
        self.status: int | None = None
        self.answered_too_soon: bool | None = None
        self.asking: threading.Thread | None = None

    def __call__(self, *given: Any, **options: Any) -> Manifest:
        """Publish; the first time, only after the deletion of the paper reached the catalog."""
        if self.asking is None:
            self.asking = threading.Thread(target=self.ask)
            self.asking.start()
            with Catalog.open(self.catalog) as catalog:
                soon(lambda: not catalog.current_hashes([self.paper_id]))
            self.asking.join(0.3)
            self.answered_too_soon = self.status is not None
        return publish_added(*given, **options)

    def ask(self) -> None:
        """Delete the paper."""
        self.status = self.client.delete(f"/v1/papers/{self.paper_id}").status_code

    def assert_gone(self) -> None:
        """Check that the deletion was not answered too soon and that the paper is gone after it."""
        soon(lambda: self.status is not None)
        assert (204, False) == (self.status, is_there(self.client, self.paper_id))
        assert not self.answered_too_soon


def test_a_paper_deleted_while_it_is_published_is_gone(
    client: TestClient, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion is not answered until the paper is gone from a generation being published at that moment."""
    meanwhile = DeletedMeanwhile(client, data, "w/1")
    monkeypatch.setattr("indexer.collection.growth.publish_added", meanwhile)
    client.post("/v1/papers", json={"papers": [WHALES]})
    meanwhile.assert_gone()


def test_a_paper_deleted_while_a_command_publishes_it_is_gone(
    client: TestClient, data: Path, tmp_path: Path, hashing: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds if `akin index` publishes the paper, which is in the catalog before it is served."""
    meanwhile = DeletedMeanwhile(client, data, "w/1")
    monkeypatch.setattr("indexer.collection.growth.publish_added", meanwhile)
    build_quietly(write_corpus(tmp_path / "whales.jsonl", [WHALES]), data, hashing)
    meanwhile.assert_gone()


def test_searches_go_on_while_the_catalog_is_locked(data: Path) -> None:
    """Writes that wait for a locked catalog do not take the one place of searches; metrics count them."""
    answered: list[int] = []
    n_writes = N_STORING + 2
    with writing(data, running=1) as client, ThreadPoolExecutor(n_writes) as threads:
        with closing(sqlite3.connect(data / CATALOG_FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            papers = [{**WHALES, "id": f"w{number}"} for number in range(n_writes)]
            for paper in papers:
                addition = threads.submit(client.post, "/v1/papers", json={"papers": [paper]})
                addition.add_done_callback(lambda done: answered.append(done.result().status_code))
            soon(lambda: n_waiting(client) == (N_STORING, 2, 0))
            assert 200 == client.post("/v1/search", json={"query": {"paper_id": "p5"}}).status_code
            assert [] == answered
            other.execute("ROLLBACK")
        soon(lambda: answered == [202] * n_writes)
        assert (0, 0, 0) == n_waiting(client)


def n_waiting(client: TestClient) -> tuple[int, ...]:
    """Return how many requests store, wait to store, and wait until their change is visible."""
    samples = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
    names = ("storing", "waiting_to_store", "waiting_to_show")
    return tuple(int(float(samples[f"akin_requests_{name}"])) for name in names)


@contextmanager
def another_publishes() -> Iterator[None]:
    """Have another process publish until the context ends; writes wait for it as long as their deadline."""

    def locked(*_: object, **__: object) -> None:
        raise BuildLockedError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("service.collection.ingest.publish_pending", locked)
        patched.setattr("service.collection.ingest._MAX_WAIT_S", 120.0)
        yield


def test_who_waits_to_see_a_write_keeps_nobody_from_the_database(data: Path) -> None:
    """Many writes that wait until they are visible hold no place of the database's queue and no thread."""
    n_deleted = 20  # more than places and threads
    with (
        writing(data, running=1, deadline_ms=120_000) as client,
        ThreadPoolExecutor(n_deleted + 1) as threads,
    ):
        with another_publishes():
            writes = [threads.submit(client.delete, f"/v1/papers/p{number}") for number in range(n_deleted)]
            writes.append(threads.submit(client.post, "/v1/papers?wait=true", json={"papers": [WHALES]}))
            soon(lambda: n_waiting(client) == (0, 0, n_deleted + 1))
            saved = client.post("/v1/queries", json={"name": "a", "search": {"query": {"text": "floods"}}})
            assert (201, 200) == (saved.status_code, client.get("/v1/queries").status_code)
            assert not any(write.done() for write in writes)
        assert [*[204] * n_deleted, 200] == [write.result().status_code for write in writes]
        assert (0, 0, 0) == n_waiting(client)


def test_a_limited_number_waits_to_see_a_write(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While as many writes as allowed wait until they are visible, others are stored and get 202 at once."""
    monkeypatch.setattr("service.collection.ingest.MAX_WAITING", 2)
    with writing(data, deadline_ms=120_000) as client, ThreadPoolExecutor(2) as threads:
        with another_publishes():
            writes = [threads.submit(client.delete, f"/v1/papers/{each}") for each in ("p1", "p2")]
            soon(lambda: n_waiting(client) == (0, 0, 2))
            assert 202 == client.delete("/v1/papers/p3").status_code
            added = client.post("/v1/papers?wait=true", json={"papers": [WHALES]})
            assert (202, False) == (added.status_code, any(write.done() for write in writes))
        assert [204, 204] == [write.result().status_code for write in writes]
        soon(lambda: is_there(client, "w/1") and not is_there(client, "p3"))


def test_a_write_that_is_not_visible_in_time_is_stored(data: Path) -> None:
    """A write that is not visible when its deadline ends gets 202, and is visible later."""
    with writing(data, deadline_ms=2000) as client, ThreadPoolExecutor(1) as threads:
        with another_publishes():
            deleted = threads.submit(client.delete, "/v1/papers/p1")
            added = client.post("/v1/papers?wait=true", json={"papers": [WHALES]})
            assert (202, 202) == (added.status_code, deleted.result().status_code)
            assert (True, False) == (is_there(client, "p1"), is_there(client, "w/1"))
        soon(lambda: is_there(client, "w/1") and not is_there(client, "p1"))


def test_a_service_keeps_as_many_generations_as_its_setting_allows(data: Path) -> None:
    """Publishing removes no more generations than `AKIN_KEEP` allows."""
    with writing(data, keep=5) as client:
        for number in range(5):
            client.post("/v1/papers", json={"papers": [{**WHALES, "id": f"w{number}"}]})
            soon(lambda number=number: is_there(client, f"w{number}"))  # type: ignore[misc]  # bound at once
    assert ["000002", "000003", "000004", "000005", "000006"] == DataFolder(data).generations()[-5:]


def test_an_older_catalog_takes_no_papers(client: TestClient, data: Path) -> None:
    """If an older copy replaces a served catalog, writes get 503 until the newer one is back."""
    client.post("/v1/papers", json={"papers": [WHALES]})
    soon(lambda: is_there(client, "w/1"))
    with closing(sqlite3.connect(data / CATALOG_FILE, isolation_level=None)) as restored:
        newer = restored.execute("SELECT * FROM current_papers WHERE change > 1").fetchall()
        restored.execute("DELETE FROM current_papers WHERE change > 1")
        seals = {"papers": [{**WHALES, "id": "seals"}]}
        assert 503 == client.post("/v1/papers", json=seals).status_code
        assert 503 == client.delete("/v1/papers/p1").status_code
        soon(lambda: ["writes"] == [each["part"] for each in client.get("/readyz").json()["degraded"]])
        restored.executemany("INSERT INTO current_papers VALUES (?, ?, ?, ?, ?)", newer)
    assert 202 == client.post("/v1/papers", json=seals).status_code
    soon(lambda: is_there(client, "seals"))
    soon(lambda: not client.get("/readyz").json()["degraded"])


def test_a_lost_catalog_is_not_replaced_by_an_empty_one(data: Path) -> None:
    """A service without its catalog makes none, and takes papers as soon as the catalog is back."""
    away = (data / CATALOG_FILE).rename(data.parent / "away.sqlite3")
    with writing(data) as client:
        soon(lambda: ["writes"] == [each["part"] for each in client.get("/readyz").json()["degraded"]])
        assert 503 == client.post("/v1/papers", json={"papers": [WHALES]}).status_code
        search = {"query": {"paper_id": "p1"}}
        assert 503 == client.post("/v1/queries", json={"name": "mine", "search": search}).status_code
        assert 503 == client.put("/v1/profiles/ada", json={"papers": ["p1"]}).status_code
        assert 503 == client.post("/v1/batches", json={"seeds": ["p1"]}).status_code
        made = CliRunner().invoke(app, ["keys", "create", "me", "--data", str(data)])
        assert "there is no catalog here" in made.output
        assert [] == list(data.glob("catalog*"))
        away.rename(data / CATALOG_FILE)
        soon(lambda: not client.get("/readyz").json()["degraded"])
        assert 202 == client.post("/v1/papers", json={"papers": [WHALES]}).status_code
        soon(lambda: is_there(client, "w/1"))


def test_an_older_catalog_that_lacks_nothing_served_goes_on(client: TestClient, data: Path) -> None:
    """If an older catalog lacks only changes without effect, their numbers are reused and new papers show."""
    ingest = client.app.state.services.collection.ingest  # type: ignore[attr-defined]
    with Catalog.open(data / CATALOG_FILE) as catalog:
        catalog.delete(["nobody"])
    assert ingest.publish_until_shown(2)
    with closing(sqlite3.connect(data / CATALOG_FILE, isolation_level=None)) as restored:
        restored.execute("DELETE FROM current_papers WHERE change > 1")
    client.post("/v1/papers", json={"papers": [WHALES]})
    soon(lambda: is_there(client, "w/1"))


def test_what_is_undone_by_a_rollback_stays_undone(client: TestClient, data: Path) -> None:
    """A running service follows a rollback and does not add again the paper that the rollback removed."""
    client.post("/v1/papers", json={"papers": [WHALES]})
    soon(lambda: is_there(client, "w/1"))
    with Catalog.open(data / CATALOG_FILE) as catalog:
        rollback(data, catalog=catalog)
    soon(lambda: not is_there(client, "w/1"))
    published_changes(client)
    assert (False, "000001") == (is_there(client, "w/1"), client.get("/readyz").json()["generation"])


def test_what_an_older_generation_lacks_is_published_again(client: TestClient, data: Path) -> None:
    """If an older generation is served again and the catalog is not, a running service shows its papers."""
    client.post("/v1/papers", json={"papers": [WHALES]})
    soon(lambda: is_there(client, "w/1"))
    write_pointer(data, "000001")
    soon(lambda: client.get("/readyz").json()["generation"] in {"000001", "000003"})
    published_changes(client)
    assert is_there(client, "w/1")


def test_what_was_acknowledged_shows_after_a_restart(data: Path) -> None:
    """A paper that a service accepted but did not index is indexed by the next service."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        with client_of(data, engine_of(data), keyless="write", device="cpu") as stopped:
            stopped.app.state.services.collection.ingest.publish_pending = lambda: None  # type: ignore[attr-defined]  # as if it were killed
            stopped.app.state.services.collection.publishing.stop()  # type: ignore[attr-defined]
            stopped.post("/v1/papers", json={"papers": [WHALES]})
        assert catalog.count() == N_PAPERS + 1
    assert "000001" == current_generation(data)
    with writing(data) as client:
        soon(lambda: is_there(client, "w/1"))


def test_pages_fit_together_across_swaps(client: TestClient) -> None:
    """Pages read while the collection changes form the same list as it was at the first page."""
    body: dict[str, Any] = {"query": {"paper_id": "p5"}, "limit": 16, "include": []}

    def pages(between: Callable[[int], None]) -> list[str]:
        seen: list[str] = []
        cursor, number = None, 0
        while cursor or not seen:
            page = client.post("/v1/search", json={**body, "cursor": cursor} if cursor else body).json()
            assert "000001" == page["generation"]
            seen += [result["paper"]["id"] for result in page["results"]]
            cursor, number = page["next_cursor"], number + 1
            between(number)
        return seen

    def change(number: int) -> None:
        client.post("/v1/papers", json={"papers": [{**WHALES, "id": f"w{number}"}]})
        client.delete(f"/v1/papers/p{10 + number}")
        soon(lambda: is_there(client, f"w{number}"))

    still = pages(lambda number: None)
    assert (N_PAPERS - 1, N_PAPERS - 1) == (len(still), len(set(still)))
    assert still == pages(change)
    assert client.get("/readyz").json()["generation"] > "000003"


def test_a_cursor_outlives_a_restart_while_its_generation_is_kept(data: Path) -> None:
    """A new process reopens an older generation for its cursor, and answers 410 once it is removed."""
    body: dict[str, Any] = {"query": {"paper_id": "p5"}, "limit": 10}

    def service() -> TestClient:
        return TestClient(
            create_app(Settings(data=data, keyless="write", device="cpu")), raise_server_exceptions=False
        )

    with service() as client:
        cursor = client.post("/v1/search", json=body).json()["next_cursor"]

    def remove(paper_id: str) -> None:
        with Catalog.open(data / CATALOG_FILE) as catalog:
            delete_papers(data, [paper_id], catalog, keep=KEEP)

    remove("p9")
    with service() as client:
        page = client.post("/v1/search", json={**body, "cursor": cursor})
        assert (200, "000001") == (page.status_code, page.json()["generation"])
        assert "000001" == page.headers["x-akin-generation"]
    del client
    gc.collect()  # the services above hold their generation until they are collected
    for number in range(20, 24):
        remove(f"p{number}")
    with service() as client:
        assert 410 == client.post("/v1/search", json={**body, "cursor": cursor}).status_code


def test_an_engine_that_is_not_used_any_more_closes_its_files_at_once(data: Path) -> None:
    """An engine closes its files once nothing refers to it, without the garbage collector."""

    def still_open() -> list[str]:
        descriptors = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [name for name in descriptors if name.startswith(str(data))]

    gc.collect()
    gc.disable()
    try:
        engine = engine_of(data)
        engine.warm_up()
        filters = Filters(year_from=1900, exclude_ids=frozenset({"p9"}))
        assert engine.search(SearchQuery((Seed("p5"),), filters=filters)).results
        assert still_open()
        for thread in threading.enumerate():
            if thread.name == "titles":  # read in the background
                thread.join()
        del engine
        assert [] == still_open()
    finally:
        gc.enable()


def test_swaps_under_load_fail_nothing_and_mix_nothing(client: TestClient, data: Path) -> None:
    """Searches during swaps all succeed, and header, body and results are of one generation."""
    done, failures = threading.Event(), []
    generations: set[str] = set()

    def ask() -> None:
        while not done.is_set():
            body = {"query": {"paper_id": "p5"}, "limit": 100, "include": []}
            answer = client.post("/v1/search", json=body)
            if answer.status_code != 200:
                failures.append(answer.text)
                return
            content = answer.json()
            generation = content["generation"]
            generations.add(generation)
            # Generation i + 1 lacks the papers p40 to p40+i-1.
            gone = {f"p{40 + i}" for i in range(int(generation) - 1)}
            found = {result["paper"]["id"] for result in content["results"]}
            if generation != answer.headers["x-akin-generation"] or gone & found:
                failures.append(generation)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 5):
        # The next generation is published once this one has answered a search.
        soon(lambda: failures != [] or f"{number:06}" in generations)  # noqa: B023 - called at once
        if number < 4:
            with Catalog.open(data / CATALOG_FILE) as catalog:
                delete_papers(data, [f"p{39 + number}"], catalog, keep=KEEP)
    done.set()
    for thread in threads:
        thread.join()
    assert [] == failures
    assert 4 == len(generations)


def test_a_damaged_generation_is_not_served(client: TestClient, data: Path, tmp_path: Path) -> None:
    """If the pointer names damaged files, the older generation stays served until a good one is named."""
    with Catalog.open(data / CATALOG_FILE) as catalog:
        delete_papers(data, ["p1"], catalog, keep=KEEP)
        soon(lambda: not is_there(client, "p1"))
        manifest = data / "snapshots" / "000003" / "manifest.json"
        shutil.copytree(data / "snapshots" / "000002", manifest.parent)
        manifest.write_bytes(manifest.read_bytes().replace(b"000002", b"000003"))
        (data / "CURRENT").write_text("000003\n")
        soon(lambda: client.app.state.services.collection.following.outage.problem is not None)  # type: ignore[attr-defined]
        assert "000002" == client.get("/readyz").json()["generation"]
        assert 200 == client.post("/v1/search", json={"query": {"paper_id": "p5"}}).status_code
        rollback(data, "000002", catalog=catalog)
    soon(lambda: client.app.state.services.collection.following.outage.problem is None)  # type: ignore[attr-defined]


def test_the_client_writes(data: Path) -> None:
    """The Python client adds and deletes papers on a real server."""
    app = create_app(Settings(data=data, keyless="write", device="cpu"), engine_of(data), timings=OFTEN)
    with (
        served(app) as address,
        akin.Client(address) as client,
    ):
        accepted = client.add([{"id": "w/1", "title": "Whales", "abstract": ["Whales sing."], "year": 2020}])
        assert (1, 0) == (accepted.accepted, accepted.unchanged)

        def shows() -> bool:
            try:
                return client.paper("w/1").year == 2020
            except ServiceError:
                return False

        soon(shows)
        client.delete("w/1")
        assert not shows()
