"""Entropic transport of easy pairs on the CPU: over-relaxed Sinkhorn, many pairs side by side (SIMD)."""

import math

import numpy as np
from jaxtyping import Float64, Int64

from models.transport.compiled import compiled
from models.transport.problem import Outcome, Problem

LANES = 32  # pairs side by side; the fastest of 8 to 64: four AVX-512 registers, the kernel fits into L1
LANE_CELLS = 2**20  # most cells of the kernels of one group: 8 MiB, whatever the sentence counts
PLAIN_SWEEPS = 4  # before over-relaxation, which overshoots far from the solution
CHECK_EVERY = 4  # sweeps between two checks of the marginals
TINY = 1e-300  # makes 0 / 0 a 0 for a sentence without weight


@compiled
def sinkhorn(
    problem: Problem,
    order: Int64[np.ndarray, " n_easy"],
    epsilon: float,
    tolerance: float,
    max_sweeps: int,
    outcome: Outcome,
) -> None:
    """Write the plans of the pairs in ``order``, sorted by length, into ``outcome``.

    Over-relaxed Sinkhorn (Thibault, Chizat, Dossal, Papadakis, arXiv 1711.01851) with omega = 1.5, in the
    kernel domain, from a c-transform start that leaves a 1 in every row and column of the kernel. omega is
    not a setting: at 1.5 the update u r^omega is u r sqrt(r), without logarithms. Each lane stops by its own
    marginal error and no operation mixes lanes, so a plan does not depend on the other pairs.
    """
    offsets = problem.offsets
    n_query = problem.query_weights.shape[1]
    first = 0
    while first < len(order):
        lanes = min(LANES, len(order) - first)
        longest = order[first + lanes - 1]
        width = offsets[longest + 1] - offsets[longest]
        lanes = max(1, min(lanes, LANE_CELLS // (n_query * width)))
        kernel = np.zeros((n_query, width, lanes))
        rows = np.empty((n_query, lanes))
        columns = np.zeros((width, lanes))
        for lane in range(lanes):
            pair = order[first + lane]
            start, end = offsets[pair], offsets[pair + 1]
            _load_lane(kernel, lane, problem.cost[n_query * start : n_query * end], epsilon)
            for i in range(n_query):
                rows[i, lane] = problem.query_weights[pair, i]
            for j in range(end - start):
                columns[j, lane] = problem.sentence_weights[start + j]
        u, v, stopped_at = _sweep_group(kernel, rows, columns, tolerance, max_sweeps)
        for lane in range(lanes):
            pair = order[first + lane]
            start, end = offsets[pair], offsets[pair + 1]
            _store_lane(outcome.mass[n_query * start : n_query * end], kernel, u, v, lane)
            outcome.converged[pair] = stopped_at[lane] > 0
            outcome.n_iterations[pair] = stopped_at[lane] if stopped_at[lane] > 0 else max_sweeps
        first += lanes


@compiled
def _load_lane(
    kernel: Float64[np.ndarray, "n_query width lanes"],
    lane: int,
    cost: Float64[np.ndarray, " n_cells"],
    epsilon: float,
) -> None:
    """Write exp((f + g - cost) / epsilon) of one pair into its lane; f and g are c-transform potentials."""
    n_query = len(kernel)
    n_sentence = len(cost) // n_query
    f = np.full(n_query, np.inf)
    for i in range(n_query):
        for j in range(n_sentence):
            f[i] = min(f[i], cost[i * n_sentence + j])
    for j in range(n_sentence):
        g = np.inf
        for i in range(n_query):
            g = min(g, cost[i * n_sentence + j] - f[i])
        for i in range(n_query):
            kernel[i, j, lane] = math.exp((f[i] + g - cost[i * n_sentence + j]) / epsilon)


@compiled
def _store_lane(
    mass: Float64[np.ndarray, " n_cells"],
    kernel: Float64[np.ndarray, "n_query width lanes"],
    u: Float64[np.ndarray, "n_query lanes"],
    v: Float64[np.ndarray, "width lanes"],
    lane: int,
) -> None:
    """Write the plan u K v of one lane, row by row."""
    n_query = len(u)
    n_sentence = len(mass) // n_query
    for i in range(n_query):
        for j in range(n_sentence):
            mass[i * n_sentence + j] = u[i, lane] * kernel[i, j, lane] * v[j, lane]


@compiled
def _sweep_group(
    kernel: Float64[np.ndarray, "n_query width lanes"],
    rows: Float64[np.ndarray, "n_query lanes"],
    columns: Float64[np.ndarray, "width lanes"],
    tolerance: float,
    max_sweeps: int,
) -> tuple[
    Float64[np.ndarray, "n_query lanes"], Float64[np.ndarray, "width lanes"], Int64[np.ndarray, " lanes"]
]:
    """Scale the kernels of a group until all lanes have stopped; return scalings and last sweeps (0: never).

    The final plain sweep makes the columns exact, and the row error at most the sum of both errors before.
    """
    lanes = kernel.shape[2]
    u, v = np.ones(rows.shape), np.ones(columns.shape)
    stopped_at = np.zeros(lanes, np.int64)
    live, error = np.ones(lanes), np.empty(lanes)
    n_live = lanes
    sweep = 0
    while n_live > 0 and sweep < max_sweeps:
        sweep += 1
        error[:] = 0.0
        _half_sweep(kernel, False, u, v, rows, live, sweep > PLAIN_SWEEPS, error)
        _half_sweep(kernel, True, v, u, columns, live, sweep > PLAIN_SWEEPS, error)
        if sweep % CHECK_EVERY == 0:
            for lane in range(lanes):
                if live[lane] > 0.0 and error[lane] < tolerance:
                    live[lane] = 0.0
                    stopped_at[lane] = sweep
                    n_live -= 1
    live[:] = 1.0
    _half_sweep(kernel, False, u, v, rows, live, False, error)
    _half_sweep(kernel, True, v, u, columns, live, False, error)
    return u, v, stopped_at


@compiled
def _half_sweep(
    kernel: Float64[np.ndarray, "n_query width lanes"],
    transposed: bool,
    scaling: Float64[np.ndarray, "n lanes"],
    other: Float64[np.ndarray, "m lanes"],
    weights: Float64[np.ndarray, "n lanes"],
    live: Float64[np.ndarray, " lanes"],
    relax: bool,
    error: Float64[np.ndarray, " lanes"],
) -> None:
    """Update one side's scaling in the live lanes; add its L1 error before the update to ``error``.

    The side is the rows, or the columns if ``transposed``.
    """
    n, m, lanes = len(scaling), len(other), kernel.shape[2]
    total = np.empty(lanes)
    for i in range(n):
        total[:] = 0.0
        for j in range(m):
            cell = kernel[j, i] if transposed else kernel[i, j]
            for lane in range(lanes):
                total[lane] += cell[lane] * other[j, lane]
        for lane in range(lanes):
            held = scaling[i, lane] * total[lane]
            error[lane] += abs(weights[i, lane] - held)
            ratio = weights[i, lane] / (held + TINY)
            step = ratio * math.sqrt(ratio) if relax else ratio
            scaling[i, lane] = scaling[i, lane] * step if live[lane] else scaling[i, lane]
