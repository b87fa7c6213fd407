"""Tests of /metrics and /readyz, which also answer while the service is overloaded."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from indexer.files.data_folder import CATALOG_FILE
from models.errors import RefusedError, StorageError
from service.access import keys as auth
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.collection.generations import open_engine
from service.degradation import Degradation
from service.observability.metrics import REFUSALS, Metrics
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import Timings
from tests.support.clients import client_of
from tests.support.servers.loopback import served

BY_ID = {"query": {"paper_id": "demo:p03-m07"}, "limit": 1}
PASTED = {"title": "Floods", "abstract": "We study floods. We fit graphs."}
Labels = frozenset[tuple[str, str]]


def values(exposition: str) -> dict[str, dict[Labels, float]]:
    """Return the values by sample name, then by labels."""
    read: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            read.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return read


def value(read: dict[str, dict[Labels, float]], name: str, **labels: str) -> float:
    """Return one value, or 0 if there is none."""
    return read.get(name, {}).get(frozenset(labels.items()), 0.0)


@pytest.fixture(scope="module")
def engine(hashed_data: Path) -> SearchEngine:
    """Return an engine over the demo corpus under the hashing encoder."""
    return open_engine(Settings(data=hashed_data, keyless="write", device="cpu"))


@pytest.fixture
def client(engine: SearchEngine, tmp_path: Path) -> Iterator[TestClient]:
    """Yield a client of a service without keys."""
    with client_of(tmp_path, engine, keyless="write") as client:
        yield client


def test_requests_are_counted_by_route_and_status(client: TestClient) -> None:
    """Requests count under their route's pattern, and all unknown paths or methods under one label each."""
    for paper in ("demo:p03-m07", "a/b", "c"):
        client.get(f"/v1/papers/{paper}")
    for path in ("/x1", "/x2", "/v1/papersx"):
        client.get(path)
    for method in ("PROPFIND", "BREW"):
        client.request(method, "/v1/search")
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    read, count = values(answer.text), "akin_request_duration_seconds_count"
    assert 1 == value(read, count, route="/v1/papers/{paper_id}", method="GET", status="200")
    assert 2 == value(read, count, route="/v1/papers/{paper_id}", method="GET", status="404")
    assert 3 == value(read, count, route="unknown", method="GET", status="404")
    assert 2 == value(read, count, route="/v1/search", method="other", status="405")
    assert 1 == value(read, "akin_requests_in_flight")  # this request
    assert 0 < value(read, "process_resident_memory_bytes")


def test_stages_are_timed(client: TestClient) -> None:
    """A search and recommendations for pasted papers count each of their stages."""
    assert 200 == client.post("/v1/search", json={"query": PASTED}).status_code
    assert 200 == client.post("/v1/recommendations", json={"seeds": [PASTED]}).status_code
    read = values(client.get("/metrics").text)
    counts = {
        stage: value(read, "akin_stage_duration_seconds_count", stage=stage)
        for stage in ("body", "queue", "encode", "candidates", "rerank", "explain")
    }
    assert {"body": 2, "queue": 2, "encode": 2, "candidates": 2, "rerank": 2, "explain": 2} == counts
    assert value(read, "akin_stage_duration_seconds_sum", stage="encode") > 0


def test_what_is_served_is_shown(client: TestClient) -> None:
    """The metrics show the snapshot's generation, papers and sentences."""
    read, ready = values(client.get("/metrics").text), client.get("/readyz").json()
    assert 1 == value(read, "akin_generation_info", generation=ready["generation"])
    assert (ready["papers"], ready["vectors"]) == (value(read, "akin_papers"), value(read, "akin_sentences"))


def test_applications_count_apart(engine: SearchEngine, tmp_path: Path) -> None:
    """Two applications in one process count separately."""
    with (
        client_of(tmp_path, engine, keyless="write") as first,
        client_of(tmp_path, engine, keyless="write") as second,
    ):
        first.get("/nowhere")
        read = [values(client.get("/metrics").text) for client in (first, second)]
    counts = [
        value(each, "akin_request_duration_seconds_count", route="unknown", method="GET", status="404")
        for each in read
    ]
    assert [1, 0] == counts


def test_metrics_need_a_key_and_refusals_are_counted(engine: SearchEngine, tmp_path: Path) -> None:
    """If keys exist, /metrics requires one to read; refusals are counted by reason, starting at 0."""
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        token = keys.create("a", scope=Scope.READ, expires_days=1).token
    with client_of(tmp_path, engine, keyless="write", rate=2) as client:
        assert 401 == client.get("/metrics").status_code
        key = {"x-api-key": token}
        for _ in range(5):
            client.get("/v1/papers/x", headers=key)
        client.post("/v1/papers", json={}, headers=key)
        answers = [client.get("/metrics", headers=key) for _ in range(4)]
        assert {200} == {answer.status_code for answer in answers}
    read = values(answers[-1].text)
    counted = {reason: value(read, "akin_refusals_total", reason=reason) for reason in REFUSALS}
    assert {
        "key-refused": 1, "rate-limited": 3, "scope-missing": 1, "shard-away": 0,
        "overloaded": 0, "keys-unknown": 0, "body-too-large": 0, "deadline": 0, "route-closed": 0,
    } == counted  # fmt: skip
    assert all(f'akin_refusals_total{{reason="{reason}"}}' in answers[-1].text for reason in REFUSALS)


def test_every_refusal_there_is_is_counted() -> None:
    """The counted reasons are exactly the subclasses of ``RefusedError``."""
    names = {cls.__name__.removesuffix("Error") for cls in RefusedError.__subclasses__()}
    assert names == {"".join(part.capitalize() for part in reason.split("-")) for reason in REFUSALS}


def test_metrics_answer_while_nobody_else_is_answered(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the only place is taken and the queue is full, /metrics answers and shows this."""
    gate, search = threading.Event(), SearchEngine.search

    def slow(*given: Any) -> Any:
        gate.wait(60)
        return search(*given)

    monkeypatch.setattr(SearchEngine, "search", slow)
    settings = Settings(data=tmp_path, keyless="write", running=1, queue=1, rate=3)
    with (
        served(create_app(settings, engine)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        asking = [
            threading.Thread(
                target=httpx.post, args=(f"{address}/v1/search",), kwargs={"json": BY_ID, "timeout": 60}
            )
            for _ in range(2)
        ]
        for thread in asking:
            thread.start()
        read: dict[str, dict[Labels, float]] = {}
        while value(read, "akin_requests_waiting") < 1:
            read = values(client.get("/metrics").text)
        read = values(client.get("/metrics").text)  # one scrape reads the values one after the other
        assert (1, 3) == (value(read, "akin_requests_running"), value(read, "akin_requests_in_flight"))
        assert [503, 503] == [client.post("/v1/search", json=BY_ID).status_code for _ in range(2)]
        assert 429 == client.get("/recommendations/v1/papers/forpaper/a").status_code
        read = values(client.get("/metrics").text)
        assert 3 == value(read, "akin_refusals_total", reason="overloaded")
        refused = {"route": "/v1/search", "method": "POST", "status": "503"}
        assert 2 == value(read, "akin_request_duration_seconds_count", **refused)
        path = "/recommendations/v1/papers/forpaper/{paper_id}"
        scholar = {"route": path, "method": "GET", "status": "429"}
        assert 1 == value(read, "akin_request_duration_seconds_count", **scholar)
        gate.set()
        for thread in asking:
            thread.join()
        read = values(client.get("/metrics").text)
        assert (0, 0) == (value(read, "akin_requests_running"), value(read, "akin_requests_waiting"))


def test_a_part_adds_its_numbers_with_a_line_each() -> None:
    """Gauges and counters are read at each scrape, and left out if reading fails."""
    metrics, hits = Metrics(), {("memory", "hit"): 2.0}
    down = False

    def jobs() -> float:
        if down:
            raise StorageError("away")
        return 5

    metrics.counter("akin_cache_lookups", "Answers looked for", lambda: hits, labels=("layer", "outcome"))
    metrics.gauge("akin_jobs", "Jobs that are not done", jobs)
    assert (2, 5) == _cache_and_jobs(metrics)
    hits["memory", "hit"], down = 7.0, True
    assert (7, 0) == _cache_and_jobs(metrics)
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.gauge("akin_jobs", "Taken", jobs)


def _cache_and_jobs(metrics: Metrics) -> tuple[float, float]:
    read = values(metrics.exposition().decode())
    return value(read, "akin_cache_lookups_total", layer="memory", outcome="hit"), value(read, "akin_jobs")


def test_what_is_degraded_is_named(client: TestClient) -> None:
    """While a part reports a degradation, /readyz answers 200 and names it, and /metrics counts it."""
    present = [Degradation("cache", "Answers are not kept.", "Start Redis.")]
    client.app.state.services.degradations.append(lambda: present)  # type: ignore[attr-defined]  # it is a FastAPI
    ready = client.get("/readyz")
    assert 200 == ready.status_code
    assert [{"part": "cache", "detail": "Answers are not kept.", "remedy": "Start Redis."}] == ready.json()[
        "degraded"
    ]
    assert 1 == value(values(client.get("/metrics").text), "akin_degraded", part="cache")
    present.clear()
    assert [] == client.get("/readyz").json()["degraded"]
    assert "akin_degraded" not in [*values(client.get("/metrics").text)]


def test_keys_that_cannot_be_read_are_reported_until_they_can(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the keys cannot be read, /readyz says so; the failure and its end are each logged once."""
    away, read = threading.Event(), auth.KeyRing.read

    def flaky(self: auth.KeyRing) -> None:
        if away.is_set():
            raise StorageError("the database is away")
        read(self)

    monkeypatch.setattr(auth.KeyRing, "read", flaky)
    with (
        capture_logs() as logs,
        client_of(tmp_path, engine, keyless="write", timings=Timings(keys_refresh_s=0.01)) as client,
    ):
        for gone, parts in ((True, ["keys"]), (False, [])):
            (away.set if gone else away.clear)()
            named = None
            while named != parts:
                ready = client.get("/readyz")
                named = [each["part"] for each in ready.json()["degraded"]]
            assert 200 == ready.status_code
    assert ["failed", "works_again"] == [log["event"] for log in logs if log.get("part") == "keys"]


def test_a_process_that_ends_is_not_ready(client: TestClient) -> None:
    """While the process drains, /readyz answers 503 and /livez 200."""
    client.app.state.services.draining = True  # type: ignore[attr-defined]  # it is a FastAPI
    assert [503, 200] == [client.get(path).status_code for path in ("/readyz", "/livez")]
