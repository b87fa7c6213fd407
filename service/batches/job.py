"""A batch job: its state, its chunks, and a worker's lease."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """How far a job is; the last two are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def active(self) -> bool:
        """Whether its queries are still to be worked off."""
        return self in {JobState.QUEUED, JobState.RUNNING}


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job: how many queries, how many are done, and how many of these ended in a problem.

    Times are Unix seconds. ``error`` says why it failed.
    """

    id: str
    owner: str
    generation: str
    state: JobState
    n_queries: int
    n_done: int
    n_problems: int
    error: str | None
    created_at: int
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class ChunkContent:
    """The queries of a chunk as bytes that only who answers them reads, and how many they are."""

    n_queries: int
    queries: bytes


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be: whose, of what content, on which generation."""

    owner: str
    idempotency_key: str | None
    body_hash: str
    generation: str
    shared: bytes
    chunks: Sequence[ChunkContent]


@dataclass(frozen=True, slots=True)
class LeasedChunk:
    """A chunk that one worker may work on: the queries from number ``first`` on, and what all share."""

    job_id: str
    number: int
    first: int
    n_queries: int
    queries: bytes
    lease: str
    generation: str
    shared: bytes


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many chunks wait to be worked on, and how many are being worked on."""

    n_waiting: int
    n_leased: int


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results of the chunk whose first query is number ``first``.

    ``queries`` and what they share, as of LeasedChunk, where they were asked for.
    """

    first: int
    n_queries: int
    results: bytes
    queries: bytes = b""
    shared: bytes = b""
