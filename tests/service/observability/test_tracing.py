"""Tests of traces, which are exported over OTLP without users' texts and never delay requests."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from models.errors import MissingPackageError
from service.app import create_app
from service.collection.generations import open_engine
from service.observability.logging import configure_logging
from service.observability.tracing import Exporter
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import DEFAULTS, Timings
from tests.support.servers.patience import soon

MARK = "zqSecretqz"
PASTED = {"query": {"title": f"On {MARK}", "abstract": f"We study {MARK}. We fit graphs."}}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """A receiver of spans on the loopback interface."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, content))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def spans(self) -> list[Any]:
        """Return the received spans in the order in which they ended."""
        read = [ExportTraceServiceRequest.FromString(content) for _, content in self.requests]
        return [
            s
            for r in read
            for resource in r.resource_spans
            for scope in resource.scope_spans
            for s in scope.spans
        ]

    def stop(self) -> None:
        """Stop the receiver."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Yield a receiver of spans."""
    collector = Collector()
    yield collector
    collector.stop()


@pytest.fixture(scope="module")
def engine(hashed_data: Path) -> SearchEngine:
    """Return an engine over the demo corpus under the hashing encoder."""
    return open_engine(Settings(data=hashed_data, device="cpu"))


@contextmanager
def traced(
    engine: SearchEngine, data: Path, endpoint: str, timings: Timings = DEFAULTS
) -> Iterator[TestClient]:
    """Yield a client of a service that exports to an endpoint."""
    settings = Settings(data=data, otlp_endpoint=endpoint)
    with TestClient(create_app(settings, engine, timings=timings)) as client:
        yield client


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a span by name."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_a_request_and_its_stages_are_one_trace(
    engine: SearchEngine, tmp_path: Path, collector: Collector
) -> None:
    """The request's span continues the caller's trace and is the parent of the spans of its stages."""
    with traced(engine, tmp_path, collector.endpoint) as client:
        answer = client.post("/v1/search", json=PASTED, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    assert {"/v1/traces"} == {path for path, _ in collector.requests}
    *stages, request = collector.spans()
    assert ["body", "queue", "encode", "candidates", "rerank", "explain"] == [span.name for span in stages]
    assert {(TRACE, request.span_id)} == {(span.trace_id.hex(), span.parent_span_id) for span in stages}
    assert ("POST /v1/search", TRACE, PARENT) == (
        request.name, request.trace_id.hex(), request.parent_span_id.hex(),
    )  # fmt: skip
    assert {
        "http.route": "/v1/search",
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "akin.request_id": answer.headers["X-Request-ID"],
    } == attributes(request)


def test_a_trace_says_nothing_of_the_query(
    engine: SearchEngine, tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text, id, header or error message is exported, and a failed request is marked as an error."""
    with traced(engine, tmp_path, collector.endpoint) as client:
        spoken = dict.fromkeys(("tracestate", "baggage", "X-Request-ID", "User-Agent"), MARK)
        spoken |= {"tracestate": f"{MARK.lower()}=1", "traceparent": f"00-{TRACE}-{PARENT}-01"}
        client.post("/v1/search", json=PASTED, headers=spoken)
        client.get(f"/v1/papers/{MARK}?{MARK}={MARK}")
        client.get(f"/{MARK}")

        def quoting(*_: object, **__: object) -> None:
            raise ValueError(MARK)

        monkeypatch.setattr("models.transport.best.score_papers", quoting)  # within a stage
        # A cached answer would not be computed, so the limit differs.
        assert 500 == client.post("/v1/search", json={**PASTED, "limit": 3}).status_code
    assert all(MARK.lower().encode() not in content.lower() for _, content in collector.requests)
    failed = next(s for s in collector.spans() if attributes(s).get("http.response.status_code") == 500)
    assert ("internal", 2, 0) == (attributes(failed)["error.type"], failed.status.code, len(failed.events))


def test_an_endpoint_that_is_away_is_in_nobodys_way(
    engine: SearchEngine,
    tmp_path: Path,
    log_left_alone: None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the endpoint is down requests are answered, /readyz says so, and the log has one line."""
    configure_logging("info")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with traced(engine, tmp_path, "http://127.0.0.1:9", Timings(export_timeout_s=0.3)) as client:

        def degraded() -> list[str]:
            assert 200 == client.post("/v1/search", json=PASTED).status_code
            return [each["part"] for each in client.get("/readyz").json()["degraded"]]

        soon(lambda: degraded() == ["traces"])
        for _ in range(30):  # more batches are lost
            degraded()
    logged = capfd.readouterr().err
    lines = [json.loads(line) for line in logged.splitlines()]
    assert ["traces"] == [line["part"] for line in lines if line["event"] != "request"]


def test_a_request_does_not_wait_for_its_export(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are answered while an endpoint holds the first batch."""
    taken, released = threading.Event(), threading.Event()

    def held(*_: object) -> SpanExportResult:
        taken.set()
        released.wait(60)
        return SpanExportResult.SUCCESS

    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setattr("opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter.export", held)
    with traced(engine, tmp_path, "http://127.0.0.1:9") as client:
        for _ in range(3):
            assert 200 == client.post("/v1/search", json=PASTED).status_code
            assert taken.wait(60)
        assert not released.is_set()
        released.set()


def test_the_end_tries_no_endpoint_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remaining spans are exported at the end, unless the last export failed."""
    tried: list[object] = []

    def failing(*given: object) -> SpanExportResult:
        tried.append(given)
        return SpanExportResult.FAILURE

    monkeypatch.setattr(
        "opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter.export", failing
    )
    exporter = Exporter("http://127.0.0.1:9", timeout_s=1.0)
    exporter.close()
    for _ in range(3):
        assert SpanExportResult.FAILURE is exporter.export([])
    assert 1 == len(tried)


@pytest.mark.system
def test_without_an_endpoint_nothing_is_imported() -> None:
    """An application that exports nothing imports neither the exporter nor OpenTelemetry's SDK."""
    script = (
        "import sys; from service.app import create_app; from service.settings import Settings; "
        "create_app(Settings(otlp_endpoint='')); "
        "sys.exit(any(name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter')) "
        "for name in sys.modules))"
    )
    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an endpoint but without OpenTelemetry, the error has the install command."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingPackageError, match=r'pip install "akin\[telemetry\]=='):
        create_app(Settings(otlp_endpoint="http://127.0.0.1:4318"))


def test_the_frameworks_own_spans_are_off(
    engine: SearchEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a program that embeds the application traces, its spans get no paths or queries."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with TestClient(create_app(Settings(data=tmp_path), engine)) as client:
        client.get(f"/v1/papers?title={MARK}")
    assert () == exporter.get_finished_spans()
