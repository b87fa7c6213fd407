"""Exact optimal transport on the CPU by successive shortest augmenting paths, one pair at a time."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.transport.compiled import compiled
from models.transport.problem import Problem

PATHS_PER_SENTENCE = 1000  # about 1 is usual; a pair that needs more is reported unconverged


@dataclass(frozen=True, slots=True)
class ExactTransport:
    """Optimal plans of ``k`` pairs end to end, with the potentials that prove them optimal.

    ``duals`` are the values <a, f> + <b, g> of the potentials: lower bounds of the optimal costs.
    """

    mass: Float64[np.ndarray, " n_cells"]
    query_potentials: Float64[np.ndarray, "k n_query"]
    sentence_potentials: Float64[np.ndarray, " n_rows"]
    duals: Float64[np.ndarray, " k"]
    converged: Bool[np.ndarray, " k"]
    n_paths: Int64[np.ndarray, " k"]


def exact_transport(problem: Problem) -> ExactTransport:
    """The cheapest plans between the problem's marginals."""
    f, g = np.zeros_like(problem.query_weights), np.zeros_like(problem.sentence_weights)
    mass, n_paths = np.zeros_like(problem.cost), np.zeros(len(f), np.int64)
    duals = np.zeros(len(f))
    _solve_pairs(problem, mass, f, g, duals, n_paths)
    limits = PATHS_PER_SENTENCE * (f.shape[1] + np.diff(problem.offsets))
    return ExactTransport(mass, f, g, duals, converged=n_paths < limits, n_paths=n_paths)


@compiled
def _solve_pairs(
    problem: Problem,
    mass: Float64[np.ndarray, " n_cells"],
    query_potentials: Float64[np.ndarray, "k n_query"],
    sentence_potentials: Float64[np.ndarray, " n_rows"],
    duals: Float64[np.ndarray, " k"],
    n_paths: Int64[np.ndarray, " k"],
) -> None:
    """Solve every pair into the other arrays."""
    cost, offsets = problem.cost, problem.offsets
    n_query = problem.query_weights.shape[1]
    for pair in range(len(offsets) - 1):
        start, end = offsets[pair], offsets[pair + 1]
        n_paths[pair] = solve_exactly(
            cost[n_query * start : n_query * end].reshape((n_query, end - start)),
            problem.query_weights[pair].copy(),
            problem.sentence_weights[start:end].copy(),
            mass[n_query * start : n_query * end].reshape((n_query, end - start)),
            query_potentials[pair],
            sentence_potentials[start:end],
        )
        for i in range(n_query):
            duals[pair] += problem.query_weights[pair, i] * query_potentials[pair, i]
        for j in range(start, end):
            duals[pair] += problem.sentence_weights[j] * sentence_potentials[j]


@compiled
def solve_exactly(
    cost: Float64[np.ndarray, "n m"],
    supply: Float64[np.ndarray, " n"],
    demand: Float64[np.ndarray, " m"],
    flow: Float64[np.ndarray, "n m"],
    f: Float64[np.ndarray, " n"],
    g: Float64[np.ndarray, " m"],
) -> int:
    """Send ``supply`` to ``demand`` along shortest paths of the residual graph; the number of paths used.

    Potentials keep cost - f - g >= 0 everywhere and = 0 where mass flows (Ahuja, Magnanti, Orlin, Network
    Flows, section 9.7), so the plan is optimal at the end and degeneracy needs no care. Amounts that are
    used up become exactly 0: each path empties a supply, a demand or a cell.
    """
    n, m = cost.shape
    flow[:] = 0.0
    f[:] = 0.0
    for j in range(m):
        g[j] = cost[:, j].min()
    paths = 0
    limit = PATHS_PER_SENTENCE * (n + m)
    for source in range(n):
        while supply[source] > 0.0 and paths < limit:
            target, parent_row, parent_column = _shortest_path(cost, flow, demand, f, g, source)
            if target < 0:  # the two totals differ in their last bits
                break
            amount = min(supply[source], demand[target])
            j = target
            while parent_row[j] != source:
                i = parent_row[j]
                j = parent_column[i]
                amount = min(amount, flow[i, j])
            supply[source] -= amount
            demand[target] -= amount
            j = target
            flow[parent_row[j], j] += amount
            while parent_row[j] != source:
                i = parent_row[j]
                j = parent_column[i]
                flow[i, j] -= amount
                flow[parent_row[j], j] += amount
            paths += 1
    return paths


@compiled
def _shortest_path(
    cost: Float64[np.ndarray, "n m"],
    flow: Float64[np.ndarray, "n m"],
    demand: Float64[np.ndarray, " m"],
    f: Float64[np.ndarray, " n"],
    g: Float64[np.ndarray, " m"],
    source: int,
) -> tuple[int, Int64[np.ndarray, " m"], Int64[np.ndarray, " n"]]:
    """Dijkstra from a row to the nearest column with demand left; updates the potentials on the way.

    Returns that column (-1 for none), each column's row on the path, and each row's column before it.
    """
    n, m = cost.shape
    row_distance, column_distance = np.full(n, np.inf), np.full(m, np.inf)
    parent_row, parent_column = np.full(m, -1), np.full(n, -1)
    closed = np.zeros(m, np.bool_)
    fresh = np.zeros(n, np.bool_)  # rows reached since the last look
    row_distance[source] = 0.0
    fresh[source] = True
    while True:
        for i in range(n):
            if fresh[i]:
                fresh[i] = False
                _look_from(i, row_distance[i], cost, f, g, closed, column_distance, parent_row)
        nearest = _nearest_open(column_distance, closed)
        if nearest < 0:
            return -1, parent_row, parent_column
        if demand[nearest] > 0.0:
            break
        closed[nearest] = True
        for i in range(n):
            if flow[i, nearest] > 0.0 and row_distance[i] == np.inf:
                row_distance[i] = column_distance[nearest]
                parent_column[i] = nearest
                fresh[i] = True
    length = column_distance[nearest]
    for i in range(n):
        f[i] += max(0.0, length - row_distance[i])
    for j in range(m):
        g[j] -= max(0.0, length - column_distance[j])
    return nearest, parent_row, parent_column


@compiled
def _nearest_open(distance: Float64[np.ndarray, " m"], closed: Bool[np.ndarray, " m"]) -> int:
    """The open column at the smallest distance, the first of several; -1 when all are closed."""
    nearest = -1
    for j in range(len(distance)):
        if not closed[j] and (nearest < 0 or distance[j] < distance[nearest]):
            nearest = j
    return nearest


@compiled
def _look_from(
    row: int,
    distance: float,
    cost: Float64[np.ndarray, "n m"],
    f: Float64[np.ndarray, " n"],
    g: Float64[np.ndarray, " m"],
    closed: Bool[np.ndarray, " m"],
    column_distance: Float64[np.ndarray, " m"],
    parent_row: Int64[np.ndarray, " m"],
) -> None:
    """Shorten the distances of the open columns by way of a row that has just been reached."""
    for j in range(len(g)):
        reached = distance + max(0.0, cost[row, j] - f[row] - g[j])
        if not closed[j] and reached < column_distance[j]:
            column_distance[j] = reached
            parent_row[j] = row
