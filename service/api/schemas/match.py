"""``POST /v1/match``: the profiles, such as reviewers by their papers, nearest to each submission."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field, Tag, model_validator

from models.types import Paper
from service.api.schemas.base import WHOLE, Out, PaperName, Strict, TookMs, WarningOut, tag
from service.api.schemas.saved.profiles import MAX_PAPERS, Papers, ProfileName, Quota
from service.api.schemas.search.filters import Names
from service.api.schemas.search.query import BY_KIND, IndexedIn, PastedIn, TextIn
from service.api.schemas.search.results import AlignmentOut, OmittedOut, WordsOut
from service.api.schemas.search.sentences import PaperSummaryOut
from service.match.affinity import N_NEAREST
from service.match.assignment import Aim
from service.match.query import (
    AssignmentLimits,
    MatchAnswer,
    MatchedProfile,
    MatchedSubmission,
    MatchOptions,
    MatchQuery,
    Profile,
    at_most,
)

MAX_SUBMISSIONS = 50
MAX_PROFILES = 1_000

MAX_CONFLICTS = 10_000
MAX_NEAREST = 100
# Reasons of one answer, each with up to 64 alignments.
MAX_REASONS = 2_000


class PastedSubmissionIn(PastedIn):
    """A title, an abstract, and the authors, as far as they are known."""

    authors: Names = Field(
        default_factory=list, description="Profiles with the name of one of them are in conflict."
    )

    def to_paper(self) -> Paper:
        """Return the paper with its authors; it has sentences if the abstract is a list."""
        return replace(super().to_paper(), authors=tuple(self.authors))


SubmissionIn = Annotated[
    Annotated[IndexedIn, Tag(tag("paper_id"))]
    | Annotated[PastedSubmissionIn, Tag(tag("abstract"))]
    | Annotated[TextIn, Tag(tag("text"))],
    BY_KIND,
]


class ProfileIn(Strict):
    """A named set of papers, as of a reviewer or a reading list; without papers, a saved profile by name."""

    name: ProfileName
    papers: Annotated[list[PaperName], Field(fail_fast=True, min_length=1, max_length=MAX_PAPERS)] | None = (
        Field(
            default=None,
            description="Papers of the collection by id, DOI, arXiv id, address or title; null: those of "
            "the saved profile with this name, with its conflicts and quota.",
        )
    )
    conflicts: Papers = Field(
        default_factory=list, description="Papers that the profile is never matched with."
    )
    quota: Quota | None = Field(
        default=None, description="Maximum number of submissions assigned to the profile; null: per_profile."
    )

    def to_profile(self, kept: Mapping[str, Profile]) -> Profile:
        """Return the domain value, or the saved profile of this name with the given quota and conflicts."""
        if self.papers is not None:
            return Profile(self.name, tuple(self.papers), self.quota, tuple(self.conflicts))
        own = kept[self.name]
        quota = own.quota if self.quota is None else self.quota
        return Profile(own.name, own.papers, quota, (*own.conflicts, *self.conflicts))


class ConflictIn(Strict):
    """A submission, by its number from 0, and a profile that is never assigned to it or listed for it."""

    submission: Annotated[int, Field(ge=0, lt=MAX_SUBMISSIONS), WHOLE]
    profile: ProfileName


class AssignIn(Strict):
    """How many profiles each submission is assigned, and how many submissions a profile gets at most."""

    per_submission: Annotated[int, Field(ge=1, le=20), WHOLE] = 3
    per_profile: Quota = 6
    aim: Annotated[Aim, Field(strict=False)] = Field(
        default=Aim.TOTAL, description="Maximise the sum of all affinities, or the smallest one."
    )


class MatchShapeIn(Strict):
    """How to match submissions with profiles, and what to return for each."""

    reasons: Annotated[int, Field(ge=0, le=MAX_NEAREST), WHOLE] = Field(
        default=1, description="Number of papers listed for each of them, nearest first."
    )
    own_conflicts: bool = Field(
        default=True,
        description="Whether a submission is in conflict with the profiles that hold it, and with those that "
        "have the name of one of its authors; set it to false for lists of papers.",
    )
    nearest: Annotated[int, Field(ge=1, le=MAX_NEAREST), WHOLE] = Field(
        default=N_NEAREST, description="Number of a profile's nearest papers that count for an affinity."
    )


class MatchIn(MatchShapeIn):
    """Submissions, the profiles to match them with, and what to return."""

    submissions: Annotated[
        list[SubmissionIn], Field(fail_fast=True, min_length=1, max_length=MAX_SUBMISSIONS)
    ] = Field(
        description="Papers of the collection or pasted ones, as queries of /v1/search, with their authors."
    )
    profiles: Annotated[list[ProfileIn], Field(fail_fast=True, min_length=1, max_length=MAX_PROFILES)]
    conflicts: Annotated[list[ConflictIn], Field(fail_fast=True, max_length=MAX_CONFLICTS)] = Field(
        default_factory=list
    )
    assign: AssignIn | None = Field(default=None, description="Whether, and how, to assign profiles.")
    limit: Annotated[int, Field(ge=0, le=100), WHOLE] = Field(
        default=10, description="The nearest profiles listed for each submission, besides those assigned."
    )

    @model_validator(mode="after")
    def _bounded(self) -> "MatchIn":
        n_returned = len(self.submissions) * (self.limit + (self.assign.per_submission if self.assign else 0))
        if n_returned * self.reasons > MAX_REASONS:
            raise ValueError(
                f"{len(self.submissions)} submissions x {n_returned // len(self.submissions)} profiles x "
                f"{self.reasons} reasons are more than {MAX_REASONS}; give a lower limit or fewer reasons"
            )
        return self

    @property
    def named(self) -> list[str]:
        """The names of the profiles that are given without papers."""
        return named_alone(self.profiles)

    def to_query(self, kept: Mapping[str, Profile]) -> MatchQuery:
        """Return the domain value; raises QueryError if the profiles hold too many papers or conflicts."""
        assign = self.assign
        return MatchQuery(
            tuple(each.to_seed() for each in self.submissions),
            to_profiles(self.profiles, kept, most_papers=MAX_PAPERS),
            tuple((each.submission, each.profile) for each in self.conflicts),
            None
            if assign is None
            else AssignmentLimits(assign.per_submission, assign.per_profile, assign.aim),
            MatchOptions(self.limit, self.reasons, self.nearest),
            self.own_conflicts,
        )


def named_alone(profiles: Sequence[ProfileIn]) -> list[str]:
    """Return the names of the profiles that are given without papers."""
    return [profile.name for profile in profiles if profile.papers is None]


def to_profiles(
    given: Sequence[ProfileIn], kept: Mapping[str, Profile], *, most_papers: int
) -> tuple[Profile, ...]:
    """Return the domain values; raises QueryError for over ``most_papers`` papers or conflicts in all."""
    return tuple(at_most(most_papers, (each.to_profile(kept) for each in given)))


class ReasonOut(BaseModel):
    """A paper of a profile, and the parts of its distance from the submission, which is minus its ``score``.

    ``share`` is how much of the affinity is lost per unit of distance.
    """

    paper: PaperSummaryOut
    share: float
    score: float
    alignments: list[AlignmentOut]
    omitted: list[OmittedOut]
    words: WordsOut


class MatchedProfileOut(BaseModel):
    """A profile: its affinity is 1 for the same text and about 0 if no more is shared than is usual.

    The affinity is 1 plus the sum of share x score over ``reasons``, plus ``rest``, the same sum over papers
    that are not listed. ``papers`` is the number of its papers that are in the collection.
    """

    profile: str
    affinity: float
    papers: int
    assigned: bool
    reasons: list[ReasonOut]
    rest: float

    @classmethod
    def of(cls, matched: MatchedProfile) -> "MatchedProfileOut":
        """Build from the domain value."""
        return cls(
            profile=matched.name,
            affinity=matched.affinity,
            papers=matched.n_papers,
            assigned=matched.assigned,
            reasons=[
                ReasonOut(
                    paper=PaperSummaryOut.model_validate(each.ranked.paper),
                    share=each.share,
                    score=each.ranked.score,
                    alignments=[AlignmentOut.model_validate(cell) for cell in each.ranked.alignments],
                    omitted=[OmittedOut.model_validate(cell) for cell in each.ranked.omitted],
                    words=WordsOut.model_validate(each.ranked.words),
                )
                for each in matched.reasons
            ],
            rest=matched.rest,
        )


class MatchedSubmissionOut(BaseModel):
    """A submission and its profiles: those assigned, then the nearest others; both sorted by affinity."""

    submission: int
    id: str | None
    title: str
    profiles: list[MatchedProfileOut]

    @classmethod
    def of(cls, number: int, matched: MatchedSubmission) -> "MatchedSubmissionOut":
        """Build from the domain value of submission ``number``."""
        return cls(
            submission=number,
            id=matched.paper.id or None,
            title=matched.paper.title,
            profiles=[MatchedProfileOut.of(each) for each in matched.profiles],
        )


class LostPapersOut(Out):
    """Papers and conflicts of a profile that the collection does not hold; they do not count."""

    profile: str
    papers: Sequence[str]


class MatchOut(BaseModel):
    """Submissions in the order given, with the profiles nearest to each."""

    submissions: list[MatchedSubmissionOut]
    unresolved: list[LostPapersOut]
    generation: str
    warnings: tuple[WarningOut, ...]
    took_ms: TookMs

    @classmethod
    def of(cls, answer: MatchAnswer) -> "MatchOut":
        """Build from the domain value."""
        return cls(
            submissions=[
                MatchedSubmissionOut.of(number, each) for number, each in enumerate(answer.submissions)
            ],
            unresolved=[LostPapersOut(profile=name, papers=own) for name, own in answer.unresolved.items()],
            generation=answer.generation,
            warnings=tuple(WarningOut.model_validate(each) for each in answer.warnings),
            took_ms=round(answer.took_ms, 3),
        )
