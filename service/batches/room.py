"""How many batches there may be, and how much those of one caller may hold."""

from dataclasses import dataclass
from typing import Final, Self

from sqlalchemy import Connection, and_, func, or_, select

from indexer.catalog.tables import JobChunkRow, JobRow
from models.errors import OverloadedError, RateLimitedError
from service.batches.turns import ACTIVE

_RETRY_AFTER_S: Final = 30  # a batch takes seconds to minutes
_FULL_RETRY_AFTER_S: Final = 3_600  # what is kept goes with the days
_MIB: Final = 1 << 20
_NAMED: Final = 5  # of the batches that may be deleted
_PART_BYTES: Final = 4_096  # what a chunk without content takes at most, its row and its place in the indexes


@dataclass(frozen=True, slots=True)
class Held:
    """What the batches of a caller hold, finished or not, and the ``oldest`` finished ones."""

    n_bytes: int
    oldest: tuple[str, ...]

    @classmethod
    def by(cls, connection: Connection, owner: str, *, but: str | None) -> Self:
        """Queries, results, and some for each chunk, ``but`` for those of the key that is sent again.

        No content is read for it: both databases know how long it is.
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
class Kept:
    """How much the batches of one caller may hold, and for how long finished ones are kept."""

    mib: int
    days: int

    def expect_room(self, held: Held) -> None:
        """Raises RateLimitedError where a caller whose batches are ``held`` may not send another."""
        if held.n_bytes >= self.mib * _MIB:
            oldest = f" (the oldest finished: {', '.join(held.oldest)})" if held.oldest else ""
            raise RateLimitedError(
                f"Your batches hold {-(-held.n_bytes // _MIB):,} MiB, and those of one caller may hold "
                f"{self.mib:,} MiB; delete some with DELETE /v1/batches/ID{oldest}, or wait: each is removed "
                f"{self.days} days after it was finished.",
                retry_after_s=_FULL_RETRY_AFTER_S,
            )


def expect_room(connection: Connection, owner: str, *, most: int, most_of_owner: int) -> None:
    """Raises RateLimitedError, OverloadedError where so many jobs are unfinished."""
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
