"""The types of a match: submissions, profiles, and the answer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from models.errors import InputError, QueryError
from models.types import Paper
from service.answer_warnings import AnswerWarning
from service.match.affinity import N_NEAREST, Reason
from service.match.assignment import Aim
from service.search.query import Seed


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of papers of the collection, by id, DOI, arXiv id, address or title.

    ``quota`` is the most submissions it is assigned; ``None``: the default of all profiles. ``conflicts`` are
    papers that it is never matched with.
    """

    name: str
    papers: tuple[str, ...]
    quota: int | None = None
    conflicts: tuple[str, ...] = ()


def at_most(most_papers: int, profiles: Iterable[Profile]) -> Iterator[Profile]:
    """Yield the profiles; raises QueryError once they hold over ``most_papers`` papers or conflicts."""
    n_papers = n_conflicts = 0
    for profile in profiles:
        n_papers += len(profile.papers)
        n_conflicts += len(profile.conflicts)
        if max(n_papers, n_conflicts) > most_papers:
            raise QueryError(
                f"The profiles hold more than {most_papers} papers, or more than {most_papers} conflicts; "
                "send fewer profiles at a time."
            )
        yield profile


@dataclass(frozen=True, slots=True)
class AssignmentLimits:
    """How many profiles each submission is assigned, and the most submissions of a profile."""

    per_submission: int
    per_profile: int
    aim: Aim = Aim.TOTAL


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """What to return for each submission: its ``limit`` nearest profiles, each with ``n_reasons`` papers.

    The ``n_nearest`` nearest papers of a profile determine its affinity.
    """

    limit: int = 10
    n_reasons: int = 1
    n_nearest: int = N_NEAREST


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """Submissions, the profiles to match them with, and what to return in addition to assigned profiles.

    ``conflicts`` are pairs of a submission's number and a profile's name. With ``own_conflicts``, submissions
    also conflict with profiles that contain them or have the name of an author.
    """

    submissions: tuple[Seed, ...]
    profiles: tuple[Profile, ...]
    conflicts: tuple[tuple[int, str], ...] = ()
    shares: AssignmentLimits | None = None
    # Stored batches have the options under this other name.
    options: Annotated[MatchOptions, Field(alias="told")] = MatchOptions()
    own_conflicts: bool = True

    def conflicts_by_submission(self) -> list[tuple[str, ...]]:
        """Return the profiles that conflict with each submission; raises InputError for an unknown number."""
        named: list[list[str]] = [[] for _ in self.submissions]
        for number, name in self.conflicts:
            if number >= len(named):
                raise InputError(
                    f"A conflict names submission {number}; expected a number from 0 to {len(named) - 1}."
                )
            named[number].append(name)
        return [tuple(own) for own in named]


@dataclass(frozen=True, slots=True)
class Submission:
    """A single submission, and the names of profiles in conflict with it."""

    seed: Seed
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchedProfile:
    """A profile matched with a submission, and the papers that determine its affinity, nearest first.

    The affinity is 1 plus the sum of share x score over ``reasons``, plus ``rest``, the sum over papers that
    are not returned. ``n_papers`` of the profile's papers are in the collection.
    """

    name: str
    affinity: float
    n_papers: int
    assigned: bool
    reasons: tuple[Reason, ...]
    rest: float


@dataclass(frozen=True, slots=True)
class MatchedSubmission:
    """A submission and its profiles: the assigned ones, then the others, both by affinity."""

    paper: Paper
    profiles: tuple[MatchedProfile, ...]
    warnings: tuple[AnswerWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchAnswer:
    """Submissions in the order given, and names that no paper of the collection has.

    The ``unresolved`` names are listed by profile; they come from its papers or its conflicts.
    """

    submissions: tuple[MatchedSubmission, ...]
    unresolved: Mapping[str, Sequence[str]]
    generation: str
    warnings: tuple[AnswerWarning, ...] = ()
    took_ms: float = 0.0
