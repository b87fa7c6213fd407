"""The answer of a match: the nearest profiles of each submission, and why."""

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain, islice

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.errors import DeadlineError, InputError
from service.match.affinity import Affinities, Reasons, nearest_without_conflicts
from service.match.assignment import assign
from service.match.paper_distances import PaperDistances
from service.match.program.names import NameIndex
from service.match.query import (
    MatchAnswer,
    MatchedProfile,
    MatchedSubmission,
    MatchOptions,
    MatchQuery,
    Profile,
    Submission,
)
from service.search.engine import SearchEngine
from service.search.query import Seed
from service.search.seeds import EncodedSeed


class Matcher:
    """Matches submissions with ``profiles``, whose papers are looked up once; ``options`` say what to
    return.

    A paper with the title of a submission counts as the submission: profiles that contain it are compared
    without it, and profiles in conflict with it are in conflict with the submission. With ``own_conflicts``,
    profiles that contain the submission or are named after one of its authors are in conflict with it, too.

    Raises InputError for two profiles with the same name and for a profile without a paper of the collection,
    MissingVectorsError for a collection of document vectors.
    """

    def __init__(
        self,
        engine: SearchEngine,
        profiles: Sequence[Profile],
        options: MatchOptions,
        *,
        own_conflicts: bool = True,
    ) -> None:
        self._same = lru_cache(maxsize=100)(engine.names.titles.same)  # by title
        self._paper = partial(engine.snapshot.paper, text=False)
        self._reader = engine.reader
        self._options = options
        self._members, self.unresolved = _members(engine, profiles)
        self._affinities = Affinities(
            PaperDistances(engine.snapshot), self._members, n_nearest=options.n_nearest, copies=self._copies
        )
        self._columns = {name: column for column, name in enumerate(self._affinities.names)}
        self._people = NameIndex(self._columns if own_conflicts else ())
        # For the position of a paper, the numbers of the profiles that it is never matched with.
        self._barred: dict[int, list[int]] = {}
        conflicts = [(column, name) for column, each in enumerate(profiles) for name in each.conflicts]
        positions = engine.names.positions([name for _, name in conflicts])
        for (column, name), position in zip(conflicts, positions, strict=True):
            if position is None:
                self.unresolved.setdefault(profiles[column].name, []).append(name)
            else:
                self._barred.setdefault(position, []).append(column)
        if own_conflicts:
            for column, members in enumerate(self._members.values()):
                for position in members.tolist():
                    self._barred.setdefault(position, []).append(column)

    @property
    def n_papers(self) -> int:
        """The number of papers that each submission is compared with, counted once per profile."""
        return sum(map(len, self._members.values()))

    def read(self, submission: Seed) -> EncodedSeed:
        """Return the paper of a submission; raises the errors of ``SeedReader.read``."""
        return self._reader.read(submission)

    def affinities(
        self, submissions: Sequence[EncodedSeed]
    ) -> Float64[np.ndarray, "n_submissions n_profiles"]:
        """Return the affinity of each profile with each submission; raises DeadlineError."""
        return self._affinities.of(submissions)

    def conflicts(
        self, submission: EncodedSeed, names: Iterable[str] = ()
    ) -> Bool[np.ndarray, " n_profiles"]:
        """Return which profiles conflict with a submission, including ``names``; raises InputError."""
        marked = np.zeros(len(self._columns), dtype=bool)
        authored = [submission.paper]
        for position in self._copies(submission):
            marked[self._barred.get(position, [])] = True
            authored.append(self._paper(position))  # a pasted submission has no authors of its own
        named = chain.from_iterable(map(self._people.of, authored))
        marked[self.columns([*names, *named])] = True
        return marked

    def columns(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of the profiles named in conflicts; raises InputError for an unknown name."""
        try:
            return [self._columns[name] for name in names]
        except KeyError as error:
            raise InputError(
                "A conflict names a profile that is not in this request; give the name of one of them."
            ) from error

    def _copies(self, submission: EncodedSeed) -> Sequence[int]:
        """Return the collection's papers that are the submission itself, by position or by title."""
        same = self._same(submission.paper.title)
        return same if submission.position is None else [submission.position, *same]

    def matched(
        self,
        submission: EncodedSeed,
        affinities: Float64[np.ndarray, " n_profiles"],
        conflicts: Bool[np.ndarray, " n_profiles"],
        assigned: Sequence[int] = (),
    ) -> MatchedSubmission:
        """Return a submission with its ``assigned`` and nearest profiles, and why; raises DeadlineError."""
        nearest = nearest_without_conflicts(affinities, conflicts, self._options.limit)
        columns = list(dict.fromkeys([*assigned, *nearest]))
        if n_reasons := self._options.n_reasons:
            reasons = self._affinities.reasons(submission, columns, n_reasons=n_reasons)
        else:  # the distances are not needed again
            reasons = [Reasons((), float(affinities[column]) - 1) for column in columns]
        names = self._affinities.names
        profiles = tuple(
            MatchedProfile(
                names[column],
                float(affinities[column]),
                len(self._members[names[column]]),
                column in assigned,
                own.returned,
                own.rest,
            )
            for column, own in zip(columns, reasons, strict=True)
        )
        return MatchedSubmission(submission.paper, profiles, submission.warnings)

    def match_each(
        self, submissions: Sequence[Submission]
    ) -> list[MatchedSubmission | InputError | DeadlineError]:
        """Match submissions together; returns for each its profiles, or its error. Raises DeadlineError."""
        read: list[EncodedSeed | InputError | DeadlineError] = []
        for each in submissions:
            try:
                read.append(self.read(each.seed))
            except (InputError, DeadlineError) as error:
                read.append(error)
        rows = iter(self.affinities([each for each in read if isinstance(each, EncodedSeed)]))
        return [
            self.matched(own, next(rows), self.conflicts(own, each.conflicts))
            if isinstance(own, EncodedSeed)
            else own
            for each, own in zip(submissions, read, strict=True)
        ]


def match(engine: SearchEngine, query: MatchQuery) -> MatchAnswer:
    """Return the profiles near to each submission, with reasons: share x distance sums to 1 minus affinity.

    Raises PaperNotFoundError for a submission, InputError for a profile without a paper of the collection or
    an impossible assignment; MissingVectorsError, EncoderMismatchError, DeadlineError.
    """
    started = time.perf_counter()
    matcher = Matcher(engine, query.profiles, query.options, own_conflicts=query.own_conflicts)
    submissions = [matcher.read(seed) for seed in query.submissions]
    named = query.conflicts_by_submission()
    conflicts = np.array(list(map(matcher.conflicts, submissions, named)))
    values = matcher.affinities(submissions)
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
    matched = tuple(map(matcher.matched, submissions, values, conflicts, assigned))
    return MatchAnswer(
        matched,
        matcher.unresolved,
        engine.snapshot.generation,
        tuple(dict.fromkeys(each for submission in matched for each in submission.warnings)),
        (time.perf_counter() - started) * 1000,
    )


def _members(
    engine: SearchEngine, profiles: Sequence[Profile]
) -> tuple[dict[str, Int64[np.ndarray, "..."]], dict[str, list[str]]]:
    """Return the positions of each profile's papers, and the names that no paper has, by profile."""
    named: dict[str, int] = {}
    for number, profile in enumerate(profiles):
        if profile.name in named:
            raise InputError(
                f"Profiles {named[profile.name]} and {number} have the same name; name each differently."
            )
        named[profile.name] = number
    places = iter(engine.names.positions([name for profile in profiles for name in profile.papers]))
    members: dict[str, Int64[np.ndarray, ...]] = {}
    unresolved: dict[str, list[str]] = {}
    for profile in profiles:
        own = list(islice(places, len(profile.papers)))
        found = [place for place in own if place is not None]
        members[profile.name] = np.unique(np.array(found, dtype=np.int64))
        if lost := [name for name, place in zip(profile.papers, own, strict=True) if place is None]:
            unresolved[profile.name] = lost
    if empty := [number for number, own in enumerate(members.values()) if not len(own)]:
        raise InputError(
            f"{len(empty)} of {len(members)} profiles have no paper in this collection, such as profile "
            f"{empty[0]} (from 0); add their papers or leave them out."
        )
    return members, unresolved
