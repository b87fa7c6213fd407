"""The Prometheus metrics of one application, in its own registry.

A part of the service adds each of its metrics with one line; the value is read at each scrape:

    metrics.gauge("akin_requests_waiting", "Requests in the queue", lambda: admission.waiting)
    metrics.counter("akin_cache_lookups", "Answers looked for", cache.lookups, labels=("layer", "outcome"))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from models.errors import AkinError

# Label values -> number, or only the number for a metric without labels.
MetricValue = float | Mapping[tuple[str, ...], float]
# The problems of requests that were refused or stopped, whatever they requested.
REFUSALS: Final = (
    "key-refused",
    "keys-unknown",
    "scope-missing",
    "route-closed",
    "body-too-large",
    "rate-limited",
    "overloaded",
    "shard-away",
    "deadline",
)
_REQUEST_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STAGE_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_log = structlog.get_logger(__name__)


class Metrics:
    """Histograms, counters and gauges of one application; every label has few values for any requests."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Histogram(
            "akin_request_duration_seconds",
            "From the first byte of a request to the last of its response; status 499: the client "
            "disconnected",
            ("route", "method", "status"),
            buckets=_REQUEST_BUCKETS_S,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "akin_requests_in_flight", "Requests not yet answered in full", registry=self.registry
        )
        self._stages = Histogram(
            "akin_stage_duration_seconds",
            "Time that requests spend in each stage",
            ("stage",),
            buckets=_STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self._refusals = Counter(
            "akin_refusals", "Requests refused or stopped", ("reason",), registry=self.registry
        )
        for reason in REFUSALS:  # starts at 0, so that the first refusal shows as an increase
            self._refusals.labels(reason)
        ProcessCollector(registry=self.registry)

    def stage_ended(self, stage: str, seconds: float) -> None:
        """Count a stage of a request, with its duration."""
        self._stages.labels(stage).observe(seconds)

    def refused(self, problem: str) -> None:
        """Count a request by the ``problem`` in its answer, if that is one of ``REFUSALS``."""
        if problem in REFUSALS:
            self._refusals.labels(problem).inc()

    def gauge(
        self, name: str, meaning: str, read: Callable[[], MetricValue], *, labels: Sequence[str] = ()
    ) -> None:
        """Add a gauge with the value of ``read()`` at each scrape; left out while that raises AkinError."""
        self.registry.register(_Read(GaugeMetricFamily, name, meaning, read, labels))

    def counter(
        self, name: str, meaning: str, read: Callable[[], MetricValue], *, labels: Sequence[str] = ()
    ) -> None:
        """The same as ``gauge``, but for a number that only rises; ``name`` is without ``_total``."""
        self.registry.register(_Read(CounterMetricFamily, name, meaning, read, labels))

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Read(Collector):
    """One metric that is read from its source at each scrape."""

    def __init__(
        self,
        family: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        meaning: str,
        read: Callable[[], MetricValue],
        labels: Sequence[str],
    ) -> None:
        self._family = family
        self._name = name
        self._meaning = meaning
        self._read = read
        self._labels = labels

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the metric without values, so that adding a name that is already used fails at once."""
        yield self._family(self._name, self._meaning, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the metric with its current values."""
        family = self._family(self._name, self._meaning, labels=self._labels)
        try:
            read = self._read()
        except AkinError as error:
            _log.warning("metric_not_read", metric=self._name, error=type(error).__name__)
            return
        values = read if isinstance(read, Mapping) else {(): read}
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family
