"""Entropic transport of hard pairs on the CPU: Newton on the semi-dual, in float64, one pair at a time.

If distances span many epsilon (un-normalised vectors), Sinkhorn needs thousands of sweeps and stops short;
Newton with epsilon scaling reaches full precision in a few dozen steps. If Newton stalls (distances of 1e4
and more with almost equal weights), it starts again from the potentials of exact transport.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from models.interruption import check_interruption
from models.transport.compiled import compiled
from models.transport.exact import solve_exactly
from models.transport.newton_direction import newton_direction
from models.transport.problem import Outcome, Problem

FIRST_EPSILON = 0.05  # start of epsilon scaling, as a share of the spread of distances
EPSILON_FACTOR = 0.25  # from one level of epsilon to the next; 0.15 to 0.4 cost the same
LEVEL_TOLERANCE = 0.3  # L1 marginal error at which epsilon is lowered; 0.03 costs twice the steps
FIRST_RADIUS = 3.0  # longest first step, in units of epsilon: Newton's model holds up to exp(3) per cell
SUFFICIENT_RISE = 1e-4  # of the rise predicted by the slope, for a step to be accepted (Armijo)
STALLED = 300  # steps after which a pair starts again from exact transport; 15 are usual
SLICE = 50_000_000  # work between two checks of the deadline, in units of 0.3 to 2 ns
EVALUATION = 16  # cost of a cell of the plan, in multiplications of Newton's linear system


class _Progress(NamedTuple):
    """The state between two slices of work, in arrays that compiled code can write."""

    counts: Int64[np.ndarray, " 2"]  # the number of the pair, and of the steps taken for it
    scale: Float64[np.ndarray, " 2"]  # the pair's level of epsilon (0: not begun) and trust radius
    potentials: Float64[np.ndarray, " longest"]  # f of the free side, which may be shorter than the array


def newton(
    problem: Problem,
    epsilon: float,
    tolerance: float,
    max_steps: int,
    outcome: Outcome,
) -> None:
    """Write the plans of all pairs that have not converged yet into ``outcome``.

    Raises the errors of ``check_interruption``, which is called every few hundredths of a second.
    """
    longest = problem.query_weights.shape[1]  # the shorter side is free
    progress = _Progress(np.zeros(2, np.int64), np.zeros(2), np.zeros(longest))
    while progress.counts[0] < len(outcome.converged):
        check_interruption()
        _work_slice(problem, epsilon, tolerance, max_steps, outcome, progress)


@compiled
def _work_slice(
    problem: Problem,
    epsilon: float,
    tolerance: float,
    max_steps: int,
    outcome: Outcome,
    progress: _Progress,
) -> None:
    """Solve pairs from ``progress`` on until SLICE is used up; the last pair may remain half solved."""
    offsets, counts = problem.offsets, progress.counts
    n_query = problem.query_weights.shape[1]
    left = SLICE
    while left > 0 and counts[0] < len(outcome.converged):
        pair = counts[0]
        if outcome.converged[pair]:
            counts[0] += 1
            continue
        start, end = offsets[pair], offsets[pair + 1]
        # Newton's linear system has the size of the free side: free the shorter one.
        free_query = n_query <= end - start
        weights = problem.sentence_weights[start:end]
        free = problem.query_weights[pair] if free_query else weights
        fixed = weights if free_query else problem.query_weights[pair]
        pair_cost = np.empty((len(fixed), len(free)))
        _copy(problem.cost[n_query * start : n_query * end], pair_cost, free_query, True)
        if progress.scale[0] == 0.0:
            _begin(pair_cost, free, epsilon, progress)
        elif counts[1] == STALLED:
            _begin_exactly(pair_cost, free, fixed, epsilon, progress)
        step_cost = pair_cost.size * (len(free) + EVALUATION)
        before = counts[1]
        most = min(max_steps, before + 1 + left // step_cost)
        if before < STALLED:
            most = min(most, STALLED)
        plan, error, is_done = _solve_pair(pair_cost, free, fixed, epsilon, tolerance, most, progress)
        left -= step_cost * (1 + counts[1] - before)
        if is_done or counts[1] >= max_steps or math.isnan(error):
            _copy(outcome.mass[n_query * start : n_query * end], plan, free_query, False)
            outcome.converged[pair] = is_done and error < tolerance
            outcome.n_iterations[pair] += counts[1]
            progress.scale[0] = 0.0
            counts[0] += 1
            counts[1] = 0


@compiled
def _copy(
    packed: Float64[np.ndarray, " n_cells"],
    square: Float64[np.ndarray, "m n"],
    transposed: bool,
    unpack: bool,
) -> None:
    """Copy packed cells to the solver's array (``unpack``) or back; ``transposed`` if queries are free."""
    m, n = square.shape
    for j in range(m):
        for i in range(n):
            cell = i * m + j if transposed else j * n + i
            if unpack:
                square[j, i] = packed[cell]
            else:
                packed[cell] = square[j, i]


@compiled
def _begin(
    cost: Float64[np.ndarray, "m n"],
    free: Float64[np.ndarray, " n"],
    epsilon: float,
    progress: _Progress,
) -> None:
    """Start at f = 0, at a level of epsilon at which the plan is smooth."""
    f = progress.potentials[: len(free)]
    smallest, largest = cost[0, 0], cost[0, 0]
    for i in range(len(free)):
        f[i] = 0.0 if free[i] > 0.0 else -np.inf
        for j in range(len(cost)):
            smallest, largest = min(smallest, cost[j, i]), max(largest, cost[j, i])
    progress.scale[0] = max(epsilon, FIRST_EPSILON * (largest - smallest))
    progress.scale[1] = FIRST_RADIUS


@compiled
def _begin_exactly(
    cost: Float64[np.ndarray, "m n"],
    free: Float64[np.ndarray, " n"],
    fixed: Float64[np.ndarray, " m"],
    epsilon: float,
    progress: _Progress,
) -> None:
    """Start again at the potentials of exact transport, which a small epsilon changes little."""
    f = progress.potentials[: len(free)]
    solve_exactly(cost, fixed.copy(), free.copy(), np.empty(cost.shape), np.empty(len(fixed)), f)
    for i in range(len(free)):
        if free[i] == 0.0:
            f[i] = -np.inf
    progress.scale[0] = epsilon
    progress.scale[1] = FIRST_RADIUS


@compiled
def _solve_pair(
    cost: Float64[np.ndarray, "m n"],
    free: Float64[np.ndarray, " n"],
    fixed: Float64[np.ndarray, " m"],
    epsilon: float,
    tolerance: float,
    max_steps: int,
    progress: _Progress,
) -> tuple[Float64[np.ndarray, "m n"], float, bool]:
    """Return the plan of one pair, its L1 error on the ``free`` side, and whether the solver has finished.

    Maximises H(f) = <free, f> + <fixed, g(f)>, where g is the soft c-transform of f; H is concave in the n
    potentials f (the semi-dual: Cuturi and Peyre 2018, arXiv 1807.07114). Newton steps stay within a trust
    radius, and epsilon is lowered level by level. The marginal of the ``fixed`` side holds by construction.

    Continues from ``progress``, up to ``max_steps``, and saves its state there.
    """
    f, steps = progress.potentials[: len(free)].copy(), progress.counts[1]
    level, radius = progress.scale
    rounding = 1e-14 * cost.max()  # smaller differences of H are rounding errors
    plan, slope, g, value, error = _evaluate(cost, f, free, fixed, level)
    while steps < max_steps and (level > epsilon or error >= tolerance):
        steps += 1
        balance = error < LEVEL_TOLERANCE and level > epsilon
        if balance:
            level = max(epsilon, EPSILON_FACTOR * level)
            radius = FIRST_RADIUS
        else:
            direction, longest = newton_direction(plan, free, fixed, slope, radius)
            trial = np.empty(len(f))
            rise = 0.0
            for i in range(len(f)):
                trial[i] = f[i] + level * direction[i]
                rise += level * slope[i] * direction[i]
            plan_, slope_, g_, value_, error_ = _evaluate(cost, trial, free, fixed, level)
            settled = abs(value_ - value) <= rounding and error_ < error
            if settled or value_ > value + SUFFICIENT_RISE * rise:
                f, plan, slope, g, value, error = trial, plan_, slope_, g_, value_, error_
                radius = max(radius, 2.0 * longest)
            else:
                radius = 0.25 * longest
                balance = True
        if balance:  # for cases outside Newton's model, such as a sentence whose mass has vanished
            f = _balance(cost, g, free, level)
            plan, slope, g, value, error = _evaluate(cost, f, free, fixed, level)
    progress.potentials[: len(free)] = f
    progress.scale[:] = level, radius
    progress.counts[1] = steps
    is_done = level <= epsilon and error < tolerance
    # A final half-step bounds the spread of f by that of the cost, as the gap of a plan assumes.
    f = _balance(cost, g, free, level)
    plan, slope, g, value, error = _evaluate(cost, f, free, fixed, level)
    return plan, error, is_done


@compiled
def _evaluate(
    cost: Float64[np.ndarray, "m n"],
    f: Float64[np.ndarray, " n"],
    free: Float64[np.ndarray, " n"],
    fixed: Float64[np.ndarray, " m"],
    epsilon: float,
) -> tuple[Float64[np.ndarray, "m n"], Float64[np.ndarray, " n"], Float64[np.ndarray, " m"], float, float]:
    """Return the plan of ``f`` with the fixed side exact, the slope of H, its g, H, and the L1 error."""
    m, n = cost.shape
    plan, slope, g = np.zeros((m, n)), free.copy(), np.full(m, -np.inf)
    value, error = 0.0, 0.0
    for j in range(m):
        if fixed[j] == 0.0:
            continue
        highest = -np.inf
        for i in range(n):
            highest = max(highest, f[i] - cost[j, i])
        total = 0.0
        for i in range(n):
            plan[j, i] = math.exp((f[i] - cost[j, i] - highest) / epsilon)
            total += plan[j, i]
        for i in range(n):
            plan[j, i] *= fixed[j] / total
            slope[i] -= plan[j, i]
        g[j] = epsilon * math.log(fixed[j] / total) - highest
        value += fixed[j] * g[j]
    for i in range(n):
        error += abs(slope[i])
        if free[i] > 0.0:
            value += free[i] * f[i]
    return plan, slope, g, value, error


@compiled
def _balance(
    cost: Float64[np.ndarray, "m n"],
    g: Float64[np.ndarray, " m"],
    free: Float64[np.ndarray, " n"],
    epsilon: float,
) -> Float64[np.ndarray, " n"]:
    """Return the f that makes the free side exact for this g: half a Sinkhorn sweep in the log domain."""
    m, n = cost.shape
    f = np.full(n, -np.inf)
    for i in range(n):
        if free[i] == 0.0:
            continue
        highest = -np.inf
        for j in range(m):
            highest = max(highest, g[j] - cost[j, i])
        total = 0.0
        for j in range(m):
            total += math.exp((g[j] - cost[j, i] - highest) / epsilon)
        f[i] = epsilon * math.log(free[i] / total) - highest
    return f
