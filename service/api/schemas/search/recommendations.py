"""``POST /v1/recommendations``: seeds and negatives, and the papers akin to them, explained."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from models.errors import QueryError
from service.api.schemas.base import CursorIn, Out, SentenceOut, TookMs, WarningOut, of_answer
from service.api.schemas.search.query import SeedIn, to_seed
from service.api.schemas.search.results import AlignmentOut, ResultOut
from service.api.schemas.search.search import ResultsIn, SpecificityIn, WordsIn
from service.api.schemas.writing import Written, writer
from service.search.query import (
    DEFAULT_NEGATIVE_WEIGHT,
    AskedSeed,
    Reason,
    SearchAnswer,
    SearchQuery,
    Seed,
    SeedReason,
    Strategy,
    UnresolvedSeed,
)

MOST_SEEDS = 500


class RecommendationsShapeIn(ResultsIn):
    """What recommendations should be akin to and unlike, and what to return; not the papers to start from."""

    negatives: Annotated[list[SeedIn], Field(fail_fast=True, max_length=MOST_SEEDS)] = Field(
        default_factory=list, description="Papers that results should be unlike; they are not returned."
    )
    strategy: Annotated[Strategy, Field(strict=False)] = Field(
        default=Strategy.ANY,
        description="Papers similar to any of the seeds (several interests), or to what all seeds share.",
    )
    negative_weight: Annotated[float, Field(ge=0.01, le=1)] = Field(
        default=DEFAULT_NEGATIVE_WEIGHT,
        description="Weight of being far from the negatives, relative to being near to the seeds.",
    )
    words: WordsIn = None
    specificity: SpecificityIn = None

    def to_shape(self, seeds: Iterable[Seed]) -> SearchQuery:
        """The same as a domain value, starting from ``seeds``."""
        return SearchQuery(
            seeds=tuple(seeds),
            negatives=tuple(to_seed(seed) for seed in self.negatives),
            strategy=self.strategy,
            negative_weight=self.negative_weight,
            words=self.words,
            specificity=self.specificity,
            **self.returned(),
            skip_unresolved=True,
            omit_pasted=True,
        )


class FirstRecommendationsIn(RecommendationsShapeIn):
    """Recommendations from their first page: papers to start from and to keep away from, what to return."""

    seeds: Annotated[list[SeedIn], Field(fail_fast=True, min_length=1, max_length=MOST_SEEDS)]

    @model_validator(mode="after")
    def _not_too_many(self) -> "FirstRecommendationsIn":
        if len(self.seeds) + len(self.negatives) > MOST_SEEDS:
            # No ValueError: each list is as a request should have it, which is all that its shape can tell.
            raise QueryError(f"Seeds and negatives are more than {MOST_SEEDS} together; leave some out.")
        return self

    def to_query(self) -> SearchQuery:
        """The same as a domain value."""
        return self.to_shape(map(to_seed, self.seeds))


class RecommendationsIn(FirstRecommendationsIn):
    """Papers to start from, papers to keep away from, and what to return."""

    cursor: CursorIn | None = None


class SeedAlignmentOut(AlignmentOut):
    """As in a search, and which seed: its number in ``seeds``, or, if ``negative``, in ``negatives``.

    Weights sum to about 1 over the seeds and to about minus ``negative_weight`` over the negatives: each
    seed's distances count in units of what is usual for it.
    """

    seed: int
    negative: bool


class RecommendationOut(ResultOut):
    """One paper with its score, higher is better, as in a search."""

    alignments: tuple[SeedAlignmentOut, ...]


class SeedOut(BaseModel):
    """What a seed was taken to be: its sentences, and the numbers of those that counted."""

    seed: int
    negative: bool
    id: str | None
    title: str
    sentences: list[SentenceOut]
    selected: tuple[int, ...]
    dropped_sentences: int

    @classmethod
    def of(cls, seed: AskedSeed) -> "SeedOut":
        """From the domain value."""
        return cls(
            seed=seed.number,
            negative=seed.negative,
            id=seed.paper.id or None,
            title=seed.paper.title,
            sentences=[SentenceOut.model_validate(sentence) for sentence in seed.paper.sentences],
            selected=seed.selected,
            dropped_sentences=seed.dropped_sentences,
        )


class SuggestionOut(Out):
    """A paper that an unknown id may have meant."""

    id: str
    title: str


class UnresolvedOut(BaseModel):
    """A seed, or negative, that could not be used, and why; at most three papers that may have been meant."""

    seed: int
    negative: bool
    reason: SeedReason
    detail: str
    did_you_mean: list[SuggestionOut]

    @classmethod
    def of(cls, lost: UnresolvedSeed) -> "UnresolvedOut":
        """From the domain value."""
        suggested = [SuggestionOut.model_validate(each) for each in lost.did_you_mean]
        return cls(
            seed=lost.number,
            negative=lost.negative,
            reason=lost.reason,
            detail=lost.detail,
            did_you_mean=suggested,
        )


class RecommendationsOut(BaseModel):
    """Ranked papers; ``reason``, and ``detail`` in words, say why where there are none.

    The papers nearest by sentences and by shared words are re-ranked together, hundreds at a time, then the
    next nearest, and so on: within each such stretch scores descend, from one to the next they may rise. A
    score does not depend on its stretch, so whoever has read several pages may sort their papers by it.

    ``seeds`` are those that counted, ``unresolved`` the others; both begin with seeds and end with negatives.
    ``total`` is how many papers the whole list has, on all its pages: those that pass the filters, without
    the seeds and negatives, and 10,000 at most; null where that is not known yet, as for pasted ones, which
    are left out as the list is read. ``next_cursor`` leads to the next page and is null at the end of the
    list, after 10,000 papers at most.
    """

    results: list[RecommendationOut]
    seeds: list[SeedOut]
    unresolved: list[UnresolvedOut]
    total: int | None
    next_cursor: str | None
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[WarningOut, ...]
    coverage: float = Field(description="The share of the collection's papers that was searched.", ge=0, le=1)
    took_ms: TookMs

    @classmethod
    def of(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> "RecommendationsOut":
        """From the domain value and the cursor of its next page."""
        return cls(
            results=[RecommendationOut.model_validate(each) for each in answer.results],
            seeds=[SeedOut.of(seed) for seed in answer.seeds],
            unresolved=[UnresolvedOut.of(lost) for lost in answer.unresolved],
            total=answer.total,
            next_cursor=next_cursor,
            **of_answer(answer),
        )

    @classmethod
    def written(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> Written:
        """What ``of`` gives, as JSON, in a third of the time."""
        rest = cls.of(replace(answer, results=()), next_cursor=next_cursor)
        return Written.of(rest).with_results(_write_results(answer.results))


_write_results = writer(RecommendationOut)
