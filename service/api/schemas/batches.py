"""``/v1/batches``: many searches asked for together, and how far they are."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field, Tag

from service.api.schemas.base import Strict, kind_of, tag
from service.api.schemas.search import FirstPageIn, SearchShapeIn, SeedIn, to_seed
from service.batches.job import Job, JobState
from service.search.aspect import Aspect
from service.search.query import SearchQuery, Seed

MOST_QUERIES = 10_000


class SeedsBatchIn(SearchShapeIn):
    """A search for each of many papers, all of one shape."""

    seeds: Annotated[list[SeedIn], Field(fail_fast=True, min_length=1, max_length=MOST_QUERIES)] = Field(
        description="Names of indexed papers, or seeds as in recommendations, each of which may have an "
        "aspect of its own; all other fields go for each of them."
    )

    @property
    def names(self) -> list[str]:
        """The seeds, where all are names of papers."""
        names = [seed for seed in self.seeds if isinstance(seed, str)]
        return names if len(names) == len(self.seeds) else []

    def to_queries(self) -> list[SearchQuery]:
        """What to ask; where all seeds are ``names``, the one query that is asked for each of them."""
        shared = self.to_shape(Seed())
        if self.names:
            return [shared]
        (own,) = shared.seeds
        seeds = map(to_seed, self.seeds)
        return [
            replace(shared, seeds=(replace(seed, aspect=own.aspect) if seed.aspect == Aspect() else seed,))
            for seed in seeds
        ]


class QueriesBatchIn(Strict):
    """Many searches, each of its own shape."""

    queries: Annotated[list[FirstPageIn], Field(fail_fast=True, min_length=1, max_length=MOST_QUERIES)] = (
        Field(description="Bodies of /v1/search without cursor.")
    )
    names: ClassVar[tuple[()]] = ()

    def to_queries(self) -> list[SearchQuery]:
        """What to ask."""
        return [query.to_query() for query in self.queries]


BatchIn = Annotated[
    Annotated[SeedsBatchIn, Tag(tag("seeds"))] | Annotated[QueriesBatchIn, Tag(tag("queries"))],
    kind_of("seeds", "queries", problem="give either seeds or queries"),
]


class BatchOut(BaseModel):
    """How far a batch is: of its ``queries`` so many are ``done``, of these ``problems`` without an answer.

    The first ``ready`` results can be read. Times are in UTC (RFC 3339); ``error`` says why it failed.
    """

    id: str
    state: JobState
    generation: str
    queries: int
    done: int
    problems: int
    ready: int
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    results: str

    @classmethod
    def of(cls, job: Job, *, n_ready: int) -> "BatchOut":
        """From the domain value."""
        return cls(
            id=job.id,
            state=job.state,
            generation=job.generation,
            queries=job.n_queries,
            done=job.n_done,
            problems=job.n_problems,
            ready=n_ready,
            error=job.error,
            created_at=_time(job.created_at),
            finished_at=None if job.finished_at is None else _time(job.finished_at),
            results=f"/v1/batches/{job.id}/results",
        )


def _time(unix_s: int) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)
