"""Scoring one query against many candidate papers on the CPU; the serving path (numba, no loop in Python)."""

import math

import numpy as np
from jaxtyping import Float32, Float64, Int64

from models.errors import InputError
from models.transport.compiled import compiled, compiled_reduction
from models.transport.exact import exact_transport
from models.transport.newton import newton
from models.transport.plan import SERVING, Plans, Scorer, TransportSettings
from models.transport.sinkhorn import sinkhorn

WEIGHT_FLOOR = 1e-12  # of the largest weight; a lighter sentence moves no score, and hinders the solvers
EASY_SPREAD = 40.0  # in epsilon; where distances spread further Newton is faster than Sinkhorn


def score_papers(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    *,
    scorer: Scorer = Scorer.OT,
    settings: TransportSettings = SERVING,
) -> Plans:
    """Compare a query paper with ``k`` candidates, candidate ``i`` being ``rows[offsets[i]:offsets[i + 1]]``.

    Single-threaded and without the GIL: serve requests side by side, one thread each. The plan of a pair
    is the same bit for bit whatever else is in the call. Semantics 3.4; memory is 16 bytes per cell of the
    result and at most some 20 MiB beside it.

    Raises InputError for vectors that are not finite, a paper without sentences, or offsets that do not
    match the rows.
    """
    _check_shapes(query, rows, offsets)
    k, n_query = len(offsets) - 1, len(query)
    cost = _distances(np.ascontiguousarray(query), np.ascontiguousarray(rows), offsets)
    if not np.isfinite(cost).all():
        raise InputError(
            "A distance between a query sentence and a candidate sentence is not finite: the vectors hold "
            "NaN, infinity or values beyond about 1e18. Check the encoder that made them."
        )
    if scorer is Scorer.OT:
        return _entropic_plans(cost, offsets, n_query, settings)
    if scorer is Scorer.EXACT_OT:
        return _exact_plans(cost, offsets, n_query, settings)
    mass = np.zeros_like(cost)
    if scorer is Scorer.SINGLE:
        _single(cost, offsets, n_query, mass)
    elif scorer is Scorer.MEAN_MIN:
        _mean_min(cost, offsets, n_query, mass)
    else:
        _attention(cost, offsets, n_query, settings.tau, mass)
    k = len(offsets) - 1
    return Plans(
        mass=mass,
        cost=cost,
        offsets=offsets,
        n_query=n_query,
        scores=_scores(mass, cost, offsets, n_query),
        marginal_errors=np.zeros(k),
        gaps=np.zeros(k),
        converged=np.ones(k, np.bool_),
        n_iterations=np.zeros(k, np.int64),
    )


def _entropic_plans(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    settings: TransportSettings,
) -> Plans:
    """Sinkhorn for the pairs whose distances span few epsilon, Newton for the others and what is left over.

    The gap: with the final half-step exact on one side, concavity of the dual bounds its distance to the
    optimum by half the L1 marginal error times the spreads of the current and the optimal potentials, and
    each of these is a soft c-transform, hence spreads no further than the cost.
    """
    query_weights, sentence_weights, spreads = marginals(cost, offsets, n_query, settings.tau)
    mass, converged = np.zeros_like(cost), np.zeros(len(spreads), np.bool_)
    n_iterations = np.zeros(len(spreads), np.int64)
    order = np.argsort(np.diff(offsets), kind="stable")
    easy = order[spreads[order] <= EASY_SPREAD * settings.epsilon]
    sinkhorn(
        cost, offsets, easy, query_weights, sentence_weights,
        settings.epsilon, settings.tolerance, settings.max_sweeps, mass, converged, n_iterations,
    )  # fmt: skip
    newton(
        cost, offsets, query_weights, sentence_weights,
        settings.epsilon, settings.tolerance, settings.max_newton_steps, mass, converged, n_iterations,
    )  # fmt: skip
    errors = _marginal_errors(mass, offsets, query_weights, sentence_weights)
    return Plans(
        mass=mass,
        cost=cost,
        offsets=offsets,
        n_query=n_query,
        scores=_scores(mass, cost, offsets, n_query),
        marginal_errors=errors,
        gaps=errors * spreads,
        converged=converged,
        n_iterations=n_iterations,
    )


def _exact_plans(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    settings: TransportSettings,
) -> Plans:
    """Exact transport between the marginals of the entropic plan; the gap is that of the linear programme."""
    query_weights, sentence_weights, _ = marginals(cost, offsets, n_query, settings.tau)
    exact = exact_transport(cost, offsets, query_weights, sentence_weights)
    scores = _scores(exact.mass, cost, offsets, n_query)
    return Plans(
        mass=exact.mass,
        cost=cost,
        offsets=offsets,
        n_query=n_query,
        scores=scores,
        marginal_errors=_marginal_errors(exact.mass, offsets, query_weights, sentence_weights),
        gaps=np.maximum(-scores - exact.duals, 0.0),
        converged=exact.converged,
        n_iterations=exact.n_paths,
    )


def _check_shapes(
    query: Float32[np.ndarray, "n_query _"],
    rows: Float32[np.ndarray, "n_rows _"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> None:
    """Raise InputError for what the compiled loops would read out of bounds or divide by."""
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


@compiled_reduction
def _distances(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> Float64[np.ndarray, " n_cells"]:
    """L2 distances, each pair row by row, pairs end to end.

    By differences, not by norms and dot products: identical vectors are at distance 0, close ones keep
    their digits. Four query sentences share each pass over a row; the last block is filled up with the
    last sentence, so that every distance comes out of the same code, and the same bits.
    """
    n_query, dim = query.shape
    cost = np.empty(n_query * len(rows))
    zero = np.float32(0.0)
    for pair in range(len(offsets) - 1):
        start, n_sentence = offsets[pair], offsets[pair + 1] - offsets[pair]
        for j in range(n_sentence):
            row = rows[start + j]
            for i in range(0, n_query, 4):
                q0, q1 = query[i], query[min(i + 1, n_query - 1)]
                q2, q3 = query[min(i + 2, n_query - 1)], query[min(i + 3, n_query - 1)]
                s0, s1, s2, s3 = zero, zero, zero, zero
                for c in range(dim):
                    s0 += (q0[c] - row[c]) * (q0[c] - row[c])
                    s1 += (q1[c] - row[c]) * (q1[c] - row[c])
                    s2 += (q2[c] - row[c]) * (q2[c] - row[c])
                    s3 += (q3[c] - row[c]) * (q3[c] - row[c])
                for t, squared in enumerate((s0, s1, s2, s3)):
                    if i + t < n_query:
                        cost[n_query * start + (i + t) * n_sentence + j] = math.sqrt(np.float64(squared))
    return cost


@compiled
def marginals(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    tau: float,
) -> tuple[Float64[np.ndarray, "k n_query"], Float64[np.ndarray, " n_rows"], Float64[np.ndarray, " k"]]:
    """Weights of query sentences and of candidate sentences (semantics 3.4), and each pair's cost spread.

    A sentence weighs softmax(-its smallest distance / tau) within its paper; the spread is the largest
    distance of the pair less its smallest.
    """
    k = len(offsets) - 1
    query_weights, sentence_weights = np.empty((k, n_query)), np.empty(offsets[-1])
    spreads = np.empty(k)
    for pair in range(k):
        start, end = offsets[pair], offsets[pair + 1]
        pair_cost = cost[n_query * start : n_query * end].reshape((n_query, end - start))
        spreads[pair] = pair_cost.max() - pair_cost.min()
        for i in range(n_query):
            query_weights[pair, i] = pair_cost[i].min()
        for j in range(end - start):
            sentence_weights[start + j] = pair_cost[:, j].min()
        _softmin(query_weights[pair], tau)
        _softmin(sentence_weights[start:end], tau)
    return query_weights, sentence_weights, spreads


@compiled
def _softmin(distances: Float64[np.ndarray, " n"], tau: float) -> None:
    """Replace distances by softmax(-distances / tau); weights below the floor become exactly 0."""
    smallest = distances.min()
    total = 0.0
    for i in range(len(distances)):
        weight = math.exp((smallest - distances[i]) / tau)
        distances[i] = weight if weight > WEIGHT_FLOOR else 0.0
        total += distances[i]
    for i in range(len(distances)):
        distances[i] /= total


@compiled
def _single(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    mass: Float64[np.ndarray, " n_cells"],
) -> None:
    """All mass on the smallest distance; the first cell of several, in reading order."""
    for pair in range(len(offsets) - 1):
        cells = slice(n_query * offsets[pair], n_query * offsets[pair + 1])
        mass[cells][cost[cells].argmin()] = 1.0


@compiled
def _mean_min(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    mass: Float64[np.ndarray, " n_cells"],
) -> None:
    """Every query sentence wholly on its nearest sentence, the first of several."""
    for pair in range(len(offsets) - 1):
        n_sentence = offsets[pair + 1] - offsets[pair]
        for i in range(n_query):
            first = n_query * offsets[pair] + i * n_sentence
            mass[first + cost[first : first + n_sentence].argmin()] = 1.0 / n_query


@compiled
def _attention(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
    tau: float,
    mass: Float64[np.ndarray, " n_cells"],
) -> None:
    """softmax(-cost / tau) over all cells of a pair (semantics 5, AttAspire)."""
    mass[:] = cost
    for pair in range(len(offsets) - 1):
        _softmin(mass[n_query * offsets[pair] : n_query * offsets[pair + 1]], tau)


@compiled
def _scores(
    mass: Float64[np.ndarray, " n_cells"],
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    n_query: int,
) -> Float64[np.ndarray, " k"]:
    """-sum(mass * cost) of every pair."""
    scores = np.zeros(len(offsets) - 1)
    for pair in range(len(scores)):
        for cell in range(n_query * offsets[pair], n_query * offsets[pair + 1]):
            scores[pair] -= mass[cell] * cost[cell]
    return scores


@compiled
def _marginal_errors(
    mass: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    query_weights: Float64[np.ndarray, "k n_query"],
    sentence_weights: Float64[np.ndarray, " n_rows"],
) -> Float64[np.ndarray, " k"]:
    """L1 distance of every plan's row and column sums to their marginals."""
    k, n_query = query_weights.shape
    errors = np.zeros(k)
    for pair in range(k):
        start, end = offsets[pair], offsets[pair + 1]
        plan = mass[n_query * start : n_query * end].reshape((n_query, end - start))
        for i in range(n_query):
            errors[pair] += abs(plan[i].sum() - query_weights[pair, i])
        for j in range(end - start):
            errors[pair] += abs(plan[:, j].sum() - sentence_weights[start + j])
    return errors
