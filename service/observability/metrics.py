"""The Prometheus metrics of one application, in its own registry.

A part with numbers of its own adds each with one line, read at each scrape:

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

# Label values -> number; or the number alone, of what has no labels.
Reading = float | Mapping[tuple[str, ...], float]
# The problems that stand for a request that was turned away or given up, whatever it asked for.
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
    """Histograms, counters and gauges of one application; every label has few values, whatever is sent."""

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
        for reason in REFUSALS:  # from 0, so that the first is seen as an increase
            self._refusals.labels(reason)
        ProcessCollector(registry=self.registry)

    def stage_ended(self, stage: str, seconds: float) -> None:
        """Counts a stage of a request."""
        self._stages.labels(stage).observe(seconds)

    def refused(self, problem: str) -> None:
        """Counts a request under the problem it was answered with, if that is one of ``REFUSALS``."""
        if problem in REFUSALS:
            self._refusals.labels(problem).inc()

    def gauge(
        self, name: str, meaning: str, read: Callable[[], Reading], *, labels: Sequence[str] = ()
    ) -> None:
        """Shows what ``read`` returns at each scrape, left out while it raises an AkinError."""
        self.registry.register(_Read(GaugeMetricFamily, name, meaning, read, labels))

    def counter(
        self, name: str, meaning: str, read: Callable[[], Reading], *, labels: Sequence[str] = ()
    ) -> None:
        """The same for a number that only rises; ``name`` is without ``_total``."""
        self.registry.register(_Read(CounterMetricFamily, name, meaning, read, labels))

    def exposition(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)


class _Read(Collector):
    """One metric that is read from its source at each scrape."""

    def __init__(
        self,
        family: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        meaning: str,
        read: Callable[[], Reading],
        labels: Sequence[str],
    ) -> None:
        self._family = family
        self._name = name
        self._meaning = meaning
        self._read = read
        self._labels = labels

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The metric without its values: a name that is taken is refused when it is added."""
        yield self._family(self._name, self._meaning, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The metric with its values of now."""
        family = self._family(self._name, self._meaning, labels=self._labels)
        try:
            reading = self._read()
        except AkinError as error:
            _log.warning("metric_not_read", metric=self._name, error=type(error).__name__)
            return
        values = reading if isinstance(reading, Mapping) else {(): reading}
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family
