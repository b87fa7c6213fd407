"""A match as it is asked of a collection: papers beside profiles, the nearest profiles of each, and why."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int64

from models.errors import InputError, PaperNotFoundError
from models.types import Paper
from service.answer_warnings import AnswerWarning
from service.match.affinity import N_NEAREST, Affinities, Reason
from service.match.assignment import Aim, assign
from service.match.nearness import Nearness
from service.search.engine import SearchEngine
from service.search.query import Seed
from service.search.seeds import ReadPaper, SeedReader


@dataclass(frozen=True, slots=True)
class Profile:
    """A named set of papers of the collection, by id, DOI, arXiv id, address or title.

    ``quota`` is how many submissions it is assigned at most; ``None``: as many as every other. ``conflicts``
    are papers that it is never matched with.
    """

    name: str
    papers: tuple[str, ...]
    quota: int | None = None
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shares:
    """How many profiles each submission is assigned, and how many submissions a profile at most."""

    per_submission: int
    per_profile: int
    aim: Aim = Aim.TOTAL


@dataclass(frozen=True, slots=True)
class MatchQuery:
    """Submissions, the profiles to match them with, and what to tell.

    ``conflicts`` are numbers of submissions with names of profiles. Told are the ``limit`` nearest profiles
    of each submission and those assigned, each with ``n_reasons`` papers that make its affinity.
    """

    submissions: tuple[Seed, ...]
    profiles: tuple[Profile, ...]
    conflicts: tuple[tuple[int, str], ...] = ()
    shares: Shares | None = None
    limit: int = 10
    n_reasons: int = 1
    n_nearest: int = N_NEAREST


@dataclass(frozen=True, slots=True)
class MatchedProfile:
    """A profile beside a submission, and the papers that make its affinity, nearest first."""

    name: str
    affinity: float
    assigned: bool
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class MatchedSubmission:
    """A submission and its profiles: those assigned, then the others; each by affinity."""

    paper: Paper
    profiles: tuple[MatchedProfile, ...]


@dataclass(frozen=True, slots=True)
class MatchAnswer:
    """Submissions in the order given. ``unresolved`` are the names, by profile, that no paper here has."""

    submissions: tuple[MatchedSubmission, ...]
    unresolved: Mapping[str, tuple[str, ...]]
    generation: str
    warnings: tuple[AnswerWarning, ...] = field(default=())
    took_ms: float = 0.0


def match(engine: SearchEngine, query: MatchQuery) -> MatchAnswer:
    """Profiles near to each submission, with reasons whose shares x distances make 1 minus the affinity.

    Raises PaperNotFoundError for a submission, InputError for a profile without a paper of the collection or
    an assignment that cannot be; MissingVectorsError, EncoderMismatchError, DeadlineError.
    """
    started = time.perf_counter()
    nearness = Nearness(engine.snapshot)
    reader = SeedReader(engine.snapshot, engine.position, lambda: engine.annotator)
    members, unresolved = _members(engine, query.profiles)
    affinities = Affinities(nearness, members, n_nearest=query.n_nearest)
    submissions = [reader.read(seed) for seed in query.submissions]
    values = affinities.of(submissions)
    conflicts = _conflicts(engine, query, submissions)
    assigned: Sequence[tuple[int, ...]] = [()] * len(submissions)
    if query.shares is not None:
        default = query.shares.per_profile
        quotas = [default if each.quota is None else each.quota for each in query.profiles]
        assigned = assign(
            values,
            per_submission=query.shares.per_submission,
            per_reviewer=np.array(quotas),
            conflicts=conflicts,
            aim=query.shares.aim,
        ).reviewers
    told = []
    for row, submission in enumerate(submissions):
        free = np.where(conflicts[row], -np.inf, values[row])
        nearest = np.argsort(-free, kind="stable")[: query.limit]
        columns = list(dict.fromkeys([*assigned[row], *nearest[np.isfinite(free[nearest])].tolist()]))
        reasons = affinities.reasons(submission, columns, n_told=query.n_reasons)
        profiles = tuple(
            MatchedProfile(
                affinities.names[column],
                float(values[row, column]),
                column in assigned[row],
                tuple(own),
            )
            for column, own in zip(columns, reasons, strict=True)
        )
        told.append(MatchedSubmission(submission.paper, profiles))
    return MatchAnswer(
        tuple(told),
        unresolved,
        engine.snapshot.generation,
        tuple(dict.fromkeys(each for submission in submissions for each in submission.warnings)),
        (time.perf_counter() - started) * 1000,
    )


def _members(
    engine: SearchEngine, profiles: Sequence[Profile]
) -> tuple[dict[str, Int64[np.ndarray, "..."]], dict[str, tuple[str, ...]]]:
    """The positions of each profile's papers, and the names that no paper has."""
    members: dict[str, Int64[np.ndarray, ...]] = {}
    unresolved: dict[str, tuple[str, ...]] = {}
    for profile in profiles:
        if profile.name in members:
            raise InputError(f"There are two profiles named {profile.name[:80]!r}; name each differently.")
        found, lost = [], []
        for name in profile.papers:
            try:
                found.append(engine.position(name))
            except PaperNotFoundError:
                lost.append(name)
        members[profile.name] = np.array(found, dtype=np.int64)
        if lost:
            unresolved[profile.name] = tuple(lost)
    return members, unresolved


def _conflicts(
    engine: SearchEngine, query: MatchQuery, submissions: Sequence[ReadPaper]
) -> Bool[np.ndarray, "n_submissions n_profiles"]:
    places = {profile.name: column for column, profile in enumerate(query.profiles)}
    marked = np.zeros((len(submissions), len(places)), dtype=bool)
    for row, name in query.conflicts:
        if row >= len(submissions) or name not in places:
            raise InputError(
                f"A conflict names submission {row} and profile {name[:80]!r}; submissions are numbers from "
                f"0 to {len(submissions) - 1}, profiles those of this request."
            )
        marked[row, places[name]] = True
    positions = [submission.position for submission in submissions]
    for column, profile in enumerate(query.profiles):
        for name in profile.conflicts:
            with suppress(PaperNotFoundError):  # a submission that was given is there
                position = engine.position(name)
                marked[[row for row, own in enumerate(positions) if own == position], column] = True
    return marked
