"""A batch job: its state, its chunks, and a worker's lease."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """The state of a job; the last two are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def active(self) -> bool:
        """Whether queries of the job are still to be answered."""
        return self in {JobState.QUEUED, JobState.RUNNING}


@dataclass(frozen=True, slots=True)
class Job:
    """A job: how many queries it has, how many are done, and how many of these ended in a problem.

    Times are Unix seconds. ``error`` says why the job failed.
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
    """The queries of a chunk, as bytes that only the worker decodes, and their number."""

    n_queries: int
    queries: bytes


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be stored: its owner, content and generation."""

    owner: str
    idempotency_key: str | None
    body_hash: str
    generation: str
    shared: bytes
    chunks: Sequence[ChunkContent]


@dataclass(frozen=True, slots=True)
class LeasedChunk:
    """A chunk leased to one worker: the queries starting with number ``first``, and what they share.

    ``attempts`` counts the workers that took the chunk, this one included.
    """

    job_id: str
    number: int
    first: int
    n_queries: int
    attempts: int
    queries: bytes
    lease: str
    generation: str
    shared: bytes


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of chunks that wait for a worker, and of those that a worker holds."""

    n_waiting: int
    n_leased: int


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results of the chunk whose first query is number ``first``.

    ``queries`` and ``shared`` are those of LeasedChunk, if they were requested.
    """

    first: int
    n_queries: int
    results: bytes
    queries: bytes = b""
    shared: bytes = b""
