"""Exact optimal transport on the CPU by successive shortest paths, one pair at a time."""

import numpy as np
from jaxtyping import Bool, Float64, Int64

from models.transport.compiled import compiled
from models.transport.problem import Outcome, Problem

PATHS_PER_SENTENCE = 1000  # about 1 is usual; a pair that needs more is reported as unconverged


@compiled
def exact_transport(problem: Problem, outcome: Outcome) -> Float64[np.ndarray, " k"]:
    """Write the cheapest plans between the problem's marginals into ``outcome``.

    Returns the dual values <a, f> + <b, g> of the potentials, which are lower bounds of the least costs.
    """
    cost, offsets = problem.cost, problem.offsets
    k, n_query = problem.query_weights.shape
    duals, f = np.zeros(k), np.empty(n_query)
    for pair in range(k):
        start, end = offsets[pair], offsets[pair + 1]
        a, b = problem.query_weights[pair], problem.sentence_weights[start:end]
        g = np.empty(len(b))
        cells = slice(n_query * start, n_query * end)
        shape = (n_query, end - start)
        n_paths = solve_exactly(
            cost[cells].reshape(shape), a.copy(), b.copy(), outcome.mass[cells].reshape(shape), f, g
        )
        outcome.n_iterations[pair] = n_paths
        outcome.converged[pair] = n_paths < PATHS_PER_SENTENCE * (n_query + end - start)
        duals[pair] = (a * f).sum() + (b * g).sum()
    return duals


@compiled
def solve_exactly(
    cost: Float64[np.ndarray, "n m"],
    supply: Float64[np.ndarray, " n"],
    demand: Float64[np.ndarray, " m"],
    flow: Float64[np.ndarray, "n m"],
    f: Float64[np.ndarray, " n"],
    g: Float64[np.ndarray, " m"],
) -> int:
    """Send ``supply`` to ``demand`` along shortest paths of the residual graph; return the number of paths.

    The potentials keep cost - f - g >= 0 everywhere and = 0 where mass flows (Ahuja, Magnanti, Orlin, Network
    Flows, section 9.7), so the plan is optimal at the end and degenerate cases need no special care. Amounts
    that are used up become exactly 0: each path empties a supply, a demand or a cell.
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
    """Find the nearest column with demand left from a row (Dijkstra), and update the potentials.

    Returns that column (-1 for none), the row before each column on the path, and the column before each row.
    """
    n, m = cost.shape
    row_distance, column_distance = np.full(n, np.inf), np.full(m, np.inf)
    parent_row, parent_column = np.full(m, -1), np.full(n, -1)
    closed = np.zeros(m, np.bool_)
    fresh = np.zeros(n, np.bool_)  # rows that were reached but not yet searched from
    row_distance[source] = 0.0
    fresh[source] = True
    while True:
        for i in range(n):
            if fresh[i]:
                fresh[i] = False
                _relax_from(i, row_distance[i], cost, f, g, closed, column_distance, parent_row)
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
    """Return the open column with the smallest distance, the first on ties; -1 if all are closed."""
    nearest = -1
    for j in range(len(distance)):
        if not closed[j] and (nearest < 0 or distance[j] < distance[nearest]):
            nearest = j
    return nearest


@compiled
def _relax_from(
    row: int,
    distance: float,
    cost: Float64[np.ndarray, "n m"],
    f: Float64[np.ndarray, " n"],
    g: Float64[np.ndarray, " m"],
    closed: Bool[np.ndarray, " m"],
    column_distance: Float64[np.ndarray, " m"],
    parent_row: Int64[np.ndarray, " m"],
) -> None:
    """Shorten the distances of the open columns by paths through a row that has just been reached."""
    for j in range(len(g)):
        reached = distance + max(0.0, cost[row, j] - f[row] - g[j])
        if not closed[j] and reached < column_distance[j]:
            column_distance[j] = reached
            parent_row[j] = row
