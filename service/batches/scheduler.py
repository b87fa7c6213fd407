"""Batches of the service: started, watched, ended, and worked off in the background."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import structlog
from anyio import CapacityLimiter, to_thread

from indexer.job import Job, NewJob
from indexer.jobs import Jobs
from indexer.migrations import open_database
from models.errors import BatchNotFoundError, DeadlineError, StorageError
from models.interruption import set_interruption
from service.background import STOP_S
from service.batches.worker import ChunkWorker
from service.collection.leases import KeptGenerations
from service.context import ASIDE_S, locked, with_deadline
from service.degradation import Degradation
from service.observability.logging import raised_at
from service.settings import Settings
from service.timings import USUAL, Timings

_POLL_S: Final = 1.0  # how often work is looked for that another process left, or started
_EXPIRE_EVERY_S: Final = 600.0
_OF_ONE_CALLER: Final = 4  # the share of one caller is a quarter
_DAY_S: Final = 86_400
_log = structlog.get_logger(__name__)


class Batches:
    """The jobs of a catalog, opened when first needed, and the loop that sees to their being done.

    Every method raises StorageError while the database is away; the loop waits for it.
    """

    def __init__(self, settings: Settings, timings: Timings = USUAL) -> None:
        self._timings = timings
        self._place = settings.catalog
        self._most = settings.batches
        self._max_age_s = settings.batch_days * _DAY_S
        self._left_to_workers = settings.workers
        self._opened: Jobs | None = None
        self._opening = threading.Lock()
        self._kept = KeptGenerations(settings.data)
        self._keeping = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._end_by = math.inf
        self._expire_at = 0.0
        self._waits = False
        self._unattended_since: float | None = None

    def degradations(self) -> Iterator[Degradation]:
        """That batches wait for the database."""
        if self._waits:
            yield Degradation(
                "batches",
                "The database cannot be used: batches are neither taken nor done.",
                "Make the database reachable again; its error is in the log under batches_waiting.",
            )

    def start(self, new: NewJob) -> Job:
        """Stores a job and has it done; raises as ``Jobs.add``."""
        most_of_owner = max(1, self._most // _OF_ONE_CALLER)
        jobs = self._jobs(make=True)
        with locked(self._keeping):  # until the job is stored nothing else says that its generation is needed
            self._kept.keep(new.generation)
            job = jobs.add(new, most=self._most, most_of_owner=most_of_owner)
        self._wake.set()
        return job

    def jobs(self) -> Jobs:
        """The jobs there are; raises BatchNotFoundError where there never was one."""
        return self._jobs(make=False)

    def _jobs(self, *, make: bool) -> Jobs:
        with locked(self._opening):
            if self._opened is None:
                if not make and isinstance(self._place, Path) and not self._place.exists():
                    raise BatchNotFoundError("There is no such batch: none was ever started here.")
                self._opened = Jobs(open_database(self._place), lease_s=self._timings.lease_s)
            return self._opened

    @asynccontextmanager
    async def worked_off(self, worker: ChunkWorker) -> AsyncIterator[None]:
        """Sees to the jobs until the context ends, those of an earlier process included."""
        self._stopping, self._end_by = False, math.inf
        # Before requests come: what opening a database loads should not be loaded beside them.
        await to_thread.run_sync(self._open_early)
        task = asyncio.create_task(self._work(worker))
        try:
            yield
        finally:
            self.stop()
            worker.stop()
            await asyncio.wait([task])
            self._kept.keep_only(())
            if self._opened is not None:
                self._opened.close()

    def stop(self) -> None:
        """Begin nothing more; ``worked_off`` then ends soon."""
        self._stopping, self._end_by = True, min(self._end_by, time.monotonic() + STOP_S)
        self._wake.set()

    def _open_early(self) -> None:
        with suppress(StorageError, BatchNotFoundError):
            self._look()

    def _look(self) -> Jobs:
        """The jobs, whose generations are kept from now on, and no other."""

        def looked_at() -> Jobs:
            jobs = self.jobs()
            with locked(self._keeping):
                self._kept.keep_only(jobs.generations())
            return jobs

        return with_deadline(ASIDE_S, looked_at)

    async def _work(self, worker: ChunkWorker) -> None:
        limiter = CapacityLimiter(1)  # never waits for the threads of requests, nor they for it
        while not self._stopping:
            turn = asyncio.ensure_future(to_thread.run_sync(self._turn, worker, limiter=limiter))
            await asyncio.wait([turn])
            error = turn.exception()
            if error is not None:  # a fault of ours: the chunk is tried again a few times, then its job fails
                _log.error("batch_work_failed", error=type(error).__name__, exception=raised_at(error))
                await asyncio.sleep(_POLL_S)

    def _expect_time(self) -> None:
        if time.monotonic() > self._end_by:
            raise DeadlineError("The service ends.")

    def _turn(self, worker: ChunkWorker) -> None:
        set_interruption(self._expect_time)
        try:
            busy = self._see_to_jobs(worker)
            self._waits = False
        except (BatchNotFoundError, DeadlineError):
            busy = False
        except StorageError as error:
            if not self._waits:
                _log.warning("batches_waiting", error=str(error))
            busy, self._waits = False, True
        if not busy:
            worker.rest()
            self._wake.wait(_POLL_S)
            self._wake.clear()

    def _see_to_jobs(self, worker: ChunkWorker) -> bool:
        """Whether there may be more to do at once."""
        jobs = self._look()
        if time.monotonic() >= self._expire_at:
            jobs.expire(max_age_s=self._max_age_s)
            self._expire_at = time.monotonic() + _EXPIRE_EVERY_S
        if self._left_to_workers and not self._unattended(jobs):
            return False
        return worker.work_one(jobs)

    def _unattended(self, jobs: Jobs) -> bool:
        """Whether something waits that no worker has taken for a while."""
        backlog = jobs.backlog()
        if not backlog.n_waiting or backlog.n_leased:
            self._unattended_since = None
            return False
        if self._unattended_since is None:
            self._unattended_since = time.monotonic()
        return time.monotonic() - self._unattended_since > self._timings.without_worker_s
