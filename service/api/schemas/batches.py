"""``/v1/batches``: many searches, recommendations or matches in the background."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, Tag

from models.errors import QueryError
from service.api.schemas.base import WHOLE, PaperName, Strict, kind_of, tag, utc_time
from service.api.schemas.match import (
    MAX_REASONS,
    MatchShapeIn,
    ProfileIn,
    SubmissionIn,
    named_alone,
    to_profiles,
)
from service.api.schemas.saved.profiles import ProfileName
from service.api.schemas.search.query import SeedIn
from service.api.schemas.search.recommendations import (
    MAX_SEEDS,
    FirstRecommendationsIn,
    RecommendationsShapeIn,
)
from service.api.schemas.search.search import FirstPageIn, SearchShapeIn
from service.batches.content import BatchContent
from service.batches.job import Job, JobState
from service.match.program.names import MAX_NAME_CHARS
from service.match.query import MatchOptions, MatchQuery, Profile
from service.search.query import Seed

MAX_QUERIES = 10_000
MAX_PROFILES = 5_000
# Submissions x profiles listed for each: about 90 bytes of JSON per pair.
MAX_PAIRS = 10_000_000
# Papers of all recommendations, or of all profiles, of a batch: 5,000 readers with 40 papers each.
MAX_TOTAL_SEEDS = 200_000
# Batches on one page of the list.
MAX_LISTED = 100
# Each counts as five of the 500,000 values of a body; a tenth of them is left for the rest.
MAX_CONFLICTS = 90_000


class SeedsBatchIn(SearchShapeIn):
    """One search for each of many papers, all with the same options."""

    seeds: Annotated[list[SeedIn], Field(fail_fast=True, min_length=1, max_length=MAX_QUERIES)] = Field(
        description="Names of indexed papers, or seeds as in recommendations, each of which may have its "
        "own aspect; all other fields apply to each of them."
    )

    def to_content(self) -> BatchContent:
        """Return the one query that is repeated for each of the seeds."""
        seeds = (seed if isinstance(seed, str) else (seed.to_seed(),) for seed in self.seeds)
        return BatchContent((self.to_shape(Seed()),), seeds=tuple(seeds))


class QueriesBatchIn(Strict):
    """Many searches, each with its own options."""

    queries: Annotated[list[FirstPageIn], Field(fail_fast=True, min_length=1, max_length=MAX_QUERIES)] = (
        Field(description="Bodies of /v1/search without cursor.")
    )

    def to_content(self) -> BatchContent:
        """Return the queries."""
        return BatchContent(tuple(query.to_query() for query in self.queries))


class NamedRecommendationsIn(FirstRecommendationsIn):
    """Recommendations, and a name for their result."""

    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = ""


class RecommendationsBatchIn(Strict):
    """Many recommendations, each with its own options."""

    recommendations: Annotated[
        list[NamedRecommendationsIn], Field(fail_fast=True, min_length=1, max_length=MAX_QUERIES)
    ] = Field(description="Bodies of /v1/recommendations without cursor, each with an optional name.")

    def to_content(self) -> BatchContent:
        """Return the queries; raises QueryError if there are too many seeds and negatives."""
        _expect_seeds(sum(len(each.seeds) + len(each.negatives) for each in self.recommendations))
        return BatchContent(
            tuple(each.to_query() for each in self.recommendations),
            names=tuple(each.name for each in self.recommendations),
        )


class ReaderIn(Strict):
    """A named set of papers to start from, as of a reader or lab; without papers, a saved profile by name."""

    name: ProfileName
    papers: Annotated[list[PaperName], Field(fail_fast=True, min_length=1, max_length=MAX_SEEDS)] | None = (
        None
    )


class ProfilesBatchIn(RecommendationsShapeIn):
    """Recommendations for each of many profiles, all with the same options."""

    profiles: Annotated[list[ReaderIn], Field(fail_fast=True, min_length=1, max_length=MAX_QUERIES)] = Field(
        description="Sets of papers; all other fields apply to each of them."
    )

    @property
    def named(self) -> list[str]:
        """The names of the profiles that are given without papers."""
        return [profile.name for profile in self.profiles if profile.papers is None]

    def to_content(self, kept: Mapping[str, Profile]) -> BatchContent:
        """Return the one query that is repeated for each profile; raises QueryError for too many papers."""
        seeds = [
            kept[each.name].papers if each.papers is None else tuple(each.papers) for each in self.profiles
        ]
        n_seeds = [len(each) + len(self.negatives) for each in seeds]
        if max(n_seeds) > MAX_SEEDS:
            raise QueryError(
                f"The papers of profile {n_seeds.index(max(n_seeds))} (from 0) and the negatives are "
                f"{max(n_seeds)}, more than {MAX_SEEDS} together; leave some out."
            )
        _expect_seeds(sum(n_seeds))
        return BatchContent(
            (self.to_shape([Seed()]),),
            seeds=tuple(tuple(map(Seed, each)) for each in seeds),
            names=tuple(each.name for each in self.profiles),
        )


def _expect_seeds(n_seeds: int) -> None:
    if n_seeds > MAX_TOTAL_SEEDS:
        raise QueryError(
            f"The batch holds {n_seeds} seeds and negatives, more than {MAX_TOTAL_SEEDS}; split the batch."
        )


class BatchConflictIn(Strict):
    """A submission, by its number from 0, and a profile that is not listed for it."""

    submission: Annotated[int, Field(ge=0, lt=MAX_QUERIES), WHOLE]
    profile: ProfileName


class LargeMatchIn(MatchShapeIn):
    """Submissions and the profiles to match each of them with, as in /v1/match, but without assignment."""

    submissions: Annotated[
        list[SubmissionIn], Field(fail_fast=True, min_length=1, max_length=MAX_QUERIES)
    ] = Field(
        description="Papers of the collection or pasted ones, as queries of /v1/search, with their authors."
    )
    profiles: Annotated[list[ProfileIn], Field(fail_fast=True, min_length=1, max_length=MAX_PROFILES)]
    conflicts: Annotated[list[BatchConflictIn], Field(fail_fast=True, max_length=MAX_CONFLICTS)] = Field(
        default_factory=list
    )
    limit: Annotated[int, Field(ge=0, le=MAX_PROFILES), WHOLE] = Field(
        default=10,
        description="The nearest profiles to list per submission; with `reasons` 0, any number is allowed.",
    )


class MatchBatchIn(Strict):
    """A match of thousands of submissions; each submission is one query of the batch."""

    match: LargeMatchIn

    @property
    def named(self) -> list[str]:
        """The names of the profiles that are given without papers."""
        return named_alone(self.match.profiles)

    def to_content(self, kept: Mapping[str, Profile]) -> MatchQuery:
        """Return the match; raises QueryError if it would list or read more than a batch may."""
        match = self.match
        if match.limit * match.reasons > MAX_REASONS:
            raise QueryError(
                f"{match.limit} profiles x {match.reasons} reasons are more than {MAX_REASONS} for a "
                "submission; lower limit or reasons."
            )
        if (n_pairs := len(match.submissions) * match.limit) > MAX_PAIRS:
            raise QueryError(
                f"{len(match.submissions)} submissions x {match.limit} profiles are {n_pairs} pairs, "
                f"more than {MAX_PAIRS}; lower limit or match them in parts."
            )
        return MatchQuery(
            tuple(each.to_seed() for each in match.submissions),
            to_profiles(match.profiles, kept, most_papers=MAX_TOTAL_SEEDS),
            tuple((each.submission, each.profile) for each in match.conflicts),
            options=MatchOptions(match.limit, match.reasons, match.nearest),
            own_conflicts=match.own_conflicts,
        )


BatchIn = Annotated[
    Annotated[SeedsBatchIn, Tag(tag("seeds"))]
    | Annotated[QueriesBatchIn, Tag(tag("queries"))]
    | Annotated[RecommendationsBatchIn, Tag(tag("recommendations"))]
    | Annotated[ProfilesBatchIn, Tag(tag("profiles"))]
    | Annotated[MatchBatchIn, Tag(tag("match"))],
    kind_of(
        "seeds",
        "queries",
        "recommendations",
        "profiles",
        "match",
        problem="give one of seeds, queries, recommendations, profiles and match",
    ),
]


class BatchOut(BaseModel):
    """The state of a batch: how many of its ``queries`` are ``done``, and how many of these are ``problems``.

    Problems have no answer. The first ``ready`` results can be read. Times are in UTC (RFC 3339); ``error``
    says why the batch failed. ``owner`` is the id of the key that started it, empty without keys.
    """

    id: str
    owner: str
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
    def of(cls, job: Job, n_ready: int) -> "BatchOut":
        """Build from the domain value."""
        return cls(
            id=job.id,
            owner=job.owner,
            state=job.state,
            generation=job.generation,
            queries=job.n_queries,
            done=job.n_done,
            problems=job.n_problems,
            ready=n_ready,
            error=job.error,
            created_at=utc_time(job.created_at),
            finished_at=None if job.finished_at is None else utc_time(job.finished_at),
            results=f"/v1/batches/{job.id}/results",
        )


class BatchListOut(BaseModel):
    """Batches, the last started first; ``next_after`` leads to the next page, null at the end."""

    batches: list[BatchOut]
    next_after: str | None
