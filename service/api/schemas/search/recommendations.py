"""``POST /v1/recommendations``: seeds and negatives, and recommended papers with explanations."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from models.errors import QueryError
from service.api.schemas.base import CursorIn, Out, SentenceOut, TookMs, WarningOut, of_answer
from service.api.schemas.search.query import SeedIn, to_seed
from service.api.schemas.search.results import AlignmentOut, OmittedOut, ResultOut
from service.api.schemas.search.search import ResultsIn, SpecificityIn, WordsIn
from service.api.schemas.writing import JSONAnswer, writer
from service.search.query import (
    DEFAULT_NEGATIVE_WEIGHT,
    Reason,
    SearchAnswer,
    SearchQuery,
    Seed,
    SeedReason,
    Strategy,
    UnresolvedSeed,
    UsedSeed,
)

MAX_SEEDS = 500


class RecommendationsShapeIn(ResultsIn):
    """How to recommend papers: the negatives and what to return, without the papers to start from."""

    negatives: Annotated[list[SeedIn], Field(fail_fast=True, max_length=MAX_SEEDS)] = Field(
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
        """Return the domain value, starting from ``seeds``."""
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
    """The first page of recommendations: papers to start from, papers to be unlike, and what to return."""

    seeds: Annotated[list[SeedIn], Field(fail_fast=True, min_length=1, max_length=MAX_SEEDS)]

    @model_validator(mode="after")
    def _not_too_many(self) -> "FirstRecommendationsIn":
        if len(self.seeds) + len(self.negatives) > MAX_SEEDS:
            # Not a ValueError: each list is valid, and the shape of a request cannot express a sum.
            raise QueryError(f"Seeds and negatives are more than {MAX_SEEDS} together; leave some out.")
        return self

    def to_query(self) -> SearchQuery:
        """Return the domain value."""
        return self.to_shape(map(to_seed, self.seeds))


class RecommendationsIn(FirstRecommendationsIn):
    """Papers to start from, papers to be unlike, and what to return."""

    cursor: CursorIn | None = None


class SeedAlignmentOut(AlignmentOut):
    """An alignment as in a search, and its seed: the number in ``seeds`` or, if ``negative``, ``negatives``.

    Weights sum to about 1 over the seeds and to about minus ``negative_weight`` over the negatives: the
    distances of each seed count in units of what is usual for this seed.
    """

    seed: int
    negative: bool


class SeedOmittedOut(OmittedOut):
    """The sum of the alignments of one seed or negative with the smallest weights, as in a search.

    At most the 16 seeds or negatives with the largest sums have their own; ``seed`` is null for the others.
    """

    seed: int | None
    negative: bool


class RecommendationOut(ResultOut):
    """One paper with its score, as in a search; higher is better.

    The weights of ``alignments`` and ``omitted`` together are how much each seed counts for this paper.
    """

    alignments: tuple[SeedAlignmentOut, ...]
    omitted: tuple[SeedOmittedOut, ...]


class SeedOut(BaseModel):
    """How a seed was read: its sentences, and the numbers of those that counted."""

    seed: int
    negative: bool
    id: str | None
    title: str
    sentences: list[SentenceOut]
    selected: tuple[int, ...]
    dropped_sentences: int

    @classmethod
    def of(cls, seed: UsedSeed) -> "SeedOut":
        """Build from the domain value."""
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
    """A paper that an unknown id may refer to."""

    id: str
    title: str


class UnresolvedOut(BaseModel):
    """A seed or negative that could not be used, the reason, and up to three papers that it may refer to."""

    seed: int
    negative: bool
    reason: SeedReason
    detail: str
    did_you_mean: list[SuggestionOut]

    @classmethod
    def of(cls, lost: UnresolvedSeed) -> "UnresolvedOut":
        """Build from the domain value."""
        suggested = [SuggestionOut.model_validate(each) for each in lost.did_you_mean]
        return cls(
            seed=lost.number,
            negative=lost.negative,
            reason=lost.reason,
            detail=lost.detail,
            did_you_mean=suggested,
        )


class RecommendationsOut(BaseModel):
    """Ranked papers; if there are none, ``reason``, and ``detail`` in words, say why.

    The papers nearest by sentences and by shared words are re-ranked together, a block of hundreds at a time:
    within a block scores descend, from one block to the next they may rise. A score does not depend on its
    block, so the papers of several pages may be sorted by score.

    ``seeds`` are those that counted, ``unresolved`` the others; both list seeds first, then negatives.
    ``total`` is the number of papers of the whole list, on all pages: those that pass the filters, without
    the seeds and negatives, and 10,000 at most; null if it is not known yet, as with pasted papers, which
    are left out while the list is read. ``next_cursor`` leads to the next page and is null at the end of the
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
        """Build from the domain value and the cursor of its next page."""
        return cls(
            results=[RecommendationOut.model_validate(each) for each in answer.results],
            seeds=[SeedOut.of(seed) for seed in answer.seeds],
            unresolved=[UnresolvedOut.of(lost) for lost in answer.unresolved],
            total=answer.total,
            next_cursor=next_cursor,
            **of_answer(answer),
        )

    @classmethod
    def written(cls, answer: SearchAnswer, *, next_cursor: str | None = None) -> JSONAnswer:
        """Return the answer of ``of`` as JSON, in a third of the time."""
        rest = cls.of(replace(answer, results=()), next_cursor=next_cursor)
        return JSONAnswer.of(rest).with_results(_write_results(answer.results))


_write_results = writer(RecommendationOut)
