"""``/v1/batches``: many searches asked for together, and how far they are."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from indexer.job import Job, JobState
from service.api.schemas.alternatives import Shape, any_of
from service.api.schemas.base import PaperId
from service.api.schemas.search import FirstPageIn, SearchShapeIn
from service.search.query import SearchQuery, Seed

MOST_QUERIES = 10_000


_ONE_KIND = (
    Shape(["seeds"], null=["queries", "facet"]),
    Shape(["seeds"], null=["queries", "sentences"]),
    Shape(["queries"], null=["seeds"], alone=True),
)


class BatchIn(SearchShapeIn):
    """Many searches: ``queries``, each of its own shape, or one shape for every paper of ``seeds``."""

    model_config = ConfigDict(json_schema_extra=any_of(_ONE_KIND))

    seeds: Annotated[list[PaperId], Field(fail_fast=True, min_length=1, max_length=MOST_QUERIES)] | None = (
        Field(default=None, description="Ids of indexed papers; all other fields go for each of them.")
    )
    queries: (
        Annotated[list[FirstPageIn], Field(fail_fast=True, min_length=1, max_length=MOST_QUERIES)] | None
    ) = Field(default=None, description="Bodies of /v1/search without cursor; no other field goes with them.")

    @model_validator(mode="after")
    def _one_kind(self) -> "BatchIn":
        if (self.seeds is None) == (self.queries is None):
            raise ValueError("give either seeds or queries")
        if self.queries is not None and self.model_fields_set - {"queries", "seeds"}:
            raise ValueError("with queries, what to look for and return stands in each of them")
        return self

    def to_queries(self) -> list[SearchQuery]:
        """What to ask; with ``seeds`` the one query that is asked for each of them."""
        if self.queries is not None:
            return [query.to_query() for query in self.queries]
        return [self.to_shape(Seed())]


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
