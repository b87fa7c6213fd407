"""The spans of requests and their stages; here there are none, ``tracing`` exports them."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from models.errors import MissingPackageError
from service.degradation import Degradation
from service.timings import USUAL

# What a span is told when its request has been answered.
Tell = Callable[[Mapping[str, str | int]], None]


class Spans:
    """No spans."""

    def request(self, name: str, traceparent: str) -> AbstractContextManager[Tell]:
        """A span for a request, part of the trace that ``traceparent`` (W3C; empty: none) names."""
        return nullcontext(_ignore)

    def stage(self, name: str) -> AbstractContextManager[object]:
        """A span for a stage of the request under way."""
        return nullcontext()

    def degradations(self) -> Iterable[Degradation]:
        """That spans cannot be exported."""
        return ()

    def close(self) -> None:
        """Exports what has not been; takes a few seconds at most."""


def open_spans(otlp_endpoint: str, *, timeout_s: float = USUAL.export_timeout_s) -> Spans:
    """Spans exported to an endpoint; none, and nothing is imported, where it is empty.

    One batch is given up after ``timeout_s`` seconds. Raises MissingPackageError.
    """
    if not otlp_endpoint:
        return Spans()
    try:
        from service.observability.tracing import ExportedSpans  # noqa: PLC0415 - it imports OpenTelemetry
    except ImportError as error:
        raise MissingPackageError(
            "AKIN_OTLP_ENDPOINT is set, and OpenTelemetry is not installed; run "
            '`pip install "akin[telemetry]"`, or unset it.'
        ) from error
    return ExportedSpans(otlp_endpoint, timeout_s=timeout_s)


def _ignore(attributes: Mapping[str, str | int]) -> None:
    """There is no span to be told."""
