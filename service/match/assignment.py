"""Assignment: which reviewers each submission gets, under quotas and conflicts."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from models.errors import InputError

# Of more pairs only each submission's nearest are weighed, and twice as many while they do not suffice.
MAX_PAIRS = 400_000


class Aim(StrEnum):
    """What an assignment makes as large as it can be."""

    TOTAL = "total"  # the sum of all affinities
    WORST = "worst"  # the least affinity, and then the sum


@dataclass(frozen=True, slots=True)
class Assignment:
    """``reviewers[i]`` are the numbers of those of submission ``i``, nearest first."""

    reviewers: tuple[tuple[int, ...], ...]
    total: float
    least: float


def assign(
    affinities: Float64[np.ndarray, "n_submissions n_reviewers"],
    *,
    per_submission: int,
    per_reviewer: int | Int64[np.ndarray, " n_reviewers"],
    conflicts: Bool[np.ndarray, "n_submissions n_reviewers"] | None = None,
    aim: Aim = Aim.TOTAL,
) -> Assignment:
    """Give each submission ``per_submission`` reviewers, and none more submissions than its quota.

    ``per_reviewer`` is the quota of each, or of all. Pairs in ``conflicts``, and those whose affinity is not
    finite, are never assigned. Raises InputError where that cannot be done, and says what is short.
    """
    allowed = np.isfinite(affinities)
    if conflicts is not None:
        allowed &= ~conflicts
    n_submissions, n_reviewers = affinities.shape
    if not n_submissions:
        return Assignment((), 0.0, 0.0)
    if short := np.flatnonzero(allowed.sum(axis=1) < per_submission).tolist():
        raise InputError(
            f"{len(short)} submissions have fewer than {per_submission} reviewers without a conflict, the "
            f"first is number {short[0] + 1}; lift conflicts, add reviewers, or ask for fewer a submission."
        )
    quotas = np.broadcast_to(np.asarray(per_reviewer, dtype=np.int64), n_reviewers)
    if n_submissions * per_submission > quotas.sum():
        raise InputError(
            f"{n_submissions} submissions x {per_submission} reviews are more than the {quotas.sum()} that "
            f"the quotas of {n_reviewers} reviewers allow; raise them, add reviewers, or ask for fewer."
        )
    rows, columns = _pairs(affinities, allowed, per_submission, quotas)
    if aim is Aim.WORST:
        least = _best_least(affinities, rows, columns, per_submission, quotas)
        kept = affinities[rows, columns] >= least
        rows, columns = rows[kept], columns[kept]
    chosen = _best_total(affinities, rows, columns, per_submission, quotas)
    rows, columns = rows[chosen], columns[chosen]
    given = affinities[rows, columns]
    order = np.lexsort((columns, -given, rows))
    reviewers = np.split(columns[order], np.cumsum(np.bincount(rows, minlength=n_submissions))[:-1])
    return Assignment(tuple(tuple(own.tolist()) for own in reviewers), float(given.sum()), float(given.min()))


def _pairs(
    affinities: Float64[np.ndarray, "n_submissions n_reviewers"],
    allowed: Bool[np.ndarray, "n_submissions n_reviewers"],
    per_submission: int,
    quotas: Int64[np.ndarray, " n_reviewers"],
) -> tuple[Int64[np.ndarray, " n_pairs"], Int64[np.ndarray, " n_pairs"]]:
    """The allowed pairs, or of very many those of each submission's nearest reviewers that suffice."""
    n_submissions, n_reviewers = affinities.shape
    ranked = np.where(allowed, affinities, -np.inf)
    n_each = max(MAX_PAIRS // n_submissions, per_submission)
    while True:
        if n_each >= n_reviewers:
            kept = allowed
        else:
            kept = allowed & (ranked >= -np.partition(-ranked, n_each - 1, axis=1)[:, n_each - 1 : n_each])
        rows, columns = np.nonzero(kept)
        n_reviews = _reviews(rows, columns, affinities.shape, per_submission, quotas)
        if n_reviews == n_submissions * per_submission:
            return rows, columns
        if n_each >= n_reviewers:
            raise InputError(
                "No assignment keeps all quotas and conflicts: the reviewers without conflicts are too few "
                "for some submissions together. Raise the quota or lift conflicts."
            )
        n_each *= 2


def _reviews(
    rows: Int64[np.ndarray, " n_pairs"],
    columns: Int64[np.ndarray, " n_pairs"],
    shape: tuple[int, ...],
    per_submission: int,
    quotas: Int64[np.ndarray, " n_reviewers"],
) -> int:
    """The most reviews that these pairs allow under both quotas."""
    n_submissions, n_reviewers = shape
    source, sink = n_submissions + n_reviewers, n_submissions + n_reviewers + 1
    begin = [np.full(n_submissions, source), rows, n_submissions + np.arange(n_reviewers)]
    end = [np.arange(n_submissions), n_submissions + columns, np.full(n_reviewers, sink)]
    most = [
        np.full(n_submissions, per_submission),
        np.ones(len(rows), int),
        quotas,
    ]
    graph = csr_array(
        (np.concatenate(most).astype(np.int32), (np.concatenate(begin), np.concatenate(end))),
        shape=(sink + 1, sink + 1),
    )
    return int(maximum_flow(graph, source, sink).flow_value)


def _best_least(
    affinities: Float64[np.ndarray, "n_submissions n_reviewers"],
    rows: Int64[np.ndarray, " n_pairs"],
    columns: Int64[np.ndarray, " n_pairs"],
    per_submission: int,
    quotas: Int64[np.ndarray, " n_reviewers"],
) -> float:
    """The largest affinity that every pair of some whole assignment has at least."""
    given = affinities[rows, columns]
    levels = np.unique(given)
    low, high = 0, len(levels) - 1  # at levels[low] there is one
    while low < high:
        middle = (low + high + 1) // 2
        kept = given >= levels[middle]
        whole = len(affinities) * per_submission
        if _reviews(rows[kept], columns[kept], affinities.shape, per_submission, quotas) == whole:
            low = middle
        else:
            high = middle - 1
    return float(levels[low])


def _best_total(
    affinities: Float64[np.ndarray, "n_submissions n_reviewers"],
    rows: Int64[np.ndarray, " n_pairs"],
    columns: Int64[np.ndarray, " n_pairs"],
    per_submission: int,
    quotas: Int64[np.ndarray, " n_reviewers"],
) -> Bool[np.ndarray, " n_pairs"]:
    """Which of the pairs make the assignment of the largest sum."""
    n_submissions, n_reviewers = affinities.shape
    pairs, ones = np.arange(len(rows)), np.ones(len(rows))
    by_submission = csr_array((ones, (rows, pairs)), shape=(n_submissions, len(rows)))
    by_reviewer = csr_array((ones, (columns, pairs)), shape=(n_reviewers, len(rows)))
    solved = milp(
        -affinities[rows, columns],
        integrality=np.ones(len(rows)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(by_submission, per_submission, per_submission),
            LinearConstraint(by_reviewer, 0, quotas),
        ],
    )
    if solved.x is None:
        raise InputError(f"No assignment was found ({solved.message}); raise the quota or lift conflicts.")
    chosen: Bool[np.ndarray, " n_pairs"] = solved.x > 0.5
    return chosen
