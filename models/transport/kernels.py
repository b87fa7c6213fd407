"""Scores of one query against many candidate papers on the CPU; the serving path (numba, no Python loops)."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float32, Float64, Int64

from models.errors import InputError
from models.transport.compiled import compiled
from models.transport.exact import exact_transport
from models.transport.newton import newton
from models.transport.plan import SERVING, Plans, Scorer, TransportSettings
from models.transport.problem import EASY_SPREAD, Outcome, Problem, distances, marginals, softmin
from models.transport.sinkhorn import sinkhorn


def score_papers(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
    log_weights: Float64[np.ndarray, " n_query"] | None = None,
) -> Plans:
    """Compare a query paper with ``k`` candidates; candidate ``i`` is ``rows[offsets[i]:offsets[i + 1]]``.

    The weight of query sentence ``i`` is multiplied by exp(log_weights[i]) (``None``: by 1) for every scorer
    except ``single``, which uses a single pair of sentences.

    Single-threaded and without the GIL: serve requests side by side, one thread each. The plan of a pair
    is the same bit for bit whatever else is in the call. Semantics 3.4; memory is 16 bytes per cell of the
    result and at most about 20 MiB more.

    Raises InputError for vectors that are not finite or not float32, a paper without sentences, offsets
    that do not match the rows, or weights that do not match the query; and the errors of
    ``check_interruption``.
    """
    log_weights = check_vectors(query, rows, offsets, log_weights)
    offsets = np.array(offsets)  # a contiguous, writable copy: one type to compile for, safe in the result
    cost = distances(np.array(query, order="C"), np.ascontiguousarray(rows), offsets)
    expect_finite(cost)
    return plans_of(cost, offsets, log_weights, scorer, settings)


def expect_finite(cost: Float64[np.ndarray, " n_cells"]) -> None:
    """Raise InputError for distances that are not finite."""
    if not np.isfinite(cost).all():
        raise InputError(
            "A distance between a query sentence and a candidate sentence is not finite: the vectors hold "
            "NaN, infinity or values beyond about 1e18. Check the encoder that made them."
        )


def plans_of(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    log_weights: Float64[np.ndarray, " n_query"],
    scorer: Scorer,
    settings: TransportSettings,
) -> Plans:
    """Return the plans of pairs with these distances, end to end as in ``Plans``."""
    k, n_query = len(offsets) - 1, len(log_weights)
    if scorer in (Scorer.OT, Scorer.EXACT_OT):
        return _transport_plans(cost, offsets, log_weights, scorer, settings)
    outcome = Outcome(np.zeros_like(cost), np.ones(k, np.bool_), np.zeros(k, np.int64))
    if scorer is Scorer.SINGLE:
        _single(cost, offsets, n_query, outcome.mass)
    elif scorer is Scorer.MEAN_MIN:
        _mean_min(cost, offsets, log_weights, outcome.mass)
    else:
        _attention(cost, offsets, log_weights, settings.tau, outcome.mass)
    return _plans(cost, offsets, n_query, outcome, np.zeros(k))


def _plans(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    outcome: Outcome,
    marginal_errors: Float64[np.ndarray, " k"],
) -> Plans:
    """Return the plans of an outcome with their scores; gaps are 0."""
    return Plans(
        mass=outcome.mass,
        cost=cost,
        offsets=offsets,
        n_query=n_query,
        scores=_scores(outcome.mass, cost, offsets, n_query),
        marginal_errors=marginal_errors,
        gaps=np.zeros(len(marginal_errors)),
        converged=outcome.converged,
        n_iterations=outcome.n_iterations,
    )


def _transport_plans(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    log_weights: Float64[np.ndarray, " n_query"],
    scorer: Scorer,
    settings: TransportSettings,
) -> Plans:
    """Solve transport between the marginals of semantics 3.4, entropic or exact.

    The gap of an exact plan is that of the linear programme. For an entropic plan, the final half-step is
    exact on one side, so concavity of the dual bounds the distance to the optimum by half the L1 marginal
    error times the sum of the spreads of the current and the optimal potentials. Both are soft c-transforms,
    so their spreads are at most that of the cost. A plan that did not converge may belong to a larger
    epsilon; then the largest difference between any two plans is the bound.
    """
    query_weights, sentence_weights, spreads = marginals(cost, offsets, log_weights, settings.tau)
    problem = Problem(cost, offsets, query_weights, sentence_weights)
    k = len(spreads)
    outcome = Outcome(np.zeros_like(cost), np.zeros(k, np.bool_), np.zeros(k, np.int64))
    if scorer is Scorer.EXACT_OT:
        duals = exact_transport(problem, outcome)
    else:
        _solve_entropic(problem, spreads, settings, outcome)
    plans = _plans(cost, offsets, len(log_weights), outcome, _marginal_errors(problem, outcome.mass))
    if scorer is Scorer.EXACT_OT:
        return replace(plans, gaps=np.maximum(-plans.scores - duals, 0.0))
    # The mean costs of two plans differ by the spread at most, their entropies by the log of their cells.
    largest = spreads + settings.epsilon * np.log(len(log_weights) * np.diff(offsets))
    return replace(plans, gaps=np.where(plans.converged, plans.marginal_errors * spreads, largest))


def _solve_entropic(
    problem: Problem, spreads: Float64[np.ndarray, " k"], settings: TransportSettings, outcome: Outcome
) -> None:
    """Solve pairs whose distances span few epsilon by Sinkhorn, all other and unconverged ones by Newton."""
    order = np.argsort(np.diff(problem.offsets), kind="stable")
    easy = order[spreads[order] <= EASY_SPREAD * settings.epsilon]
    sinkhorn(problem, easy, settings.epsilon, settings.tolerance, settings.max_sweeps, outcome)
    newton(problem, settings.epsilon, settings.tolerance, settings.max_newton_steps, outcome)


def check_vectors(
    query: np.ndarray,
    rows: np.ndarray,
    offsets: Int64[np.ndarray, " k_plus_1"],
    log_weights: Float64[np.ndarray, " _"] | None,
) -> Float64[np.ndarray, " n_query"]:
    """Return the weights, zeros for ``None``; raises InputError for input ``score_papers`` cannot compare."""
    _check_types(query=query, rows=rows)
    check_shapes(query, rows, offsets)
    return checked_weights(log_weights, len(query))


def _check_types(**vectors: np.ndarray) -> None:
    """Raise InputError for types that the loops are not compiled for."""
    for name, given in vectors.items():
        if given.dtype != np.float32:
            raise InputError(
                f"The {name} vectors are {given.dtype}; expected float32. Convert them with "
                ".astype(np.float32)."
            )


def checked_weights(
    log_weights: Float64[np.ndarray, " _"] | None, n_query: int
) -> Float64[np.ndarray, " n_query"]:
    """Return the weights, zeros for ``None``; raises InputError for wrong shapes or values."""
    if log_weights is None:
        return np.zeros(n_query)
    if log_weights.shape != (n_query,) or not np.isfinite(log_weights).all():
        raise InputError(
            f"The log weights have shape {log_weights.shape}; expected {n_query} finite numbers, one per "
            "query sentence."
        )
    return np.array(log_weights, dtype=np.float64)  # a contiguous copy: one type to compile for


def check_shapes(
    query: Float32[np.ndarray, "n_query _"],
    rows: Float32[np.ndarray, "n_rows _"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> None:
    """Raise InputError for shapes with which compiled loops would read out of bounds or divide by zero."""
    if query.shape[0] == 0 or query.shape[1] != rows.shape[1]:
        raise InputError(
            f"The query has shape {query.shape} and the candidates' rows {rows.shape}; expected at least one "
            "query sentence and the same dimension. Encode both with the same encoder."
        )
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(rows):
        raise InputError(
            f"Offsets {offsets[:1]} ... {offsets[-1:]} do not span the {len(rows)} rows; expected k + 1 "
            f"offsets from 0 to {len(rows)}. Pass only the rows of the candidates, end to end."
        )
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise InputError(
            f"Candidate {empty[0]} owns {np.diff(offsets)[empty[0]]} rows; expected at least one sentence. "
            "Leave papers without sentences out of the candidates."
        )


@compiled
def _single(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    mass: Float64[np.ndarray, " n_cells"],
) -> None:
    """Put all mass on the smallest distance; on ties on the first cell, in row-major order."""
    for pair in range(len(offsets) - 1):
        cells = slice(n_query * offsets[pair], n_query * offsets[pair + 1])
        mass[cells][cost[cells].argmin()] = 1.0


@compiled
def _mean_min(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    log_weights: Float64[np.ndarray, " n_query"],
    mass: Float64[np.ndarray, " n_cells"],
) -> None:
    """Put all mass of each query sentence on its nearest sentence; on ties on the first."""
    n_query = len(log_weights)
    weights = -log_weights
    softmin(weights, 1.0)
    for pair in range(len(offsets) - 1):
        n_sentence = offsets[pair + 1] - offsets[pair]
        for i in range(n_query):
            first = n_query * offsets[pair] + i * n_sentence
            mass[first + cost[first : first + n_sentence].argmin()] = weights[i]


@compiled
def _attention(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    log_weights: Float64[np.ndarray, " n_query"],
    tau: float,
    mass: Float64[np.ndarray, " n_cells"],
) -> None:
    """Write softmax(-cost / tau) over all cells of a pair (semantics 5, AttAspire), rows by weight."""
    n_query = len(log_weights)
    for pair in range(len(offsets) - 1):
        n_sentence = offsets[pair + 1] - offsets[pair]
        for i in range(n_query):
            first = n_query * offsets[pair] + i * n_sentence
            for cell in range(first, first + n_sentence):
                mass[cell] = cost[cell] - tau * log_weights[i]
        softmin(mass[n_query * offsets[pair] : n_query * offsets[pair + 1]], tau)


@compiled
def _scores(
    mass: Float64[np.ndarray, " n_cells"],
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
) -> Float64[np.ndarray, " k"]:
    """Return -sum(mass * cost) of every pair."""
    scores = np.zeros(len(offsets) - 1)
    for pair in range(len(scores)):
        for cell in range(n_query * offsets[pair], n_query * offsets[pair + 1]):
            scores[pair] -= mass[cell] * cost[cell]
    return scores


@compiled
def _marginal_errors(problem: Problem, mass: Float64[np.ndarray, " n_cells"]) -> Float64[np.ndarray, " k"]:
    """Return the L1 distance of every plan's row and column sums from their marginals."""
    offsets = problem.offsets
    k, n_query = problem.query_weights.shape
    errors = np.zeros(k)
    for pair in range(k):
        start, end = offsets[pair], offsets[pair + 1]
        n_sentence = end - start
        missing = problem.sentence_weights[start:end].copy()
        for i in range(n_query):
            missing_row = problem.query_weights[pair, i]
            for j in range(n_sentence):
                cell = mass[n_query * start + i * n_sentence + j]
                missing_row -= cell
                missing[j] -= cell
            errors[pair] += abs(missing_row)
        for j in range(n_sentence):
            errors[pair] += abs(missing[j])
    return errors
