"""Tests of a service whose collection gets another encoder: queries use the encoder of their generation."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from fastapi.testclient import TestClient

from indexer.catalog.catalog import Catalog
from indexer.collection.build import build
from indexer.collection.reindex import prepare, publish_prepared
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import CATALOG_FILE, KEEP
from indexer.snapshot.opening import open_snapshot
from models.annotator import load_annotator
from models.errors import SnapshotCorruptError
from service.app import create_app
from service.collection.generations import Engines
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import Timings
from tests.support.builds import many_papers, quiet, write_corpus
from tests.support.examples.models.tiny_bert import write_tiny_bert
from tests.support.servers.patience import soon

N_PAPERS = 20
OFTEN = Timings(follow_every_s=0.05, publish_every_s=0.1)
PASTED = {"title": "Graph transport", "abstract": "We show a result. Encoders of papers, a method."}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the paths of two random BERTs of the same shape, whose vectors look alike."""
    folder = tmp_path_factory.mktemp("models")
    first, second = (write_tiny_bert(folder / f"tiny-{seed}", seed=seed) for seed in (1, 2))
    return str(first), str(second)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, encoders: tuple[str, str]) -> Path:
    """Return a collection built with the first encoder, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build(
        [write_corpus(folder / "c.jsonl", many_papers(N_PAPERS))],
        folder / "data",
        load_annotator(encoders[0], device="cpu"),
        arguments=BuildArguments(encoders[0], device="cpu"),
        on_progress=quiet,
    )
    return folder / "data"


@pytest.fixture
def data(built: Path, tmp_path: Path) -> Path:
    """Return this test's own copy of the collection."""
    return Path(copytree(built, tmp_path / "data"))


def swap(data: Path, encoder: str) -> None:
    """Publish the collection under another encoder, as `akin reindex` does."""
    annotator = load_annotator(encoder, device="cpu")
    with Catalog.open(data / CATALOG_FILE) as catalog:
        done = prepare(
            data,
            annotator,
            catalog,
            arguments=BuildArguments(encoder, device="cpu"),
            on_progress=quiet,
        )
        publish_prepared(data, done, annotator, catalog, keep=KEEP)


@contextmanager
def service(data: Path, **settings: Any) -> Iterator[TestClient]:
    """Yield a client of a service without a cache of answers."""
    given = Settings(data=data, keyless="write", device="cpu", rate=0, cache_mib=0, **settings)
    with TestClient(create_app(given, timings=OFTEN), raise_server_exceptions=False) as client:
        yield client


def ready(client: TestClient) -> dict[str, Any]:
    """Return the content of /readyz."""
    return dict(client.get("/readyz").json())


def found(client: TestClient, body: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the ids and scores that a search finds."""
    answer = client.post("/v1/search", json=body)
    assert 200 == answer.status_code, answer.text
    return [(result["paper"]["id"], round(result["score"], 3)) for result in answer.json()["results"]]


def expected(data: Path, encoder: str) -> list[tuple[str, float]]:
    """Return the results for the pasted paper from a new engine with this encoder."""
    engine = SearchEngine(
        open_snapshot(data), lambda: load_annotator(encoder, device="cpu"), n_candidates=200
    )
    with TestClient(create_app(Settings(data=data, keyless="write", device="cpu"), engine)) as client:
        return found(client, {"query": PASTED, "limit": 10})


def test_pasted_papers_are_read_by_the_encoder_of_what_answers(data: Path, encoders: tuple[str, str]) -> None:
    """A running service loads the new encoder; cursors of the old generation still use the old encoder."""
    body = {"query": PASTED, "limit": 10}
    with service(data) as client:
        first = found(client, body)
        assert first == expected(data, encoders[0])
        cursor = client.post("/v1/search", json=body).json()["next_cursor"]
        second_page = found(client, {**body, "cursor": cursor})
        swap(data, encoders[1])
        soon(lambda: ready(client)["generation"] == "000002")
        assert encoders[1] == ready(client)["encoder"]
        after = found(client, body)
        assert after == expected(data, encoders[1])
        assert first != after
        assert second_page == found(client, {**body, "cursor": cursor})
        page = client.post("/v1/search", json={**body, "cursor": cursor})
        assert ("000001", "000001") == (page.json()["generation"], page.headers["x-akin-generation"])
        client.post("/v1/papers", json={"papers": [{"id": "new", "title": "New", "abstract": "A new one."}]})
        soon(lambda: client.get("/v1/papers/new").status_code == 200)
        assert encoders[1] == open_snapshot(data).manifest.encoder.name
        soon(lambda: ready(client)["degraded"] == [])


def test_a_service_set_to_another_encoder_keeps_the_old_generation(
    data: Path, encoders: tuple[str, str]
) -> None:
    """If AKIN_ENCODER names the old encoder, the old generation keeps answering and /readyz says why."""
    with service(data, encoder=encoders[0]) as client:
        first = found(client, {"query": PASTED, "limit": 10})
        swap(data, encoders[1])
        soon(lambda: ready(client)["degraded"] != [])
        (degraded,) = ready(client)["degraded"]
        assert ("swap", "000001") == (degraded["part"], ready(client)["generation"])
        assert "AKIN_ENCODER" in degraded["detail"]
        assert first == found(client, {"query": PASTED, "limit": 10})
        client.post("/v1/papers", json={"papers": [{"id": "new", "title": "New", "abstract": "A new one."}]})
        soon(lambda: len(ready(client)["degraded"]) == 2)
        remedies = {each["part"]: each["remedy"] for each in ready(client)["degraded"]}
        assert "unset AKIN_ENCODER" in remedies["writes"]
        assert "akin_failed_swaps_total 1.0" in client.get("/metrics").text
        assert "akin_pending_changes 1.0" in client.get("/metrics").text
        swap(data, encoders[0])
        soon(lambda: ready(client)["degraded"] == [])
        assert 200 == client.get("/v1/papers/new").status_code


def test_an_older_generation_is_opened_once_for_all_cursors(data: Path, encoders: tuple[str, str]) -> None:
    """Threads with cursors of one older generation wait for one opening."""
    opened: list[str | None] = []
    n_threads = 4
    older = SearchEngine(open_snapshot(data), lambda: load_annotator(encoders[0]), n_candidates=200)

    def reopen(generation: str | None, beside: SearchEngine) -> SearchEngine:
        opened.append(generation)
        soon(lambda: engines._reopening.n_joined == n_threads - 1)
        return older

    swap(data, encoders[1])
    newer = SearchEngine(open_snapshot(data), lambda: load_annotator(encoders[1]), n_candidates=200)
    engines = Engines(newer, data, reopen=reopen)
    with ThreadPoolExecutor(n_threads) as threads:
        found = list(threads.map(engines.at, [older.digest] * n_threads))
    assert [older] * n_threads == found
    assert [older.snapshot.generation] == opened


def test_what_could_not_be_served_is_not_opened_again_and_again(
    data: Path, encoders: tuple[str, str]
) -> None:
    """Opening a generation reads all of it, so after a failure the service waits before it tries again."""
    now, opened = [0.0], []

    def reopen(generation: str | None, beside: SearchEngine) -> SearchEngine:
        opened.append(generation)
        raise SnapshotCorruptError("a file is damaged")

    first = SearchEngine(open_snapshot(data), lambda: load_annotator(encoders[0]), n_candidates=200)
    engines = Engines(first, data, reopen=reopen, clock=lambda: now[0], retry_s=30.0)
    swap(data, encoders[1])
    for now[0], n_opened in ((0.0, 1), (29.0, 1), (30.0, 2), (59.0, 2)):
        with pytest.raises(SnapshotCorruptError, match="damaged"):
            engines.follow()
        assert (n_opened, 1, first) == (len(opened), engines.n_failed_swaps, engines.current)
