"""How many batches there may be, and how much those of one caller may hold."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, func, select

from indexer.catalog.tables import JobChunkRow, JobRow
from models.errors import OverloadedError, RateLimitedError
from service.batches.turns import ACTIVE

_RETRY_AFTER_S: Final = 30  # a batch takes seconds to minutes
_FULL_RETRY_AFTER_S: Final = 3_600  # what is kept goes with the days
_MIB: Final = 1 << 20
_PART_BYTES: Final = 4_096  # what a chunk without content takes at most, its row and its place in the indexes


@dataclass(frozen=True, slots=True)
class Kept:
    """How much the batches of one caller may hold, and for how long finished ones are kept."""

    mib: int
    days: int

    def expect_room(self, n_bytes: int) -> None:
        """Raises RateLimitedError where a caller whose batches hold ``n_bytes`` may not send another."""
        if n_bytes >= self.mib * _MIB:
            raise RateLimitedError(
                f"Your batches hold {-(-n_bytes // _MIB):,} MiB, and those of one caller may hold "
                f"{self.mib:,} MiB; delete one that you have read, or wait: each is removed {self.days} days "
                "after it was finished.",
                retry_after_s=_FULL_RETRY_AFTER_S,
            )


def held_bytes(connection: Connection, owner: str) -> int:
    """What the batches of an owner hold, finished or not: queries, results, and some for each chunk.

    No content is read for it: both databases know how long it is.
    """
    results = func.coalesce(func.length(JobChunkRow.results), 0)
    of_chunk = func.length(JobChunkRow.queries) + results + _PART_BYTES
    of_owner = JobRow.owner == owner
    chunks = select(func.coalesce(func.sum(of_chunk), 0)).select_from(JobChunkRow).join(JobRow)
    shared = select(func.coalesce(func.sum(func.length(JobRow.shared)), 0))
    return sum(int(connection.execute(each.where(of_owner)).scalar_one()) for each in (chunks, shared))


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
