"""The worker that answers batches, a chunk at a time, in a thread of the service or in a separate process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Final

import structlog

from models.errors import (
    EncoderError,
    MissingPackageError,
    ShardAwayError,
    SnapshotError,
    SnapshotMissingError,
    StorageError,
    WeightsError,
)
from service.background import RepeatedTask
from service.batches.answering import ENCODER_TRIES, OF_PROCESS, Answerer
from service.batches.content import BatchResult, stored_results
from service.batches.job import LeasedChunk
from service.batches.jobs import Jobs
from service.collection.cursors import Cursors
from service.collection.pinned import PinnedEngines
from service.context import BACKGROUND_TIMEOUT_S, Deadline, set_deadline, with_deadline
from service.degradation import Degradation
from service.search.engine import SearchEngine
from service.timings import DEFAULTS

_POLL_S: Final = 0.005
_NOT_RENEWED: Final = Degradation(
    "lease",
    "The part of a batch that this worker processes may be given to another worker.",
    "look into the log",
)
_log = structlog.get_logger(__name__)


def _is_of_process(error: Exception, chunk: LeasedChunk) -> bool:
    """Return whether another process may do the chunk: what failed are this one's files, device or models.

    An encoder that fails counts attempts first, because the text may be why it fails.
    """
    if isinstance(error, EncoderError) and not isinstance(error, WeightsError):
        return chunk.attempts >= ENCODER_TRIES
    return isinstance(error, (StorageError, OSError, WeightsError, MissingPackageError, *OF_PROCESS))


class _Attempt:
    """The work of one worker on one chunk; other threads may abandon it."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._deadline = Deadline(deadline_s)
        self._given_up = threading.Event()
        self.lost = False

    @property
    def given_up(self) -> bool:
        """Whether the results are no longer needed."""
        return self._given_up.is_set()

    def begin_query(self) -> None:
        """Set a new deadline for the next query, in this thread; it has passed if the attempt is given up."""
        self._deadline = Deadline(self._deadline_s)
        set_deadline(self._deadline)
        if self.given_up:
            self._deadline.abandon()

    def give_up(self, *, lost: bool) -> None:
        """End the query under way; ``lost``: the chunk has passed to another worker, or its job has ended."""
        self.lost = lost
        self._given_up.set()
        self._deadline.abandon()


class ChunkWorker:
    """A worker that answers the queries of chunks, one after another, as a separate request would.

    Args:
        engines: the engines of the generations that batches were started on.
        cursors: those of the service, so that a client can continue with page two there.
        deadline_s: the time limit of one query, in seconds.
        idle: returns whether the next query would keep nobody waiting.
        patience_s: how long one query gives way to others, in seconds.
    """

    def __init__(
        self,
        engines: PinnedEngines,
        cursors: Cursors,
        *,
        deadline_s: float,
        idle: Callable[[], bool] = lambda: True,
        patience_s: float = DEFAULTS.patience_s,
    ) -> None:
        self._engines = engines
        self._answerer = Answerer(cursors)
        self._deadline_s = deadline_s
        self._idle = idle
        self._patience_s = patience_s
        self._stopping = threading.Event()
        self.under_way: set[_Attempt] = set()

    def stop(self) -> None:
        """End the work under way at once; its chunk goes to another worker, or is done again later."""
        self._stopping.set()
        for attempt in tuple(self.under_way):
            attempt.give_up(lost=False)

    def rest(self) -> None:
        """Release the generations worked on last, as nothing is left to do for now."""
        self._answerer.release()
        self._engines.release()

    def work_one(self, jobs: Jobs) -> bool:
        """Work on the next chunk; return whether there was one. If StorageError is raised, none of it counts.

        If a shard is away, the chunk is given back, which costs no attempt, and the result is ``False``. Nor
        does it cost one if what is wrong is this process's files, device or models: the chunk waits until its
        lease would end, and other chunks go on.
        """
        chunk = None if self._stopping.is_set() else jobs.claim()
        if chunk is None:
            return False
        try:
            self._work_on(chunk, jobs)
        except ShardAwayError as error:
            _log.warning("batch_waits_for_shard", job=chunk.job_id, part=chunk.number, error=str(error))
            jobs.release(chunk)
            return False
        except Exception as error:
            if _is_of_process(error, chunk):
                with suppress(StorageError):  # the catalog may be what is away
                    jobs.release(chunk, later=True)
            raise
        return True

    def _work_on(self, chunk: LeasedChunk, jobs: Jobs) -> None:
        """Store the results of a chunk, or give it back; raises StorageError, ShardAwayError."""
        try:
            engine = self._engines.engine_for(chunk.generation)
        except SnapshotError as error:
            _log.warning("generation_gone", job=chunk.job_id, generation=chunk.generation, error=str(error))
            gone = isinstance(error, SnapshotMissingError)
            why = "no longer exists" if gone else "can no longer be searched; the log of the service says why"
            jobs.fail(chunk.job_id, f"Generation {chunk.generation} {why}; start the batch again.")
            return
        with self._attempt(jobs, chunk) as attempt:
            # In a separate context: the deadline of the last query must not limit the storing of results.
            results = copy_context().run(self._results, engine, chunk, attempt)
        if not attempt.given_up:
            n_problems = sum(result.error is not None for result in results)
            jobs.finish(chunk, stored_results(results), n_problems=n_problems)
        elif not attempt.lost:
            jobs.release(chunk)

    def _results(self, engine: SearchEngine, chunk: LeasedChunk, attempt: _Attempt) -> list[BatchResult]:
        """Return the outcome of each query; fewer if the attempt was given up."""
        results: list[BatchResult] = []
        outcomes = self._answerer.results(chunk, engine, begin_query=attempt.begin_query)
        while len(results) < chunk.n_queries:
            self._give_way(attempt)
            attempt.begin_query()
            if attempt.given_up:
                break
            results.append(next(outcomes))
        return results

    def _give_way(self, attempt: _Attempt) -> None:
        until = time.monotonic() + self._patience_s
        while not (self._idle() or attempt.given_up or time.monotonic() > until):
            time.sleep(_POLL_S)

    @contextmanager
    def _attempt(self, jobs: Jobs, chunk: LeasedChunk) -> Iterator[_Attempt]:
        """Renew the lease of a chunk until the context ends, or until the work no longer counts."""
        attempt = _Attempt(self._deadline_s)

        def renew() -> None:
            if not attempt.lost and not with_deadline(BACKGROUND_TIMEOUT_S, lambda: jobs.renew(chunk)):
                attempt.give_up(lost=True)

        self.under_way.add(attempt)
        if self._stopping.is_set():
            attempt.give_up(lost=False)
        try:
            with RepeatedTask(renew, every_s=jobs.lease_s / 4, failure=_NOT_RENEWED, at_once=False):
                yield attempt
        finally:
            self.under_way.discard(attempt)
