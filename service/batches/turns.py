"""The choice of the next chunk: callers take turns, and so do the batches of one caller.

A chunk stores the time its lease ended, which tells when its job and its owner last had their turn:
``lease_until`` of a chunk that nobody holds is in the past.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, or_, select, update

from indexer.catalog.tables import JobChunkRow, JobRow
from service.batches.job import JobState

# The lease of a chunk that waits until its lease would have ended, as its last worker could not do it.
PARKED: Final = ""
ACTIVE: Final = JobRow.state.in_([state for state in JobState if state.active])


def is_waiting(now_ms: int) -> ColumnElement[bool]:
    """Return the condition that a chunk, joined with its job, is still to be done and nobody holds it."""
    free = or_(JobChunkRow.lease.is_(None), JobChunkRow.lease_until < now_ms)
    return and_(ACTIVE, ~JobChunkRow.done, free)


def is_leased(now_ms: int) -> ColumnElement[bool]:
    """Return the condition that a worker holds a chunk, joined with its job, and works on it."""
    held = and_(
        JobChunkRow.lease.is_not(None), JobChunkRow.lease != PARKED, JobChunkRow.lease_until >= now_ms
    )
    return and_(ACTIVE, ~JobChunkRow.done, held)


def n_chunks(connection: Connection, condition: ColumnElement[bool]) -> int:
    """Return the number of chunks, joined with their jobs, for which the condition holds."""
    counted = select(func.count()).select_from(JobChunkRow).join(JobRow).where(condition)
    return connection.execute(counted).scalar_one()


def next_chunk(connection: Connection, now_ms: int) -> tuple[str, int] | None:
    """Return the job and number of the next chunk, or ``None`` if none waits.

    The owner who had a chunk least recently comes first, then the job of that owner which had one least
    recently, and among equals the one that was sent first. A chunk under way counts as the most recent.
    """
    turn = func.coalesce(func.max(JobChunkRow.lease_until), 0)
    number = func.min(case((is_waiting(now_ms), JobChunkRow.number)))
    columns = (JobRow.id, JobRow.owner, JobRow.created_at, turn.label("turn"), number.label("number"))
    by_job = select(*columns).join(JobChunkRow).where(ACTIVE).group_by(JobRow.id)
    jobs = connection.execute(by_job).all()
    of_owner: dict[str, int] = {}
    for job in jobs:
        of_owner[job.owner] = max(job.turn, of_owner.get(job.owner, 0))

    def order(job: Row[Any]) -> tuple[int, int, int, str]:
        return of_owner[job.owner], job.turn, job.created_at, job.id

    first = min((job for job in jobs if job.number is not None), key=order, default=None)
    return None if first is None else (first.id, first.number)


def first_turn(connection: Connection, owner: str, now_ms: int) -> int:
    """Return the time (ms) that a new job last had its turn: that of its owner, or now without other jobs."""
    last = select(func.max(JobChunkRow.lease_until)).join(JobRow).where(ACTIVE, JobRow.owner == owner)
    turn = connection.execute(last).scalar_one()
    return now_ms if turn is None else min(turn, now_ms)


def pass_turn_on(connection: Connection, job_id: str, now_ms: int) -> None:
    """Pass the turn of a job that ends on to the owner's youngest other job, so that the owner keeps it.

    Otherwise a caller with many short batches would, with each, count as one who never had a turn. If an
    older job took the turn, that job would wait for all younger ones.
    """
    turn = func.max(JobChunkRow.lease_until)
    last = connection.execute(select(turn).where(JobChunkRow.job_id == job_id)).scalar_one()
    owner = select(JobRow.owner).where(JobRow.id == job_id).scalar_subquery()
    others = select(JobRow.id).where(ACTIVE, JobRow.owner == owner, JobRow.id != job_id)
    youngest = others.order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(1)
    other = connection.execute(youngest).scalar_one_or_none()
    if last is None or other is None:
        return
    last = min(last, now_ms)  # a turn under way ends now
    first = and_(JobChunkRow.job_id == other, JobChunkRow.number == 0)
    earlier = func.coalesce(JobChunkRow.lease_until, 0) < last
    connection.execute(update(JobChunkRow).where(first, earlier).values(lease_until=last))


def is_of_the_future(last_ms: int) -> ColumnElement[bool]:
    """Return the condition that the lease of a chunk, joined with its job, ends after any lease of now."""
    return and_(ACTIVE, ~JobChunkRow.done, JobChunkRow.lease.is_not(None), JobChunkRow.lease_until > last_ms)


def end_turns_of_the_future(connection: Connection, now_ms: int, last_ms: int) -> None:
    """End turns set by a clock that was ahead, or that was put back since: their owner would wait.

    A lease ends at ``last_ms``, as one of now does: its worker renews it, unless it was killed.
    """
    active = JobChunkRow.job_id.in_(select(JobRow.id).where(ACTIVE))
    for is_free, until in ((JobChunkRow.lease.is_(None), now_ms), (JobChunkRow.lease.is_not(None), last_ms)):
        ahead = and_(active, is_free, JobChunkRow.lease_until > until)
        connection.execute(update(JobChunkRow).where(ahead).values(lease_until=until))
