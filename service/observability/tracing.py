"""Spans of requests and stages, without users' texts, exported over OTLP/HTTP.

Without an endpoint, OpenTelemetry's no-op tracer is used, and only the OpenTelemetry API is imported.
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
from service.timings import DEFAULTS

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

SPANS_LOST: Final = Degradation(
    "traces",
    "Traces are lost: the OpenTelemetry endpoint does not accept them.",
    "Start the collector, or set AKIN_OTLP_ENDPOINT to its base URL.",
)
# The attribute names of OpenTelemetry's conventions; all other attributes are named ``akin.*``.
_ATTRIBUTES: Final = {
    "route": "http.route",
    "method": "http.request.method",
    "status": "http.response.status_code",
    "error": "error.type",
}


class Spans:
    """The spans of one application, created and sent by ``exporter``; no spans without it."""

    def __init__(self, exporter: "Exporter | None" = None) -> None:
        self._exporter = exporter
        self._tracer: Tracer = NoOpTracer() if exporter is None else exporter.tracer
        self._propagator = TraceContextTextMapPropagator()

    def degradations(self) -> list[Degradation]:
        """Return the degradation while the endpoint does not accept spans."""
        return [] if self._exporter is None else self._exporter.outage.degradations()

    def close(self) -> None:
        """Export the remaining spans; takes a few seconds at most."""
        if self._exporter is not None:
            self._exporter.close()

    def request(self, name: str, traceparent: str) -> AbstractContextManager[Span]:
        """Return a span for a request, part of the trace named by ``traceparent`` (W3C; empty: none)."""
        # Without tracestate and baggage, which contain text of the client.
        parent = self._propagator.extract({"traceparent": traceparent})
        # An error's message may contain a user's text, so it is not recorded.
        return self._tracer.start_as_current_span(
            name, parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        )

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Return a span for a stage of the current request."""
        return self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False)


def describe(span: Span, attributes: Mapping[str, str | int]) -> None:
    """Set the ``attributes`` of a request's span; a status of 500 or more marks it as an error."""
    span.set_attributes({_ATTRIBUTES.get(key, f"akin.{key}"): it for key, it in attributes.items()})
    if int(attributes["status"]) >= 500:
        span.set_status(StatusCode.ERROR)


def open_spans(otlp_endpoint: str, *, timeout_s: float = DEFAULTS.export_timeout_s) -> Spans:
    """Return spans exported to an endpoint, given by its base URL such as ``http://127.0.0.1:4318``.

    Without an endpoint there are no spans. A batch is dropped after ``timeout_s`` seconds. Raises
    MissingPackageError.
    """
    if not otlp_endpoint:
        return Spans()
    with needed("AKIN_OTLP_ENDPOINT", extra="telemetry"):
        return Spans(Exporter(f"{otlp_endpoint.rstrip('/')}/v1/traces", timeout_s))


class Exporter:
    """Sends the spans of ``tracer`` in batches, from a separate thread.

    While the endpoint is away, spans are lost. The class has the methods of OpenTelemetry's SpanExporter
    without inheriting from it, so that the exporting packages are only imported in ``__init__``.
    """

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult  # noqa: PLC0415

        # OpenTelemetry logs each lost batch, some with a traceback; the outage logs it once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self.outage = Outage(SPANS_LOST)
        self.closing = False
        self._success, self._failure = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s)
        self._processor = BatchSpanProcessor(cast("SpanExporter", self))
        resource = Resource.create({"service.name": "akin", "service.version": version("akin")})
        # Not the global provider of the process, which belongs to the program that embeds the application.
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self.tracer = provider.get_tracer("akin")

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        """Send a batch; while closing, send nothing more once a batch has failed."""
        if self.closing and self.outage.problem is not None:
            return self._failure
        result = self._exporter.export(spans)
        if result is self._success:
            self.outage.end()
        else:
            self.outage.begin("the endpoint did not accept a batch of spans")
        return result

    def close(self) -> None:
        """Export the remaining spans, unless the endpoint does not accept them."""
        self.closing = True
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # theirs

    def shutdown(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return true: this exporter buffers nothing."""
        return True
