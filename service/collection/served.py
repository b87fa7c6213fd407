"""The served collection, with the tasks that keep it up to date."""

from collections.abc import Iterator
from contextlib import ExitStack

import structlog

from indexer.files.file_system import is_read_only, limits_of
from models.errors import DeviceFullError, EncoderMismatchError, StorageError
from service.background import RepeatedTask
from service.cache.store import Cache
from service.cluster.snapshot import ShardedSnapshot
from service.collection.generations import (
    DEVICE_FULL,
    GENERATION_NOT_SERVED,
    OTHER_ENCODER,
    Engines,
    open_warm_engine,
)
from service.collection.ingest import (
    CATALOG_NOT_WRITABLE,
    CHANGES_NOT_SERVED,
    NOT_MERGED,
    OTHER_MODELS,
    Ingest,
)
from service.collection.scrub import EVERY_S, FILES_NOT_VERIFIED, Scrub
from service.degradation import Degradation
from service.search.engine import SearchEngine
from service.settings import Settings
from service.timings import Timings

_log = structlog.get_logger(__name__)


class ServedCollection:
    """The generations, ingest and scrub of a collection; a context manager while they work.

    It serves ``engine``, or the snapshot that ``settings`` name; if ``engines`` are given, it only follows
    their data folder.
    """

    def __init__(
        self,
        settings: Settings,
        engine: SearchEngine | None,
        cache: Cache,
        timings: Timings,
        *,
        engines: Engines | None = None,
    ) -> None:
        for event, effect in limits_of(settings.data).items():
            _log.warning(event, folder=str(settings.data), effect=effect)
        self.engines = engines or Engines.of(
            settings, engine or open_warm_engine(settings, cache), cache, retry_s=timings.swap_retry_s
        )
        self.ingest = Ingest(settings.data, settings.catalog, self.engines, keep=settings.keep)
        self.scrub = Scrub(
            self.engines,
            settings.data,
            mib_s=settings.scrub_mib_s if self.engines.follows and engines is None else 0.0,
            pause_s=timings.scrub_pause_s,
            damaged_pause_s=timings.scrub_damaged_pause_s,
        )
        self.following = RepeatedTask(
            self.engines.follow,
            every_s=timings.follow_every_s,
            failure=GENERATION_NOT_SERVED,
            failures={EncoderMismatchError: OTHER_ENCODER, DeviceFullError: DEVICE_FULL},
        )
        self.publishing = RepeatedTask(
            self.ingest.keep_up,
            every_s=timings.publish_every_s,
            failure=CHANGES_NOT_SERVED,
            failures={EncoderMismatchError: OTHER_MODELS, StorageError: CATALOG_NOT_WRITABLE},
        )
        self.scrubbing = RepeatedTask(self.scrub.step, every_s=EVERY_S, failure=FILES_NOT_VERIFIED)
        self.merging = RepeatedTask(
            self.ingest.merge,
            every_s=timings.merge_every_s,
            after_failure_s=timings.merge_retry_s,
            failure=NOT_MERGED,
        )
        writing = () if is_read_only(settings.data) else (self.publishing, self.merging)
        upkeep = (*writing, self.scrubbing) if engines is None else ()
        self._working = (self.following, *upkeep)
        self._running = ExitStack()

    def degradations(self) -> Iterator[Degradation]:
        """Yield the parts that do not work at the moment."""
        for part in (*self._working, self.scrub, self.ingest):
            yield from part.degradations()
        snapshot = self.engines.current.snapshot
        if isinstance(snapshot, ShardedSnapshot):
            yield from snapshot.shards.degradations()

    def __enter__(self) -> "ServedCollection":  # noqa: PYI034 - the tests' type checker knows no Self in methods
        self._running.callback(self.ingest.close)
        for each in self._working:
            self._running.enter_context(each)
        return self

    def stop(self) -> None:
        """Begin nothing more; all tasks are stopped at once, so that their waits do not add up."""
        for each in self._working:
            each.stop()

    def __exit__(self, *_: object) -> None:
        """End after the work under way, if that does not take too long."""
        self.stop()
        self._running.close()
