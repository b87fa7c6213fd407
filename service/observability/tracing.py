"""Spans of requests and stages, without users' texts, exported over OTLP/HTTP.

Elsewhere OpenTelemetry's own tracer that makes none stands in, and only its interface is imported.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, cast

from opentelemetry.trace import NoOpTracer, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from models.extras import needed
from service.degradation import Degradation, Outage
from service.timings import USUAL

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

LOST: Final = Degradation(
    "traces",
    "Traces are lost: the OpenTelemetry endpoint does not accept them.",
    "Start the collector, or set AKIN_OTLP_ENDPOINT to its base URL.",
)
# What OpenTelemetry's conventions call what is told; everything else is ours.
_ATTRIBUTES: Final = {
    "route": "http.route",
    "method": "http.request.method",
    "status": "http.response.status_code",
    "error": "error.type",
}


class Spans:
    """The spans of one application: made and sent by ``exporter``, and none without it."""

    def __init__(self, exporter: "Exporter | None" = None) -> None:
        self._exporter = exporter
        self._tracer: Tracer = NoOpTracer() if exporter is None else exporter.tracer
        self._propagator = TraceContextTextMapPropagator()

    def degradations(self) -> list[Degradation]:
        """That the endpoint takes no spans."""
        return [] if self._exporter is None else self._exporter.outage.degradations()

    def close(self) -> None:
        """Exports what has not been; takes a few seconds at most."""
        if self._exporter is not None:
            self._exporter.close()

    def request(self, name: str, traceparent: str) -> AbstractContextManager[Span]:
        """A span for a request, part of the trace that ``traceparent`` (W3C; empty: none) names."""
        # Without tracestate and baggage: these are a client's own words.
        parent = self._propagator.extract({"traceparent": traceparent})
        # An error's message may hold a text: it is not recorded.
        return self._tracer.start_as_current_span(
            name, parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        )

    def stage(self, name: str) -> AbstractContextManager[object]:
        """A span for a stage of the request under way."""
        return self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False)


def describe(span: Span, attributes: Mapping[str, str | int]) -> None:
    """Tells the span of a request how that was answered."""
    span.set_attributes({_ATTRIBUTES.get(key, f"akin.{key}"): it for key, it in attributes.items()})
    if int(attributes["status"]) >= 500:
        span.set_status(StatusCode.ERROR)


def open_spans(otlp_endpoint: str, *, timeout_s: float = USUAL.export_timeout_s) -> Spans:
    """Spans exported to an endpoint, the base of its URL, as in ``http://127.0.0.1:4318``; none without.

    One batch is given up after ``timeout_s`` seconds. Raises MissingPackageError.
    """
    if not otlp_endpoint:
        return Spans()
    with needed("AKIN_OTLP_ENDPOINT", extra="telemetry"):
        return Spans(Exporter(f"{otlp_endpoint.rstrip('/')}/v1/traces", timeout_s))


class Exporter:
    """Sends the spans of ``tracer`` in batches, from a thread of its own.

    While the endpoint is away they are lost. It has the methods of OpenTelemetry's SpanExporter, but is none:
    what exports is imported here alone.
    """

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult  # noqa: PLC0415

        # They log each batch that is lost, some with a traceback; the outage says it once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self.outage = Outage(LOST)
        self.closing = False
        self._success, self._failure = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s)
        self._processor = BatchSpanProcessor(cast("SpanExporter", self))
        resource = Resource.create({"service.name": "akin", "service.version": version("akin")})
        # Its own: the one that the process shares belongs to whoever embeds the application.
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self.tracer = provider.get_tracer("akin")

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        """Sends a batch; at the end not after one has failed."""
        if self.closing and self.outage.problem is not None:
            return self._failure
        result = self._exporter.export(spans)
        if result is self._success:
            self.outage.end()
        else:
            self.outage.begin("the endpoint did not accept a batch of spans")
        return result

    def close(self) -> None:
        """Exports what has not been, unless the endpoint does not take it."""
        self.closing = True
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # theirs

    def shutdown(self) -> None:
        """Closes the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True
