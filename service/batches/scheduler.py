"""The batches of the service: started, watched, ended, and answered in the background."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock
from typing import Final

import structlog

from indexer.catalog.store import database_of
from models.errors import BatchNotFoundError, StorageError
from service.background import RepeatedTask
from service.batches.job import Job, NewJob
from service.batches.jobs import Jobs
from service.batches.limits import StorageLimits
from service.batches.worker import ChunkWorker
from service.collection.leases import GenerationLeases
from service.context import BACKGROUND_TIMEOUT_S, locked, with_deadline
from service.degradation import Degradation
from service.settings import Settings
from service.store import LazyStore
from service.timings import DEFAULTS, Timings

_POLL_S: Final = 1.0  # how often to look for work that another process left or started
_EXPIRE_EVERY_S: Final = 600.0
_OF_ONE_CALLER: Final = 4  # the share of one caller is a quarter
_DAY_S: Final = 86_400
BATCHES_NOT_PROCESSED: Final = Degradation(
    "batches",
    "Batches are not processed because of an internal error.",
    "see the log; they are tried again every second",
)
BATCHES_UNAVAILABLE: Final = Degradation(
    "batches",
    "The database cannot be used: batches are neither accepted nor processed.",
    "Make the database reachable again; its error is in the log.",
)
_log = structlog.get_logger(__name__)


class Batches:
    """The jobs of a catalog, opened on first use, and the background task that has ``worker`` answer them.

    Every method raises StorageError while the database is unavailable; the work waits for it.
    """

    def __init__(self, settings: Settings, worker: ChunkWorker, timings: Timings = DEFAULTS) -> None:
        self._without_worker_s = timings.without_worker_s
        self.worker = worker
        self._most = settings.batches
        self._kept_of_owner = StorageLimits(settings.batch_mib, settings.batch_days)
        self._left_to_workers = settings.workers
        self._store = LazyStore(
            settings.catalog,
            lambda place: Jobs(database_of(settings.data, place), lease_s=timings.lease_s),
        )
        self._kept = GenerationLeases(settings.data)
        self._keeping = Lock()
        self._expire_at = 0.0
        self._lacks_worker_since: float | None = None
        self._working = RepeatedTask(
            self._process_chunks,
            every_s=_POLL_S,
            failure=BATCHES_NOT_PROCESSED,
            failures={StorageError: BATCHES_UNAVAILABLE},
        )
        self.degradations = self._working.degradations

    def earlier(self, owner: str, idempotency_key: str | None, body_hash: str) -> Job | None:
        """Return the job that was started before with the same key and body; raises IdempotencyError."""
        if idempotency_key is None or not self._store.is_there:
            return None
        return self._store.get().earlier(owner, idempotency_key, body_hash)

    def start(self, new: NewJob) -> Job:
        """Store a job and wake the worker; raises what ``Jobs.add`` raises."""
        most_of_owner = max(1, self._most // _OF_ONE_CALLER)
        jobs = self._store.get()
        with locked(self._keeping):  # until the job is stored, only this keeps its generation
            self._kept.keep(new.generation)
            kept = self._kept_of_owner
            job = jobs.add(new, most=self._most, most_of_owner=most_of_owner, kept=kept)
        self._working.wake()
        return job

    def jobs(self) -> Jobs:
        """Return the store of jobs; raises BatchNotFoundError if there never was a job."""
        if not self._store.is_there:
            raise BatchNotFoundError("This service has no batches.")
        return self._store.get()

    @contextmanager
    def processing(self) -> Iterator[None]:
        """Work on the jobs until the context ends, including those of an earlier process."""
        with ExitStack() as ending:
            ending.callback(self._store.close)
            ending.callback(self._kept.release)
            # Before requests come: opening the database loads modules, which should not slow down requests.
            with suppress(StorageError, BatchNotFoundError):
                self._look()
            ending.enter_context(self._working)
            ending.callback(self.stop)
            yield

    def stop(self) -> None:
        """Begin nothing more, and end the work under way; ``processing`` then ends soon."""
        self._working.stop()
        self.worker.stop()

    def _look(self) -> Jobs:
        """Return the store of jobs, after keeping the generations of unfinished jobs and no others."""

        def looked_at() -> Jobs:
            jobs = self.jobs()
            with locked(self._keeping):
                if not self._working.stopped:  # a call that outlives the service keeps nothing
                    self._kept.keep_only(jobs.generations())
            return jobs

        return with_deadline(BACKGROUND_TIMEOUT_S, looked_at)

    def _process_chunks(self) -> None:
        """Work on one chunk, and then at once on another if there may be more."""
        if self._store.is_there and self._process_jobs():
            self._working.wake()
        else:
            self.worker.rest()

    def _process_jobs(self) -> bool:
        """Remove old jobs, answer one chunk if any waits, and return whether there may be more to do."""
        jobs = self._look()
        if time.monotonic() >= self._expire_at:
            self._expire(jobs)
        if self._left_to_workers and not self._lacks_worker(jobs):
            return False
        return self.worker.work_one(jobs)

    def _expire(self, jobs: Jobs) -> None:
        """Remove some of the jobs that are too old; if that fails, work goes on and it is retried later."""
        later = True
        try:
            later = jobs.expire(max_age_s=self._kept_of_owner.days * _DAY_S)
        except StorageError as error:
            _log.warning("old_batches_not_removed", error=str(error))
        if later:
            self._expire_at = time.monotonic() + _EXPIRE_EVERY_S

    def _lacks_worker(self, jobs: Jobs) -> bool:
        """Return whether chunks have waited for a while without any worker taking one."""
        backlog = jobs.backlog()
        if not backlog.n_waiting or backlog.n_leased:
            self._lacks_worker_since = None
            return False
        if self._lacks_worker_since is None:
            self._lacks_worker_since = time.monotonic()
        return time.monotonic() - self._lacks_worker_since > self._without_worker_s
