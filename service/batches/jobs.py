"""The store of batch jobs in the catalog's database.

The rows are the only state: a chunk is leased to one worker at a time, and its results and the fact that it
is done are written in one transaction, guarded by the lease. Even if workers are killed, or work is started
twice, each query is answered in the output exactly once.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Connection, and_, case, delete, func, insert, or_, select, update

from indexer.catalog.database import Database
from indexer.catalog.store import Store
from indexer.catalog.tables import JobChunkRow, JobRow, KeyRow
from models.errors import IdempotencyError
from service.batches.job import Backlog, Job, JobState, LeasedChunk, NewJob, StoredResults
from service.batches.limits import StorageLimits, StoredBytes, expect_room
from service.batches.rows import chunk_rows, job_of, latest_jobs, named
from service.batches.turns import (
    ACTIVE,
    PARKED,
    end_turns_of_the_future,
    first_turn,
    is_leased,
    is_of_the_future,
    is_waiting,
    n_chunks,
    next_chunk,
    pass_turn_on,
)
from service.timings import LEASE_S

MAX_ATTEMPTS: Final = 10  # a chunk that this many workers did not finish fails its job
_REMOVED_TOGETHER: Final = 500  # a statement takes 32,766 ids at most, and other writers wait meanwhile
_CHUNKS_REMOVED_TOGETHER: Final = 16
_ID_BYTES: Final = 16
_REVOKED: Final = "The key that started the batch was revoked; start it again with another key."


class Jobs(Store):
    """The jobs of one database; open them with ``Jobs.open``.

    Every method raises ``StorageError`` if the database cannot be reached, read or written. ``clock`` gives
    Unix seconds; a lease lasts ``lease_s`` seconds. If the clocks of workers differ, work may be done twice,
    but it counts once.
    """

    def __init__(
        self, database: Database, *, clock: Callable[[], float] = time.time, lease_s: float = LEASE_S
    ) -> None:
        super().__init__(database)
        self.lease_s = lease_s
        self._clock = clock

    def add(self, new: NewJob, *, most: int, most_of_owner: int, kept: StorageLimits | None = None) -> Job:
        """Store a job, or return the owner's earlier one with the same key and content, unless that failed.

        Raises:
            IdempotencyError: the key was used with other content.
            RateLimitedError: the owner has ``most_of_owner`` unfinished jobs, or holds all ``kept`` allows.
            OverloadedError: there are ``most`` unfinished jobs.
        """
        with self.database.reading() as connection:  # no writer waits for this
            held = None if kept is None else StoredBytes.by(connection, new.owner, but=new.idempotency_key)
        with self.database.writing() as connection:
            earlier = _earlier(connection, new.owner, new.idempotency_key, new.body_hash)
            if earlier is not None and earlier.state is not JobState.FAILED:
                return earlier
            if earlier is not None:  # sent again because it failed
                _remove(connection, [earlier.id])
            expect_room(connection, new.owner, most=most, most_of_owner=most_of_owner)
            if kept is not None and held is not None:
                kept.expect_room(held)
            job_id = secrets.token_urlsafe(_ID_BYTES)
            row = {
                **{name: getattr(new, name) for name in ("owner", "idempotency_key", "body_hash")},
                "id": job_id,
                "generation": new.generation,
                "state": JobState.QUEUED.value,
                "n_queries": sum(chunk.n_queries for chunk in new.chunks),
                "n_done": 0,
                "n_problems": 0,
                "created_at": int(self._clock()),
                "shared": new.shared,
            }
            turn = first_turn(connection, new.owner, self._now_ms())
            connection.execute(insert(JobRow).values(row))
            connection.execute(insert(JobChunkRow), chunk_rows(job_id, new.chunks, turn))
            return job_of(connection, JobRow.id == job_id)

    def earlier(self, owner: str, idempotency_key: str, body_hash: str) -> Job | None:
        """Return the job that ``add`` would return instead of a new one; raises IdempotencyError."""
        with self.database.reading() as connection:
            earlier = _earlier(connection, owner, idempotency_key, body_hash)
        return None if earlier is None or earlier.state is JobState.FAILED else earlier

    def get(self, job_id: str, *, owner: str | None) -> Job:
        """Return one job, of ``owner`` or (``None``) of anybody; raises BatchNotFoundError."""
        with self.database.reading() as connection:
            return job_of(connection, named(job_id, owner))

    def latest(self, *, owner: str | None, after: tuple[int, str] | None, limit: int) -> Sequence[Job]:
        """As ``latest_jobs``."""
        with self.database.reading() as connection:
            return latest_jobs(connection, owner=owner, after=after, limit=limit)

    def remove(self, job_id: str, *, owner: str | None) -> None:
        """Cancel a job if it is not finished, and remove it; raises BatchNotFoundError."""
        with self.database.writing() as connection:
            job = job_of(connection, named(job_id, owner))
            if job.state.active:
                pass_turn_on(connection, job.id, self._now_ms())
            _remove(connection, [job.id])

    def fail(self, job_id: str, reason: str) -> None:
        """End an unfinished job that cannot be carried out."""
        with self.database.writing() as connection:
            self._end(connection, job_id, JobState.FAILED, reason)

    def claim(self) -> LeasedChunk | None:
        """Lease the next chunk; return ``None`` if none waits, or if the next one had too many attempts.

        Jobs whose owner's key was revoked are ended first.
        """
        with self.database.reading() as connection:
            last = self._now_ms() + int(self.lease_s * 1000)
            takeable = or_(is_waiting(self._now_ms()), is_of_the_future(last))
            if n_chunks(connection, takeable) == 0:
                return None
        with self.database.writing() as connection:
            self._end_revoked(connection)
            end_turns_of_the_future(connection, self._now_ms(), last)
            if (following := next_chunk(connection, self._now_ms())) is None:
                return None
            job_id, number = following
            chunk = and_(JobChunkRow.job_id == job_id, JobChunkRow.number == number)
            attempts = connection.execute(select(JobChunkRow.attempts).where(chunk)).scalar_one()
            if attempts >= MAX_ATTEMPTS:
                reason = f"Part {number} failed {attempts} times; see the log of the service."
                self._end(connection, job_id, JobState.FAILED, reason)
                return None
            return self._lease(connection, job_id, number)

    def renew(self, chunk: LeasedChunk) -> bool:
        """Extend a lease to ``lease_s`` seconds from now; return whether the work still counts."""
        until = self._now_ms() + int(self.lease_s * 1000)
        with self.database.writing() as connection:
            return _if_held(connection, chunk, lease_until=until)

    def release(self, chunk: LeasedChunk, *, later: bool = False) -> None:
        """Give a chunk back unfinished, to be taken at once, or ``later``: when its lease would end."""
        free = {"lease": PARKED} if later else {"lease": None, "lease_until": self._now_ms()}
        with self.database.writing() as connection:
            _if_held(connection, chunk, attempts=JobChunkRow.attempts - 1, **free)

    def finish(self, chunk: LeasedChunk, results: bytes, *, n_problems: int) -> bool:
        """Store the results of a chunk and mark it as done; return whether they count.

        They do not count if the job has ended, or the lease has passed to another worker.
        """
        with self.database.writing() as connection:
            done = {"results": results, "done": True, "lease": None, "lease_until": self._now_ms()}
            if not _if_held(connection, chunk, **done):
                return False
            n_done = JobRow.n_done + chunk.n_queries
            complete = n_done == JobRow.n_queries
            connection.execute(
                update(JobRow)
                .where(JobRow.id == chunk.job_id)
                .values(
                    n_done=n_done,
                    n_problems=JobRow.n_problems + n_problems,
                    state=case((complete, JobState.DONE.value), else_=JobRow.state),
                    finished_at=case((complete, int(self._clock())), else_=None),
                )
            )
            if not job_of(connection, JobRow.id == chunk.job_id).state.active:
                pass_turn_on(connection, chunk.job_id, self._now_ms())
            return True

    def generations(self) -> set[str]:
        """Return the generations that unfinished jobs are answered from."""
        with self.database.reading() as connection:
            return set(connection.scalars(select(JobRow.generation).where(ACTIVE).distinct()))

    def backlog(self) -> Backlog:
        """Return how many chunks nobody works on, and how many are leased."""
        now_ms = self._now_ms()
        with self.database.reading() as connection:
            n_leased = n_chunks(connection, is_leased(now_ms))
            return Backlog(n_chunks(connection, and_(ACTIVE, ~JobChunkRow.done)) - n_leased, n_leased)

    def n_ready(self, job: Job) -> int:
        """Return how many queries are done without a gap, counted from the first."""
        return self.all_ready([job])[0]

    def all_ready(self, jobs: Sequence[Job]) -> list[int]:
        """Return ``n_ready`` of each job."""
        undone = and_(JobChunkRow.job_id.in_([job.id for job in jobs]), ~JobChunkRow.done)
        gaps = select(JobChunkRow.job_id, func.min(JobChunkRow.first)).where(undone)
        with self.database.reading() as connection:
            rows = connection.execute(gaps.group_by(JobChunkRow.job_id))
            first_undone = {job_id: int(first) for job_id, first in rows}
        return [first_undone.get(job.id, job.n_queries) for job in jobs]

    def results(self, job_id: str, number: int, *, with_queries: bool = False) -> StoredResults | None:
        """Return the results of the chunk that holds query ``number``, or ``None`` if it is not done."""
        holds = and_(JobChunkRow.first <= number, number < JobChunkRow.first + JobChunkRow.n_queries)
        statement = select(JobChunkRow.first, JobChunkRow.n_queries, JobChunkRow.results)
        if with_queries:
            statement = statement.add_columns(JobChunkRow.queries, JobRow.shared).join(JobRow)
        with self.database.reading() as connection:
            done = statement.where(JobChunkRow.job_id == job_id, JobChunkRow.done, holds)
            row = connection.execute(done).one_or_none()
        return None if row is None else StoredResults(**row._asdict())

    def expire(self, *, max_age_s: int) -> bool:
        """Remove jobs finished more than ``max_age_s`` seconds ago; return whether all of them are removed.

        Removes a limited number at a time, so that other work can go on: a job may hold a gigabyte.
        """
        old = select(JobRow.id).where(JobRow.finished_at < int(self._clock()) - max_age_s)
        with self.database.reading() as connection:
            ids = list(connection.scalars(old.limit(_REMOVED_TOGETHER)))
        is_left = bool(ids)
        while is_left:
            with self.database.writing() as connection:
                is_left = _remove_some(connection, ids)
        return len(ids) < _REMOVED_TOGETHER

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _lease(self, connection: Connection, job_id: str, number: int) -> LeasedChunk:
        held = and_(JobChunkRow.job_id == job_id, JobChunkRow.number == number)
        leased = {"lease": secrets.token_hex(_ID_BYTES), "attempts": JobChunkRow.attempts + 1}
        until = self._now_ms() + int(self.lease_s * 1000)
        connection.execute(update(JobChunkRow).where(held).values(lease_until=until, **leased))
        started = update(JobRow).where(JobRow.id == job_id).values(state=JobState.RUNNING.value)
        connection.execute(started)
        names = {field.name for field in fields(LeasedChunk)} - {"generation", "shared"}
        columns = [getattr(JobChunkRow, name) for name in sorted(names)]
        statement = select(*columns, JobRow.generation, JobRow.shared).join(JobRow).where(held)
        return LeasedChunk(**connection.execute(statement).one()._asdict())

    def _end_revoked(self, connection: Connection) -> None:
        revoked = select(KeyRow.id).where(KeyRow.revoked_at.is_not(None))
        ended = {"state": JobState.FAILED.value, "error": _REVOKED, "finished_at": int(self._clock())}
        connection.execute(update(JobRow).where(ACTIVE, JobRow.owner.in_(revoked)).values(ended))

    def _end(self, connection: Connection, job_id: str, state: JobState, error: str | None = None) -> None:
        ended = {"state": state.value, "error": error, "finished_at": int(self._clock())}
        if connection.execute(update(JobRow).where(JobRow.id == job_id, ACTIVE).values(ended)).rowcount:
            pass_turn_on(connection, job_id, self._now_ms())


def _earlier(connection: Connection, owner: str, key: str | None, body_hash: str) -> Job | None:
    if key is None:
        return None
    same_key = and_(JobRow.owner == owner, JobRow.idempotency_key == key)
    of_earlier = connection.execute(select(JobRow.body_hash).where(same_key)).scalar_one_or_none()
    if of_earlier is None:
        return None
    if of_earlier != body_hash:
        raise IdempotencyError(
            "The Idempotency-Key was sent before with another batch; send a new key with a new batch."
        )
    return job_of(connection, same_key)


def _if_held(connection: Connection, chunk: LeasedChunk, **values: Any) -> bool:
    """Change the row of a chunk if its lease still holds and its job has not ended; return whether."""
    held = update(JobChunkRow).where(
        JobChunkRow.job_id == chunk.job_id,
        JobChunkRow.number == chunk.number,
        JobChunkRow.lease == chunk.lease,
        JobChunkRow.job_id.in_(select(JobRow.id).where(ACTIVE)),
    )
    return connection.execute(held.values(values)).rowcount == 1


def _remove_some(connection: Connection, job_ids: Sequence[str]) -> bool:
    """Remove a few chunks of jobs, or the jobs if none has a chunk; return whether there was a chunk."""
    of_jobs = select(JobChunkRow.job_id, JobChunkRow.number).where(JobChunkRow.job_id.in_(job_ids))
    some = connection.execute(of_jobs.limit(_CHUNKS_REMOVED_TOGETHER)).all()
    for job_id, number in some:
        own = and_(JobChunkRow.job_id == job_id, JobChunkRow.number == number)
        connection.execute(delete(JobChunkRow).where(own))
    if not some:
        _remove(connection, job_ids)
    return bool(some)


def _remove(connection: Connection, job_ids: Sequence[str]) -> None:
    connection.execute(delete(JobChunkRow).where(JobChunkRow.job_id.in_(job_ids)))
    connection.execute(delete(JobRow).where(JobRow.id.in_(job_ids)))
