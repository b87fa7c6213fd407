"""The transport problem of a query and many papers: costs, and the marginals from them (semantics 3.4)."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from models.interruption import check_interruption
from models.transport.compiled import compiled, compiled_reduction, inlined_reduction

WEIGHT_FLOOR = 1e-12  # of the largest weight; a lighter sentence changes no score, but slows the solvers
EASY_SPREAD = 40.0  # in epsilon; for a larger spread of distances Newton is faster than Sinkhorn


class Problem(NamedTuple):
    """The input of a solver, pairs end to end as in ``Plans``: plain arrays for compiled code."""

    cost: Float64[np.ndarray, " n_cells"]
    offsets: Int64[np.ndarray, " k_plus_1"]
    query_weights: Float64[np.ndarray, "k n_query"]
    sentence_weights: Float64[np.ndarray, " n_rows"]


class Outcome(NamedTuple):
    """The output of a solver: the plans, whether each converged, and after how many iterations."""

    mass: Float64[np.ndarray, " n_cells"]
    converged: Bool[np.ndarray, " k"]
    n_iterations: Int64[np.ndarray, " k"]


@compiled_reduction
def distances(
    query: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> Float64[np.ndarray, " n_cells"]:
    """Return L2 distances, each pair row by row, pairs end to end.

    They are computed by differences, not by norms and dot products: identical vectors have distance 0, close
    ones keep their digits. Four query sentences share each pass over a row; the last block is padded with the
    last sentence, so that all distances are computed by the same code, to the same bits.
    """
    n_query = len(query)
    cost = np.empty(n_query * len(rows))
    for pair in range(len(offsets) - 1):
        start, n_sentence = offsets[pair], offsets[pair + 1] - offsets[pair]
        for j in range(n_sentence):
            _distances_to_row(query, rows[start + j], cost, n_query * start + j, n_sentence)
    return cost


@compiled_reduction
def set_distances(
    query: Float32[np.ndarray, "n_query dim"],
    stored: np.ndarray,
    numbers: Int64[np.ndarray, " n_rows"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    pairs: tuple[int, int],
    cost: Float64[np.ndarray, " n_cells"],
) -> None:
    """Set the ``distances`` of the ``pairs`` from first to last, from stored rows with these numbers.

    Each row, float16 as bits or float32, is read in place and widened when it is compared. The cells of rows
    with the number -1 are left as they are.
    """
    n_query, row = len(query), np.empty(query.shape[1], np.float32)
    for pair in range(*pairs):
        start, n_sentence = offsets[pair], offsets[pair + 1] - offsets[pair]
        for j in range(n_sentence):
            if numbers[start + j] >= 0:
                widen(stored[numbers[start + j]], row)
                _distances_to_row(query, row, cost, n_query * start + j, n_sentence)


@inlined_reduction
def _distances_to_row(
    query: Float32[np.ndarray, "n_query dim"],
    row: Float32[np.ndarray, " dim"],
    cost: Float64[np.ndarray, " n_cells"],
    first: int,
    step: int,
) -> None:
    """Set a cell of ``cost`` for each query sentence: the ``first``, and each ``step`` cells further on."""
    n_query, dim = query.shape
    zero = np.float32(0.0)
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
                cost[first + (i + t) * step] = math.sqrt(np.float64(squared))


@compiled_reduction
def widen(bits: np.ndarray, row: Float32[np.ndarray, " dim"]) -> None:
    """Write one stored row (float16 as bits, or float32) to ``row`` as float32."""
    if bits.itemsize == 2:
        as_integers = row.view(np.uint32)
        for j in range(bits.shape[0]):
            half = np.uint32(bits[j])
            sign = (half & np.uint32(0x8000)) << np.uint32(16)
            as_integers[j] = sign | ((half & np.uint32(0x7FFF)) << np.uint32(13))
        for j in range(bits.shape[0]):
            row[j] *= np.float32(2.0**112)  # the two formats' exponents are biased by 15 and 127
    else:
        for j in range(bits.shape[0]):
            row[j] = bits[j]


def nearest_distances(
    vectors: Float32[np.ndarray, "n_query dim"],
    rows: Float32[np.ndarray, "n_rows dim"],
    offsets: Int64[np.ndarray, " k_plus_1"],
) -> Float64[np.ndarray, "n_query k"]:
    """Return the L2 distance of each query sentence from the nearest sentence of each paper.

    Raises what interrupts: a recommendation calls it for each of its seeds.
    """
    check_interruption()
    cost = distances(np.ascontiguousarray(vectors), rows, offsets)
    # The distances of a paper are contiguous, one query sentence after the other.
    starts = len(vectors) * offsets[:-1, None] + np.arange(len(vectors)) * np.diff(offsets)[:, None]
    near: Float64[np.ndarray, "n_query k"] = np.minimum.reduceat(cost, starts.ravel()).reshape(starts.shape).T
    return near


@compiled
def marginals(
    cost: Float64[np.ndarray, " n_cells"],
    offsets: Int64[np.ndarray, " k_plus_1"],
    log_weights: Float64[np.ndarray, " n_query"],
    tau: float,
) -> tuple[Float64[np.ndarray, "k n_query"], Float64[np.ndarray, " n_rows"], Float64[np.ndarray, " k"]]:
    """Return the weights of query and candidate sentences (semantics 3.4), and the cost spread of each pair.

    Within its paper, a sentence has the weight softmax(-smallest distance / tau), for query sentences
    multiplied by exp(``log_weights``) before normalising. The spread is the largest distance minus the
    smallest.
    """
    k, n_query = len(offsets) - 1, len(log_weights)
    query_weights, sentence_weights = np.empty((k, n_query)), np.empty(offsets[-1])
    spreads = np.empty(k)
    for pair in range(k):
        start, end = offsets[pair], offsets[pair + 1]
        largest = 0.0
        query_weights[pair] = np.inf
        sentence_weights[start:end] = np.inf
        for i in range(n_query):
            for j in range(start, end):
                distance = cost[n_query * start + i * (end - start) + j - start]
                largest = max(largest, distance)
                query_weights[pair, i] = min(query_weights[pair, i], distance)
                sentence_weights[j] = min(sentence_weights[j], distance)
        spreads[pair] = largest - query_weights[pair].min()
        for i in range(n_query):
            query_weights[pair, i] -= tau * log_weights[i]
        softmin(query_weights[pair], tau)
        softmin(sentence_weights[start:end], tau)
    return query_weights, sentence_weights, spreads


@compiled
def softmin(distances: Float64[np.ndarray, " n"], tau: float) -> None:
    """Replace distances by softmax(-distances / tau); weights below ``WEIGHT_FLOOR`` become exactly 0."""
    smallest = distances.min()
    total = 0.0
    for i in range(len(distances)):
        weight = math.exp((smallest - distances[i]) / tau)
        distances[i] = weight if weight > WEIGHT_FLOOR else 0.0
        total += distances[i]
    for i in range(len(distances)):
        distances[i] /= total
