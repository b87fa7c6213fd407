"""The rows of batch jobs: how one is named, and its value."""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from indexer.catalog.tables import JobRow
from models.errors import BatchNotFoundError
from service.batches.job import ChunkContent, Job, JobState

_ID: Final = re.compile("[A-Za-z0-9_-]{22}")
_COLUMNS: Final = [getattr(JobRow, field.name) for field in fields(Job)]


def named(job_id: str, owner: str | None) -> ColumnElement[bool]:
    """Return the condition that a row is this job, of ``owner`` or (``None``) of anybody.

    Raises BatchNotFoundError for a text that is no id.
    """
    if not _ID.fullmatch(job_id):  # not every database accepts every text
        raise _not_found()
    return JobRow.id == job_id if owner is None else and_(JobRow.id == job_id, JobRow.owner == owner)


def job_of(connection: Connection, which: ColumnElement[bool]) -> Job:
    """Return the one job for which a condition holds; raises BatchNotFoundError."""
    row = connection.execute(select(*_COLUMNS).where(which)).one_or_none()
    if row is None:
        raise _not_found()
    return _job(row._asdict())


def latest_jobs(
    connection: Connection, *, owner: str | None, after: tuple[int, str] | None, limit: int
) -> Sequence[Job]:
    """Return at most ``limit`` jobs of ``owner``, the last started first.

    ``after`` is the time when the last one of the page before was started, and its id.
    """
    jobs = select(*_COLUMNS).order_by(JobRow.created_at.desc(), JobRow.id.desc()).limit(limit)
    if owner is not None:
        jobs = jobs.where(JobRow.owner == owner)
    if after is not None:
        started_at, job_id = after
        at_once = and_(JobRow.created_at == started_at, JobRow.id < job_id)
        jobs = jobs.where(or_(JobRow.created_at < started_at, at_once))
    return [_job(row._asdict()) for row in connection.execute(jobs)]


def _job(columns: dict[str, Any]) -> Job:
    return Job(**{**columns, "state": JobState(columns["state"])})


def _not_found() -> BatchNotFoundError:
    return BatchNotFoundError(
        "There is no such batch; it was removed, or started with another key. Start it again."
    )


def chunk_rows(job_id: str, chunks: Sequence[ChunkContent], turn: int) -> list[dict[str, Any]]:
    """Return the rows of a new job's chunks; the first holds the time of the job's last turn."""
    rows, first = [], 0
    for number, chunk in enumerate(chunks):
        row = {"job_id": job_id, "number": number, "first": first, "attempts": 0, "done": False}
        row["lease_until"] = None if number else turn
        rows.append(row | {"n_queries": chunk.n_queries, "queries": chunk.queries})
        first += chunk.n_queries
    return rows
