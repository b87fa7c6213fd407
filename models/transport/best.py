"""Interruptible comparison of one query with many papers: all papers in blocks, or only the best papers.

To find the best papers by transport, papers that cannot be among them are never solved. No plan between two
papers costs less than the sum of each sentence's mass times its nearest distance, from either side (relaxed
word mover's distance; Kusner et al. 2015, section 4). Papers are solved in the order of that bound until none
of the rest can be among the best. Plans equal those of ``score_papers`` bit for bit, and so do the best
papers and their order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Float32, Float64, Int64

from models.errors import InputError
from models.interruption import check_interruption
from models.transport.compiled import compiled
from models.transport.kernels import check_vectors, checked_weights, expect_finite, plans_of, score_papers
from models.transport.plan import SERVING, Plans, Scorer, TransportSettings
from models.transport.problem import Problem, distances, marginals
from models.types import rows_of

# Cells of one block; a cell is a pair of a query sentence and a paper's sentence. A block takes 0.5 ms for
# usual abstracts, about 20 ms for those that are hardest to solve. A pair of papers is never split.
BLOCK_CELLS: Final = 4_096
# Papers whose distances are computed, or that are solved, between two checks for an interruption.
_COMPARED_AT_ONCE: Final = 64
_SOLVED_AT_ONCE: Final = 24
# How far below the bound a plan's cost may be, in tolerances, beside the spread of its distances: as
# marginals are only exact to the tolerance, so much mass may lie nearer than it should.
_SLACK: Final = 10.0


def score_in_blocks(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
    block_cells: int = BLOCK_CELLS,
) -> Plans:
    """Return the result of ``score_papers``, bit for bit, in blocks short enough to keep a deadline.

    A block has at most ``block_cells`` cells, or one paper. Raises the errors of ``score_papers``, and those
    of ``check_interruption`` at most one block late.
    """
    blocks = []
    for first, last in _blocks(offsets, max(block_cells // max(len(query), 1), 1)):
        check_interruption()
        own = rows[offsets[first] : offsets[last]]
        bounds = offsets[first : last + 1] - offsets[first]
        blocks.append(
            score_papers(query, own, bounds, scorer=scorer, settings=settings, log_weights=log_weights)
        )
    return blocks[0] if len(blocks) == 1 else Plans.joined(blocks)


def _blocks(offsets: Int64[np.ndarray, " k_plus_1"], most: int) -> Iterator[tuple[int, int]]:
    """Yield first paper and end of each block of ``most`` rows or one paper; an empty block for no papers."""
    first, n_papers = 0, len(offsets) - 1
    while True:
        last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        last = min(max(last, first + 1), n_papers)
        yield first, last
        if last == n_papers:
            return
        first = last


@dataclass(frozen=True, slots=True)
class BestPapers:
    """The numbers of the best papers, best first, their plans in that order, and how many were solved."""

    order: Int64[np.ndarray, " n_best"]
    plans: Plans
    n_solved: int


def best_papers(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_best: int,
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
    added: Float64[np.ndarray, " k"] | None = None,
    ties: Int64[np.ndarray, " k"] | None = None,
) -> BestPapers:
    """Return the ``n_best`` of ``k`` candidates by ``ot`` or ``exact_ot``; all if there are no more.

    ``added`` is added to the score of each paper; among equal papers, the one with the smallest ``ties``
    (default: its number) comes first. Raises the errors of ``score_papers``, and InputError if ``n_best``
    is negative.
    """
    log_weights = check_vectors(query, rows, offsets, log_weights)
    return best_by_cost(
        _all_distances(query, rows, offsets),
        len(query),
        offsets,
        n_best,
        scorer=scorer,
        settings=settings,
        log_weights=log_weights,
        added=added,
        ties=ties,
    )


def best_by_cost(
    cost: Float64[np.ndarray, " n_cells"],
    n_query: int,
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_best: int,
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
    added: Float64[np.ndarray, " k"] | None = None,
    ties: Int64[np.ndarray, " k"] | None = None,
) -> BestPapers:
    """Return the result of ``best_papers`` from the ``distances`` of all candidates; raises InputError."""
    if n_best < 0:
        raise InputError(f"n_best is {n_best}; expected 0 or more.")
    k, log_weights = len(offsets) - 1, checked_weights(log_weights, n_query)
    added = np.zeros(k) if added is None else added
    ties = np.arange(k) if ties is None else ties
    expect_finite(cost)
    query_weights, sentence_weights, spreads = marginals(cost, offsets, log_weights, settings.tau)
    bounds = added - _least_costs(Problem(cost, offsets, query_weights, sentence_weights))
    bounds += settings.tolerance * (spreads + _SLACK * (1 + np.abs(bounds)))
    likeliest = np.argsort(-bounds, kind="stable")[: None if n_best else 0]
    solved: list[Plans] = []
    totals = np.empty(0)
    some = likeliest[: max(n_best, _SOLVED_AT_ONCE)]
    while len(some) or not solved:
        check_interruption()
        cells, ends = rows_of(n_query * offsets, some)
        solved.append(plans_of(cost[cells], ends // n_query, log_weights, scorer, settings))
        totals = np.concatenate([totals, solved[-1].scores + added[some]])
        some = likeliest[len(totals) : len(totals) + _SOLVED_AT_ONCE]
        if len(some):
            some = some[bounds[some] >= np.partition(totals, len(totals) - n_best)[len(totals) - n_best]]
    of_solved = likeliest[: len(totals)]
    chosen = np.lexsort((ties[of_solved], -totals))[:n_best]
    return BestPapers(of_solved[chosen], _picked(solved, chosen), len(totals))


def _all_distances(
    query: np.ndarray, rows: np.ndarray, offsets: np.ndarray
) -> Float64[np.ndarray, " n_cells"]:
    own, cost = np.array(query, order="C"), np.empty(len(query) * len(rows))
    for first in range(0, len(offsets) - 1, _COMPARED_AT_ONCE):
        check_interruption()
        bounds = offsets[first : first + _COMPARED_AT_ONCE + 1]
        part = np.ascontiguousarray(rows[bounds[0] : bounds[-1]])
        cost[len(own) * bounds[0] : len(own) * bounds[-1]] = distances(own, part, bounds - bounds[0])
    return cost


@compiled
def _least_costs(problem: Problem) -> Float64[np.ndarray, " k"]:
    """Return a lower bound of every pair's cost: all mass to the nearest, from the side that costs more."""
    offsets = problem.offsets
    k, n_query = problem.query_weights.shape
    least = np.zeros(k)
    for pair in range(k):
        start, end = offsets[pair], offsets[pair + 1]
        nearest = np.full(end - start, np.inf)
        from_query, from_paper = 0.0, 0.0
        for i in range(n_query):
            smallest = np.inf
            for j in range(end - start):
                distance = problem.cost[n_query * start + i * (end - start) + j]
                smallest = min(smallest, distance)
                nearest[j] = min(nearest[j], distance)
            from_query += problem.query_weights[pair, i] * smallest
        for j in range(end - start):
            from_paper += problem.sentence_weights[start + j] * nearest[j]
        least[pair] = max(from_query, from_paper)
    return least


def _picked(solved: list[Plans], chosen: Int64[np.ndarray, " n_best"]) -> Plans:
    """Return the ``chosen`` plans among those ``solved``, in that order."""
    plans = Plans.joined(solved)
    cells, ends = rows_of(plans.n_query * plans.offsets, chosen)
    return Plans(
        mass=plans.mass[cells],
        cost=plans.cost[cells],
        offsets=ends // plans.n_query,
        n_query=plans.n_query,
        scores=plans.scores[chosen],
        marginal_errors=plans.marginal_errors[chosen],
        gaps=plans.gaps[chosen],
        converged=plans.converged[chosen],
        n_iterations=plans.n_iterations[chosen],
    )
