"""Spans exported by OpenTelemetry over OTLP/HTTP, without users' texts; imported only where that is set."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from typing import Final

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, StatusCode, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.degradation import Degradation
from service.observability.spans import Spans, Tell
from service.timings import USUAL

# What OpenTelemetry's conventions call what is told; everything else is ours.
_ATTRIBUTES: Final = {
    "route": "http.route",
    "method": "http.request.method",
    "status": "http.response.status_code",
    "error": "error.type",
}
_log = structlog.get_logger(__name__)


class ExportedSpans(Spans):
    """Spans in batches, sent from a thread of their own; while the endpoint is away they are lost.

    ``endpoint`` is the base of its URL, as in ``http://127.0.0.1:4318``; ``timeout_s`` is for one batch.
    """

    def __init__(self, endpoint: str, *, timeout_s: float = USUAL.export_timeout_s) -> None:
        # They log each batch that is lost, some with a traceback; ``_Exporter`` says it once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = _Exporter(f"{endpoint.rstrip('/')}/v1/traces", timeout_s)
        resource = Resource.create({"service.name": "akin", "service.version": version("akin")})
        # Its own: the one that the process shares belongs to whoever embeds the application.
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(self._exporter)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("akin")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, name: str, traceparent: str) -> Iterator[Tell]:
        """A span for a request, open until the context ends."""
        # Without tracestate and baggage: these are a client's own words.
        parent = self._propagator.extract({"traceparent": traceparent})
        span = self._tracer.start_span(name, parent, kind=SpanKind.SERVER)

        def tell(attributes: Mapping[str, str | int]) -> None:
            span.set_attributes({_ATTRIBUTES.get(key, f"akin.{key}"): it for key, it in attributes.items()})
            if int(attributes["status"]) >= 500:
                span.set_status(StatusCode.ERROR)

        with _current(span):
            yield tell

    def stage(self, name: str) -> AbstractContextManager[object]:
        """A span within that of the request."""
        return _current(self._tracer.start_span(name))

    def degradations(self) -> Iterable[Degradation]:
        """That the endpoint takes no spans."""
        if self._exporter.failing:
            yield Degradation(
                "traces",
                "Traces are lost: the OpenTelemetry endpoint does not take them.",
                "Start the collector, or set AKIN_OTLP_ENDPOINT to the base of its address.",
            )

    def close(self) -> None:
        """Exports what has not been, unless the endpoint does not take it."""
        self._exporter.closing = True
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # theirs


def _current(span: Span) -> AbstractContextManager[Span]:
    """Makes it the parent of spans to come. An error's message may hold a text: it is not recorded."""
    return use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False)


class _Exporter(SpanExporter):
    """Exports over HTTP; says once when that begins to fail and once when it works again."""

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=timeout_s)
        self.failing = False
        self.closing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Sends a batch; at the end not after one has failed."""
        if self.closing and self.failing:
            return SpanExportResult.FAILURE
        result = self._exporter.export(spans)
        if self.failing != (result is not SpanExportResult.SUCCESS):
            self.failing = not self.failing
            (_log.warning if self.failing else _log.info)(
                "traces_not_exported" if self.failing else "traces_exported_again"
            )
        return result

    def shutdown(self) -> None:
        """Closes the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True
