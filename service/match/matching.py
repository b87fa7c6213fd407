"""A match: the affinity of every submission with every profile, the assigned pairs, and the reasons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64

from indexer.snapshot.snapshot import Snapshot
from models.types import ProgressFn
from service.match.affinity import N_NEAREST, Affinities, Reasons, nearest_without_conflicts
from service.match.assignment import Aim, Assignment, assign
from service.match.matrix import affinity_matrix
from service.match.paper_distances import PaperDistances
from service.match.program.program import Program


@dataclass(frozen=True, slots=True)
class Quotas:
    """How many reviewers a submission gets, how many submissions a reviewer gets, and the aim."""

    per_submission: int
    per_reviewer: int
    aim: Aim = Aim.TOTAL


class Match:
    """The affinities of a program's submissions (rows) with its profiles (columns, named by ``names``).

    ``conflicts`` marks pairs that must not be assigned. Rows that an interrupted run wrote to ``data`` are
    read from there.
    """

    def __init__(
        self,
        program: Program,
        snapshot: Snapshot,
        *,
        data: Path,
        n_nearest: int = N_NEAREST,
        n_threads: int = 1,
        on_progress: ProgressFn,
    ) -> None:
        self.program = program
        self.submissions = tuple(program.submissions)
        self._nearness = PaperDistances(snapshot, n_threads=n_threads)
        profiles = {name: snapshot.find_all(ids) for name, ids in program.profiles.items()}
        self._affinities = Affinities(self._nearness, profiles, n_nearest=n_nearest)
        self.names = self._affinities.names
        self._positions: Int64[np.ndarray, " n"] = np.array(
            [snapshot.position(each) for each in self.submissions], dtype=np.int64
        )
        self.values: Float64[np.ndarray, "n_submissions n_profiles"] = affinity_matrix(
            self._nearness, self._affinities, self._positions, data=data, on_progress=on_progress
        )
        self.conflicts: Bool[np.ndarray, "n_submissions n_profiles"] = self._marked()

    def best(self, submission: int, n: int) -> list[int]:
        """Return the numbers of the ``n`` profiles nearest to a submission, without conflicts, in order."""
        return nearest_without_conflicts(self.values[submission], self.conflicts[submission], n)

    def assigned(self, quotas: Quotas) -> Assignment:
        """Return reviewers for each submission; raises InputError if quotas and conflicts leave too few."""
        return assign(
            self.values,
            per_submission=quotas.per_submission,
            per_reviewer=[self.program.quotas.get(each, quotas.per_reviewer) for each in self.names],
            conflicts=self.conflicts,
            aim=quotas.aim,
            names=self.submissions,
        )

    def reasons(self, submission: int, profiles: Sequence[int], *, n_reasons: int) -> list[Reasons]:
        """Return, for each profile, the papers of its affinity, nearest first; raises DeadlineError."""
        encoded = self._nearness.indexed(int(self._positions[submission]))
        return self._affinities.reasons(encoded, profiles, n_reasons=n_reasons)

    def pairs(self) -> Iterator[tuple[str, str, float]]:
        """Yield submission, profile and affinity, without conflicts and pairs that have no affinity."""
        for row, submission in enumerate(self.submissions):
            for column in np.flatnonzero(~self.conflicts[row] & np.isfinite(self.values[row])).tolist():
                yield submission, self.names[column], float(self.values[row, column])

    def _marked(self) -> Bool[np.ndarray, "n_submissions n_profiles"]:
        marked = np.zeros(self.values.shape, dtype=bool)
        rows = {each: number for number, each in enumerate(self.submissions)}
        columns = {each: number for number, each in enumerate(self.names)}
        for submission, profile in self.program.conflicts:
            marked[rows[submission], columns[profile]] = True
        return marked
