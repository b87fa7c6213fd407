"""Limits: how many batches there may be, and how much those of one caller may hold."""

from dataclasses import dataclass
from typing import Final, Self

from sqlalchemy import Connection, and_, func, or_, select

from indexer.catalog.tables import JobChunkRow, JobRow
from models.errors import OverloadedError, RateLimitedError
from service.batches.turns import ACTIVE

_RETRY_AFTER_S: Final = 30  # a batch takes seconds to minutes
_FULL_RETRY_AFTER_S: Final = 3_600  # stored batches are only removed after days
_MIB: Final = 1 << 20
_NAMED: Final = 5  # how many of the batches that may be deleted a message names
_PART_BYTES: Final = 4_096  # the most a chunk takes besides its content, for row and indexes


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """The bytes that the batches of a caller hold, finished or not, and the ``oldest`` finished ones."""

    n_bytes: int
    oldest: tuple[str, ...]

    @classmethod
    def by(cls, connection: Connection, owner: str, *, but: str | None) -> Self:
        """Sum up queries, results and an overhead per chunk, except the batch with idempotency key ``but``.

        The content is not read: both databases store its length.
        """
        results = func.coalesce(func.length(JobChunkRow.results), 0)
        of_chunk = func.length(JobChunkRow.queries) + results + _PART_BYTES
        others = JobRow.owner == owner
        if but is not None:
            others = and_(others, or_(JobRow.idempotency_key.is_(None), JobRow.idempotency_key != but))
        chunks = select(func.coalesce(func.sum(of_chunk), 0)).select_from(JobChunkRow).join(JobRow)
        shared = select(func.coalesce(func.sum(func.length(JobRow.shared)), 0))
        n_bytes = sum(int(connection.execute(each.where(others)).scalar_one()) for each in (chunks, shared))
        finished = select(JobRow.id).where(others, JobRow.finished_at.is_not(None))
        oldest = connection.scalars(finished.order_by(JobRow.finished_at, JobRow.id).limit(_NAMED))
        return cls(n_bytes, tuple(oldest))


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """The MiB that the batches of one caller may hold, and the days for which finished ones are kept."""

    mib: int
    days: int

    def expect_room(self, held: StoredBytes) -> None:
        """Raise RateLimitedError if a caller whose batches are ``held`` may not send another one."""
        if held.n_bytes >= self.mib * _MIB:
            oldest = f" (the oldest finished: {', '.join(held.oldest)})" if held.oldest else ""
            raise RateLimitedError(
                f"Your batches hold {-(-held.n_bytes // _MIB):,} MiB, and those of one caller may hold "
                f"{self.mib:,} MiB; delete some with DELETE /v1/batches/ID{oldest}, or wait: each is removed "
                f"{self.days} days after it was finished.",
                retry_after_s=_FULL_RETRY_AFTER_S,
            )


def expect_room(connection: Connection, owner: str, *, most: int, most_of_owner: int) -> None:
    """Raise RateLimitedError for ``most_of_owner`` unfinished jobs, OverloadedError for ``most`` of all."""
    unfinished = select(func.count()).select_from(JobRow).where(ACTIVE)
    if connection.execute(unfinished.where(JobRow.owner == owner)).scalar_one() >= most_of_owner:
        raise RateLimitedError(
            f"{most_of_owner} of your batches are unfinished, the limit for one caller; wait for one, or "
            "cancel one.",
            retry_after_s=_RETRY_AFTER_S,
        )
    if connection.execute(unfinished).scalar_one() >= most:
        raise OverloadedError(
            f"{most} batches are unfinished, the limit of the service; try again later.",
            retry_after_s=_RETRY_AFTER_S,
        )
