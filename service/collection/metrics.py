"""Metrics of the collection: generation, pending changes, checks of the files."""

from collections.abc import Callable
from datetime import datetime

from indexer.snapshot.manifest import Manifest
from service.collection.scrub import Scrub
from service.collection.served import ServedCollection
from service.observability.metrics import Metrics, MetricValue


def add_collection_metrics(metrics: Metrics, served: Callable[[], ServedCollection]) -> None:
    """Add the metrics of the collection; ``served`` is only called once the service runs."""

    def manifest() -> Manifest:
        return served().engines.current.snapshot.manifest

    def created() -> float:
        return datetime.fromisoformat(manifest().created).timestamp()

    def deleted() -> int:
        return sum(segment.n_deleted for segment in manifest().segments)

    metrics.gauge("akin_papers", "Papers served", lambda: manifest().n_papers)
    metrics.gauge("akin_sentences", "Sentences with a vector", lambda: manifest().n_rows)
    metrics.gauge(
        "akin_generation_info",
        "The generation served",
        lambda: {(manifest().generation,): 1},
        labels=["generation"],
    )
    metrics.gauge("akin_generation_created_timestamp_seconds", "When it was published", created)
    metrics.gauge("akin_segments", "Segments of the generation served", lambda: len(manifest().segments))
    metrics.gauge("akin_deleted_papers", "Papers in its segments that are deleted or replaced", deleted)
    _add_writes(metrics, served)
    _add_scrub(metrics, served)


def _add_writes(metrics: Metrics, served: Callable[[], ServedCollection]) -> None:
    metrics.gauge(
        "akin_pending_changes",
        "Changes of the catalog that searches do not show yet",
        lambda: served().ingest.pending,
    )
    metrics.gauge(
        "akin_requests_waiting_to_show",
        "Requests whose change is stored and that wait until searches show it",
        lambda: served().ingest.n_waiting,
    )
    metrics.gauge(
        "akin_last_swap_timestamp_seconds",
        "When the service last switched to another generation; absent before the first time",
        lambda: _known(served().engines.swapped_at),
    )
    metrics.counter(
        "akin_failed_swaps", "Generations that could not be served", lambda: served().engines.n_failed_swaps
    )


def _add_scrub(metrics: Metrics, served: Callable[[], ServedCollection]) -> None:
    def scrub() -> Scrub:
        return served().scrub

    metrics.counter("akin_scrub_files", "Served files whose checksums were verified", lambda: scrub().files)
    metrics.counter("akin_scrub_bytes", "Bytes read to verify checksums", lambda: scrub().read_bytes)
    metrics.gauge(
        "akin_scrub_damaged_files", "Served files that do not match their checksums", lambda: scrub().damaged
    )
    metrics.gauge(
        "akin_scrub_last_pass_timestamp_seconds",
        "When all files were last verified; absent before the first time",
        lambda: _known(scrub().passed_at),
    )


def _known(number: float | None) -> MetricValue:
    return {} if number is None else number
