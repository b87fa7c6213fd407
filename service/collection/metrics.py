"""What /metrics tells of the collection: what is served, how far behind it is, and whether it is whole."""

from datetime import datetime

from starlette.datastructures import State

from indexer.manifest import Manifest
from service.collection.generations import Engines
from service.collection.ingest import Ingest
from service.collection.scrub import Scrub
from service.observability.metrics import Metrics, Reading


def add_collection_metrics(metrics: Metrics, state: State) -> None:
    """Adds them; ``state`` holds engines, ingest and scrub once the service runs."""

    def manifest() -> Manifest:
        served: Manifest = state.engines.current.snapshot.manifest
        return served

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
    _add_writes(metrics, state)
    _add_scrub(metrics, state)


def _add_writes(metrics: Metrics, state: State) -> None:
    def engines() -> Engines:
        held: Engines = state.engines
        return held

    def pending() -> int:
        ingest: Ingest = state.ingest
        return ingest.pending

    metrics.gauge("akin_pending_changes", "Changes of the catalog that answers do not show yet", pending)
    metrics.gauge(
        "akin_last_swap_timestamp_seconds",
        "When another generation was last taken up; absent before the first time",
        lambda: _known(engines().swapped_at),
    )
    metrics.counter(
        "akin_failed_swaps", "Generations that could not be served", lambda: engines().n_failed_swaps
    )


def _add_scrub(metrics: Metrics, state: State) -> None:
    def scrub() -> Scrub:
        held: Scrub = state.scrub
        return held

    metrics.counter("akin_scrub_files", "Served files compared with their checksums", lambda: scrub().files)
    metrics.counter("akin_scrub_bytes", "Bytes read for that", lambda: scrub().read_bytes)
    metrics.gauge("akin_scrub_damaged_files", "Served files that differ from them", lambda: scrub().damaged)
    metrics.gauge(
        "akin_scrub_last_pass_timestamp_seconds",
        "When all were last compared; absent before the first time",
        lambda: _known(scrub().passed_at),
    )


def _known(number: float | None) -> Reading:
    return {} if number is None else number
