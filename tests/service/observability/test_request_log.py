"""Tests of the request log: one line per request with its id, and none of its content."""

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from fastapi.testclient import TestClient

from indexer.files.data_folder import CATALOG_FILE
from models.errors import EncoderError
from service.access.api_keys import Keys, Scope
from service.app import create_app
from service.collection.generations import open_engine
from service.context import check_deadline
from service.observability.logging import configure_logging
from service.search.engine import SearchEngine
from service.settings import Settings
from tests.support.servers.loopback import served

MARK = "zqSecretqz"
PASTED = {"title": f"On {MARK}", "abstract": f"We study {MARK}. We fit {MARK} graphs."}
BY_ID = {"query": {"paper_id": "demo:p03-m07"}, "limit": 1}


@pytest.fixture(autouse=True)
def _logging(log_left_alone: None) -> None:
    """Log everything from debug level to stderr, as in a service."""
    configure_logging("debug")


def lines(capsys: pytest.CaptureFixture[str], event: str = "request") -> list[dict[str, Any]]:
    """Return the lines of an event that were logged since the last call."""
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [line for line in logged if line["event"] == event]


@pytest.fixture
def engine(hashed_data: Path) -> SearchEngine:
    """Return an engine over the demo corpus under the hashing encoder."""
    return open_engine(Settings(data=hashed_data, device="cpu"))


def test_a_line_tells_how_a_request_went(
    engine: SearchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line has route, method, status, durations, key, generation, error type, and the id in the answer."""
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        key = keys.create("a", scope=Scope.READ, expires_days=1)
    with TestClient(create_app(Settings(data=tmp_path), engine), headers={"x-api-key": key.token}) as client:
        good = client.post("/v1/search", json=BY_ID)
        bad = client.get("/v1/papers/not-there")
        unknown = client.get("/nowhere/at/all", headers={"x-api-key": ""})
        client.delete("/v1/papers/not-there")
    found, missing, refused, lacking = lines(capsys)
    assert (403, "scope-missing", key.key.id) == (lacking["status"], lacking["error"], lacking["key"])
    assert good.headers["X-Request-ID"] == found.pop("request_id")
    assert found.pop("duration_ms") > found.pop("queue_ms") >= 0
    assert {"timestamp": found["timestamp"], "event": "request", "level": "info"} | {
        "route": "/v1/search", "method": "POST", "status": 200, "generation": "000001",
        "key": key.key.id,
    } == found  # fmt: skip
    assert (bad.json()["request_id"], "/v1/papers/{paper_id}", 404, "paper-not-found") == tuple(
        missing[name] for name in ("request_id", "route", "status", "error")
    )
    assert (unknown.json()["request_id"], "unknown", 401, "key-refused") == tuple(
        refused[name] for name in ("request_id", "route", "status", "error")
    )
    assert "key" not in refused


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0af7651916cd43dd8448eb211c80319c", True),
        ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", True),
        ("abc", False),
        ("a" * 65, False),
        (f"{MARK}-0af7651916cd43dd", False),
        ("0af7651916cd43dd 8448eb211c80319c", False),
        ("0AF7651916CD43DD8448EB211C80319C", False),
    ],
)
def test_an_id_that_a_proxy_gave_is_kept_if_it_is_one(
    engine: SearchEngine, tmp_path: Path, given: str, kept: bool
) -> None:
    """UUIDs and hexadecimal request ids are kept; any other id is replaced."""
    with TestClient(create_app(Settings(data=tmp_path), engine)) as client:
        answered = client.get("/v1/papers/x", headers={"X-Request-ID": given})
    assert kept == (given == answered.headers["X-Request-ID"] == answered.json()["request_id"])


def test_all_lines_under_a_request_carry_its_id(
    engine: SearchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines logged in an endpoint's thread carry the id of their request."""
    search = SearchEngine.search

    def talking(*given: Any) -> Any:
        structlog.get_logger().info("working", thread=threading.current_thread().name)
        return search(*given)

    monkeypatch.setattr(SearchEngine, "search", talking)
    with TestClient(create_app(Settings(data=tmp_path, cache_mib=0), engine)) as client:
        ids = [client.post("/v1/search", json=BY_ID).headers["X-Request-ID"] for _ in range(2)]
    said = lines(capsys, "working")
    assert ids == [line["request_id"] for line in said]
    assert all("AnyIO worker" in line["thread"] for line in said)


def test_probes_are_logged_for_debugging_alone(
    engine: SearchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests for health and metrics are logged at debug level only."""
    with TestClient(create_app(Settings(data=tmp_path), engine)) as client:
        for path in ("/livez", "/readyz", "/metrics"):
            client.get(path)
    assert ["debug"] * 3 == [line["level"] for line in lines(capsys)]


def battery(client: Any) -> list[int]:
    """Return the statuses of requests that have MARK in every place that takes text."""
    json_type = {"Content-Type": "application/json"}
    spoken = dict.fromkeys(("User-Agent", "Referer", "X-Request-ID", "traceparent", "tracestate"), MARK)
    answers = [
        client.post("/v1/search", json={"query": PASTED}, headers=spoken),
        client.post("/v1/search", json={"query": {"text": f"We fit {MARK}."}}, headers={"Origin": MARK}),
        client.post("/v1/search", json={"query": {"paper_id": MARK}}),
        client.post("/v1/search", json={**BY_ID, "cursor": MARK}),
        client.post("/v1/search", json={**BY_ID, "cursor": f"{MARK}.{MARK}"}),
        client.post("/v1/search", json={**BY_ID, MARK: MARK}),
        client.post("/v1/search", json={**BY_ID, "filters": {"venues": [MARK], "year_from": MARK}}),
        client.post("/v1/search", content=f'{{"query": {MARK}', headers=json_type),
        client.post("/v1/search", content=MARK, headers={"Content-Type": MARK}),
        client.post("/v1/search", content=MARK, headers={**json_type, "Content-Encoding": MARK}),
        client.post("/v1/recommendations", json={"seeds": [PASTED, {"paper_id": MARK}]}),
        client.post("/v1/sentences/search", json={"query": {"text": MARK}}),
        client.post("/v1/analyze", json=PASTED),
        client.post("/graph/v1/paper/batch", json={"ids": [MARK, f"DOI:10.1/{MARK}"]}),
        client.get(f"/v1/papers/{MARK}", headers={"Accept": MARK}),
        client.get("/v1/papers", params={"title": MARK, MARK: MARK}),
        client.get(f"/{MARK}/{MARK}", params={MARK: MARK}),
        client.request("PROPFIND", "/v1/search"),
    ]
    refused = {"Authorization": f"Bearer {MARK}"}, {"x-api-key": f"ak_{MARK}"}
    answers += [client.post("/v1/search", json={"query": PASTED}, headers=key) for key in refused]
    return [answer.status_code for answer in answers]


def test_queries_are_never_logged(
    engine: SearchEngine, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text, title, id, cursor, header, key or path is logged, even if an error quotes it."""
    with Keys.open(tmp_path / CATALOG_FILE) as keys:
        token = keys.create("a", scope=Scope.READ, expires_days=1).token
    app = create_app(Settings(data=tmp_path, cache_mib=0), engine)  # no cache: the same query is sent again
    with (
        served(app, own_log=True) as url,
        httpx.Client(base_url=url, headers={"x-api-key": token}, timeout=30) as client,
    ):
        statuses = battery(client)

        def quoting(*_: object) -> None:
            try:
                int(f"{MARK} {token}")
            except ValueError as error:
                raise KeyError(MARK) from error

        monkeypatch.setattr(SearchEngine, "search", quoting)
        statuses.append(client.post("/v1/search", json={"query": PASTED}).status_code)

        def unreadable(*_: object) -> None:
            raise EncoderError(MARK)

        monkeypatch.setattr(SearchEngine, "search", unreadable)
        statuses.append(client.post("/v1/search", json={"query": PASTED}).status_code)
    logged = "".join(capfd.readouterr())
    assert {200, 401, 404, 415, 422, 500, 503} <= set(statuses)
    assert len(statuses) == logged.count('"event": "request"')
    assert 2 == logged.count('"event": "unexpected_error"')
    assert "KeyError" in logged
    assert MARK not in logged
    assert token not in logged


def test_a_client_that_goes_with_its_answer_got_it(
    engine: SearchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that hangs up after the 413 for its large body is logged with 413, not as gone."""
    with served(create_app(Settings(data=tmp_path), engine), own_log=True) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            head = "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n"
            connection.sendall(head.encode())
            received = b""
            while not received.endswith(b"}"):
                received += connection.recv(4096)
        assert received.startswith(b"HTTP/1.1 413")
    (line,) = lines(capsys)
    assert (413, "body-too-large") == (line["status"], line["error"])


def test_work_stops_when_the_client_hangs_up(
    engine: SearchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search stops soon after its client hangs up, and its line says that the client is gone."""
    working, stopped = threading.Event(), threading.Event()

    def endless(*_: object) -> None:
        working.set()
        try:
            while True:
                check_deadline()
                time.sleep(0.001)
        finally:
            stopped.set()

    monkeypatch.setattr(SearchEngine, "search", endless)
    settings = Settings(data=tmp_path, deadline_ms=3_600_000)  # the usual deadline would stop it too
    with served(create_app(settings, engine), own_log=True) as url:
        content = json.dumps(BY_ID).encode()
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            head = "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            assert working.wait(60)
        assert stopped.wait(60)
    (line,) = lines(capsys)
    assert (499, "client-gone") == (line["status"], line["error"])


def test_refusals_of_an_overload_are_logged_together(
    engine: SearchEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Overload refusals share one line a second, and each answer is a complete problem with CORS headers."""
    settings = Settings(data=tmp_path, device="cpu", running=1, queue=0, cors_origins="https://a.example")
    body = {"query": {"paper_id": "demo:p03-m07"}, "limit": 1}
    gate, begun, search = threading.Event(), threading.Event(), SearchEngine.search

    def slow(*given: Any) -> Any:
        begun.set()
        gate.wait(60)
        return search(*given)

    with pytest.MonkeyPatch.context() as patched, TestClient(create_app(settings, engine)) as client:
        patched.setattr(SearchEngine, "search", slow)
        asking = threading.Thread(target=client.post, args=("/v1/search",), kwargs={"json": body})
        asking.start()
        assert begun.wait(60)
        refused = [
            client.post("/v1/search", json=body, headers={"Origin": "https://a.example"}) for _ in range(5)
        ]
        gate.set()
        asking.join(20)
    for answer in refused:
        assert (503, "urn:akin:problem:overloaded") == (answer.status_code, answer.json()["type"])
        assert answer.json()["request_id"] == answer.headers["X-Request-ID"]
        assert int(answer.headers["Retry-After"]) >= 1
        assert {"000001", "nosniff", "https://a.example"} <= set(answer.headers.values())
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [1] == [line["refused"] for line in logged if line["event"] == "overloaded"]
    assert 1 == sum(line["event"] == "request" for line in logged)
