"""Assignment: which reviewers each submission gets, under quotas and conflicts.

This is a transportation problem, whose best fractional solution is integral. It is solved over a few of the
pairs; other pairs are added while some would improve the solution (column generation; Dantzig and Wolfe,
Operations Research 8, 1960). The answer is then the best over all pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.errors import InputError

# The least improvement for which a pair is added, and the tolerance of the solver.
_MIN_GAIN, _TOLERANCE = 1e-9, 1e-10


class Aim(StrEnum):
    """The value that an assignment maximises."""

    TOTAL = "total"  # the sum of all affinities
    WORST = "worst"  # the least affinity, and then the sum


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment: ``reviewers[i]`` are the numbers of submission ``i``'s reviewers, nearest first."""

    reviewers: tuple[tuple[int, ...], ...]
    total: float
    least: float


def assign(
    affinities: Float64[np.ndarray, "n_submissions n_reviewers"],
    *,
    per_submission: int,
    per_reviewer: int | Sequence[int] | Int64[np.ndarray, " n_reviewers"],
    conflicts: Bool[np.ndarray, "n_submissions n_reviewers"] | None = None,
    aim: Aim = Aim.TOTAL,
    names: Sequence[str] = (),
    n_weighed: int = 16,
) -> Assignment:
    """Assign each submission ``per_submission`` reviewers, and no reviewer more submissions than its quota.

    ``per_reviewer`` is the quota of each reviewer, or of all. Pairs in ``conflicts``, and those whose
    affinity is not finite, are never assigned. The solver starts with ``n_weighed`` pairs of each submission
    and adds this many at a time; the answer does not depend on it. Raises InputError if there is no
    assignment, with what is short: the submissions by their ``names``, or by number without names.
    """
    if not len(affinities):
        return Assignment((), 0.0, 0.0)
    allowed = np.isfinite(affinities) if conflicts is None else np.isfinite(affinities) & ~conflicts
    problem = _Problem(
        np.where(allowed, affinities, -np.inf),
        per_submission,
        _quotas(allowed, per_submission, per_reviewer, names),
        n_weighed,
    )
    pairs, short_together = problem.grown(problem.nearest(problem.worths))
    if short_together.any():
        raise InputError(
            f"No assignment keeps all quotas and conflicts: {short_together.sum()} of {len(affinities)} "
            "submissions together have too few reviewers without a conflict: "
            f"{_named(short_together, names)}. Raise the quota, remove conflicts, or add reviewers."
        )
    if aim is Aim.WORST:
        problem, pairs = problem.of_best_least(pairs)
    rows, columns = problem.best(pairs)
    given = affinities[rows, columns]
    order = np.lexsort((columns, -given, rows))
    reviewers = columns[order].reshape(-1, per_submission).tolist()
    return Assignment(tuple(map(tuple, reviewers)), float(given.sum()), float(given.min()))


def _named(short: Bool[np.ndarray, " n_submissions"], names: Sequence[str]) -> str:
    """Return the first five of the submissions that are ``short``, as an error names them."""
    rows = np.flatnonzero(short).tolist()
    first = [names[row][:80] if names else f"number {row}" for row in rows[:5]]
    return ", ".join(first) + (" ..." if rows[5:] else "") + ("" if names else " (from 0)")


def _quotas(
    allowed: Bool[np.ndarray, "n_submissions n_reviewers"],
    per_submission: int,
    per_reviewer: int | Sequence[int] | Int64[np.ndarray, " n_reviewers"],
    names: Sequence[str],
) -> Int64[np.ndarray, " n_reviewers"]:
    """Return the quotas, each at most the number of submissions; raises InputError if reviews are short."""
    n_submissions, n_reviewers = allowed.shape
    short = allowed.sum(axis=1) < per_submission
    if short.any():
        raise InputError(
            f"{short.sum()} of {n_submissions} submissions have fewer than {per_submission} reviewers "
            f"without a conflict: {_named(short, names)}. Add reviewers, remove conflicts, or request fewer."
        )
    each = [per_reviewer] * n_reviewers if isinstance(per_reviewer, int) else per_reviewer
    quotas = np.array([min(int(quota), n_submissions) for quota in each], dtype=np.int64)
    if n_submissions * per_submission > quotas.sum():
        raise InputError(
            f"{n_submissions} submissions x {per_submission} reviews are more than the {quotas.sum()} that "
            f"the quotas of {n_reviewers} reviewers allow; raise them, add reviewers, or request fewer."
        )
    return quotas


@dataclass(frozen=True, slots=True)
class _Problem:
    """The worth of each pair, -inf if it is never assigned, and the limits of an assignment.

    The pairs that the solver considers are a boolean matrix of the same shape.
    """

    worths: Float64[np.ndarray, "n_submissions n_reviewers"]
    per_submission: int
    quotas: Int64[np.ndarray, " n_reviewers"]
    n_weighed: int

    def nearest(
        self, worths: Float64[np.ndarray, "n_submissions n_reviewers"]
    ) -> Bool[np.ndarray, "n_submissions n_reviewers"]:
        """Return the ``n_weighed`` pairs of each submission with the largest ``worths``, without -inf."""
        chosen: Bool[np.ndarray, "n_submissions n_reviewers"] = np.isfinite(worths)
        if self.n_weighed < worths.shape[1]:
            others = np.argpartition(worths, -self.n_weighed, axis=1)[:, : -self.n_weighed]
            np.put_along_axis(chosen, others, values=False, axis=1)
        return chosen

    def grown(
        self, pairs: Bool[np.ndarray, "n_submissions n_reviewers"]
    ) -> tuple[Bool[np.ndarray, "n_submissions n_reviewers"], Bool[np.ndarray, " n_submissions"]]:
        """Add to ``pairs`` those missing for an assignment; also returns which submissions remain short.

        A maximum flow separates the submissions that need more reviews from the reviewers that have room.
        Only pairs across this cut increase the flow; if there are none, no pair at all would.
        """
        while True:
            short, reached = self._cut(pairs)
            across = short[:, None] & ~reached & ~pairs & np.isfinite(self.worths)
            if not across.any():
                return pairs, short
            pairs = pairs | self.nearest(np.where(across, self.worths, -np.inf))

    def _cut(
        self, pairs: Bool[np.ndarray, "n_submissions n_reviewers"]
    ) -> tuple[Bool[np.ndarray, " n_submissions"], Bool[np.ndarray, " n_reviewers"]]:
        """Return the submissions and reviewers on the short side of a minimum cut; none if none is short."""
        # Imported here as it makes up a tenth of the service's loading time, like the solver below.
        from scipy.sparse import csgraph, csr_array  # noqa: PLC0415

        n_submissions, n_reviewers = pairs.shape
        source, sink = n_submissions + n_reviewers, n_submissions + n_reviewers + 1
        rows, columns = np.nonzero(pairs)
        begin = np.concatenate([np.full(n_submissions, source), rows, n_submissions + np.arange(n_reviewers)])
        end = np.concatenate([np.arange(n_submissions), n_submissions + columns, np.full(n_reviewers, sink)])
        most = np.concatenate(
            [np.full(n_submissions, self.per_submission), np.ones(len(rows), int), self.quotas]
        )
        graph = csr_array((most.astype(np.int32), (begin, end)), shape=(sink + 1, sink + 1))
        found = csgraph.maximum_flow(graph, source, sink)
        reached = np.zeros(sink + 1, dtype=bool)
        if found.flow_value < n_submissions * self.per_submission:
            left = graph - found.flow
            left.eliminate_zeros()
            reached[csgraph.breadth_first_order(left, source, return_predecessors=False)] = True
        return reached[:n_submissions], reached[n_submissions:source]

    def of_best_least(
        self, pairs: Bool[np.ndarray, "n_submissions n_reviewers"]
    ) -> tuple["_Problem", Bool[np.ndarray, "n_submissions n_reviewers"]]:
        """Return the problem and ``pairs`` limited to the highest least worth that has an assignment."""
        worths = self.worths
        most = np.partition(worths, -self.per_submission, axis=1)[:, -self.per_submission].min()
        levels = np.unique(worths[np.isfinite(worths) & (worths <= most)])
        low, high = 0, len(levels) - 1  # at levels[low] there is an assignment
        while low < high:
            middle = (low + high + 1) // 2
            problem, kept = self._from(levels[middle], pairs)
            grown, short = problem.grown(kept)
            pairs = pairs | grown
            low, high = (low, middle - 1) if short.any() else (middle, high)
        return self._from(levels[low], pairs)

    def _from(
        self, least: float, pairs: Bool[np.ndarray, "n_submissions n_reviewers"]
    ) -> tuple["_Problem", Bool[np.ndarray, "n_submissions n_reviewers"]]:
        enough = self.worths >= least
        return replace(self, worths=np.where(enough, self.worths, -np.inf)), pairs & enough

    def best(
        self, pairs: Bool[np.ndarray, "n_submissions n_reviewers"]
    ) -> tuple[Int64[np.ndarray, " n_reviews"], Int64[np.ndarray, " n_reviews"]]:
        """Return the rows and columns of the assignment with the largest sum; ``pairs`` must contain one.

        Another pair can increase the sum only if its worth is above the sum of two prices: that of a review
        for its submission and that of a review by its reviewer (the dual solution).
        """
        from scipy.optimize import linprog  # noqa: PLC0415 - as above
        from scipy.sparse import csr_array  # noqa: PLC0415

        n_submissions, n_reviewers = pairs.shape
        while True:
            rows, columns = np.nonzero(pairs)
            numbers, ones = np.arange(len(rows)), np.ones(len(rows))
            solved = linprog(
                -self.worths[rows, columns],
                A_ub=csr_array((ones, (columns, numbers)), shape=(n_reviewers, len(rows))),
                b_ub=self.quotas,
                A_eq=csr_array((ones, (rows, numbers)), shape=(n_submissions, len(rows))),
                b_eq=np.full(n_submissions, self.per_submission),
                bounds=(0, 1),
                method="highs-ds",
                options={
                    "dual_feasibility_tolerance": _TOLERANCE,
                    "primal_feasibility_tolerance": _TOLERANCE,
                },
            )
            if solved.x is None:
                raise RuntimeError(f"HiGHS found no assignment although one exists: {solved.message}")
            prices = solved.eqlin.marginals[:, None] + solved.ineqlin.marginals
            gains = self.worths + prices
            gains[pairs] = -np.inf
            if gains.max() <= _MIN_GAIN:
                chosen = solved.x > 0.5
                return rows[chosen], columns[chosen]
            pairs = pairs | self.nearest(gains)
