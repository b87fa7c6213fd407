"""Bootstrap intervals of a mean over queries: query papers are resampled and differences are paired."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

import numpy as np
from jaxtyping import Float64

from models.errors import InputError

N_RESAMPLES = 10_000
# The share of resamples between low and high.
COVERAGE = 0.95
# The percentage of such intervals that contain the true mean, by the number of papers, each with one to three
# queries; percentile intervals of few papers are too narrow. The tests simulate it.
HOLDING: Final[Mapping[int, int]] = MappingProxyType({34: 93, 17: 92, 8: 88})
# A corrected family of comparisons needs p values under 5 % divided by the size of the family, and p is at
# least two over the number of resamples: 800 per comparison make the least p a twentieth of what is needed.
# Large families get fewer, at least 100 per comparison, with which it is two fifths.
_SMALL_FAMILY, _PER_COMPARISON, _MANY, _LEAST_PER_COMPARISON = 125, 800, 400_000, 100
# Numbers drawn at a time: 8 MiB, for any number of clusters.
_DRAWS_AT_A_TIME = 1 << 20
# Resampled means kept at a time: 512 MiB. More rows are resampled in turns, with the same resamples.
_KEPT_AT_A_TIME = 1 << 26

Name = TypeVar("Name", bound=Hashable)
# Computes figures from rows of summed counts: (n_drawn, n_counts) in, (n_drawn, n_figures) out.
Figures = Callable[[Float64[np.ndarray, "n_drawn n_counts"]], Float64[np.ndarray, "n_drawn n_figures"]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over ``n`` queries, or a difference of two, with the bounds of its 95 % interval, in percent.

    ``low`` and ``high`` are nan if all queries share one cluster: one paper says nothing about others.
    """

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference(Interval):
    """A difference of two means, with ``p``: twice the share of resamples on the other side of zero.

    So ``p`` is under 5 % if the 95 % interval excludes zero. It is at least two over the number of resamples,
    and nan if the bounds are nan.
    """

    p: float


def resamples_for(n_comparisons: int) -> int:
    """Return how many resamples ``n_comparisons`` need when they are corrected together (Holm)."""
    if n_comparisons <= _SMALL_FAMILY:
        return N_RESAMPLES
    return max(min(_PER_COMPARISON * n_comparisons, _MANY), _LEAST_PER_COMPARISON * n_comparisons)


def interval(
    values: Mapping[str, float],
    clusters: Mapping[str, str],
    *,
    weights: Mapping[str, float] | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return the mean of ``values`` (query id -> percent) with its percentile interval.

    Queries of one paper are not independent, so whole clusters (query id -> query paper) are drawn with
    replacement, as many as there are (Field and Welsh, JRSS B 2007). ``weights`` makes the mean a weighted
    mean. The same seed gives the same interval, for any order of the queries.

    With few papers, percentile intervals are too narrow (``HOLDING``). Raises InputError if there are no
    queries or a value is not finite.
    """
    named = intervals({"": values}, clusters, weights=weights, n_resamples=n_resamples, seed=seed)
    return named[""]


def difference(
    a: Mapping[str, float],
    b: Mapping[str, float],
    clusters: Mapping[str, str],
    *,
    weights: Mapping[str, float] | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Return the mean of ``a`` minus ``b`` over the same queries, paired: both are resampled together.

    Raises InputError if the queries differ, if there are none or if a value is not finite.
    """
    return differences(a, {"": b}, clusters, weights=weights, n_resamples=n_resamples, seed=seed)[""]


def differences(
    a: Mapping[str, float],
    others: Mapping[Name, Mapping[str, float]],
    clusters: Mapping[str, str],
    *,
    weights: Mapping[str, float] | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> dict[Name, Difference]:
    """Return the ``difference`` of ``a`` and each of ``others``; the resamples are drawn only once."""
    for b in others.values():
        if a.keys() != b.keys():
            raise InputError(
                f"A paired difference needs the same queries on both sides; {len(a.keys() ^ b.keys())} are "
                "on one side only. Compare two runs of one collection."
            )
    table = {name: {query_id: a[query_id] - b[query_id] for query_id in a} for name, b in others.items()}
    return _means(table, clusters, weights=weights, n_resamples=n_resamples, seed=seed)


def intervals(
    table: Mapping[Name, Mapping[str, float]],
    clusters: Mapping[str, str],
    *,
    weights: Mapping[str, float] | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> dict[Name, Interval]:
    """Return ``interval`` of each named row of ``table``, over the same queries and the same resamples."""
    found = _means(table, clusters, weights=weights, n_resamples=n_resamples, seed=seed)
    return {name: Interval(each.value, each.low, each.high, each.n) for name, each in found.items()}


def _means(
    table: Mapping[Name, Mapping[str, float]],
    clusters: Mapping[str, str],
    *,
    weights: Mapping[str, float] | None,
    n_resamples: int,
    seed: int,
) -> dict[Name, Difference]:
    """Return the mean of each row, as a difference from zero."""
    if not table:
        return {}
    query_ids = sorted(next(iter(table.values())))
    if not query_ids or any(row.keys() != set(query_ids) for row in table.values()):
        raise InputError(
            "Every row must hold the values of the same queries, at least one; give all of them."
        )
    values = np.array([[row[query_id] for row in table.values()] for query_id in query_ids], dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError("A value to be averaged is not finite; give a number for every query.")
    names, cluster_of = np.unique([clusters[query_id] for query_id in query_ids], return_inverse=True)
    weight = np.array([1.0 if weights is None else weights[query_id] for query_id in query_ids])

    sums = np.zeros((len(names), values.shape[1]))  # (n_clusters, n_rows)
    np.add.at(sums, cluster_of, values * weight[:, None])
    totals = np.bincount(cluster_of, weights=weight, minlength=len(names))  # (n_clusters,)
    at_a_time = max(1, _KEPT_AT_A_TIME // n_resamples)
    blocks = np.split(sums, range(at_a_time, sums.shape[1], at_a_time), axis=1)
    low, high, p = np.concatenate(
        [_bounds_of_means(each, totals, n_resamples, seed) for each in blocks], axis=1
    )
    means = sums.sum(axis=0) / totals.sum()
    return {
        name: Difference(float(means[i]), float(low[i]), float(high[i]), len(query_ids), float(p[i]))
        for i, name in enumerate(table)
    }


def _bounds_of_means(
    sums: Float64[np.ndarray, "n_clusters n_rows"],
    totals: Float64[np.ndarray, " n_clusters"],
    n_resamples: int,
    seed: int,
) -> Float64[np.ndarray, "3 n_rows"]:
    counts = np.column_stack([sums, totals])
    return bounds(counts, lambda drawn: drawn[:, :-1] / drawn[:, -1:], n_resamples=n_resamples, seed=seed)


def bounds(
    counts: Float64[np.ndarray, "n_clusters n_counts"],
    figures: Figures,
    *,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    draws_at_a_time: int = _DRAWS_AT_A_TIME,
) -> Float64[np.ndarray, "3 n_figures"]:
    """Return the ends of the 95 % intervals of ``figures``, and their ``p`` (see Difference).

    The figures may be means or not (F1). ``p`` has no meaning for a figure that is not a difference.

    ``counts`` are what each cluster adds to the sums that the figures are computed from. A resample in which
    a figure is nan (undefined) is ignored for that figure. A result is nan if there is one cluster or the
    figure is undefined in all resamples. ``draws_at_a_time`` bounds memory, at 8 bytes each.
    """
    ends = np.full((3, figures(counts).shape[1]), np.nan)
    if len(counts) > 1:
        at_a_time = max(1, draws_at_a_time // len(counts))
        resamples = _resamples(len(counts), n_resamples, seed, at_a_time)
        parts = [figures(times @ counts) for times in resamples]
        drawn = np.concatenate(parts)  # (n_resamples, n_figures)
        defined = ~np.isnan(drawn).all(axis=0)
        tail = (1 - COVERAGE) / 2
        drawn = drawn[:, defined]
        ends[:2, defined] = np.nanquantile(drawn, (tail, 1 - tail), axis=0)
        beyond = np.minimum((drawn <= 0).sum(axis=0), (drawn >= 0).sum(axis=0))
        ends[2, defined] = np.minimum(1.0, 2.0 * np.maximum(beyond, 1) / (~np.isnan(drawn)).sum(axis=0))
    return ends


def _resamples(
    n_clusters: int, n_resamples: int, seed: int, at_a_time: int
) -> Iterator[Float64[np.ndarray, "n_drawn n_clusters"]]:
    """Yield how often each cluster is drawn in each resample, ``at_a_time`` resamples at a time."""
    generator = np.random.default_rng(seed)
    for first in range(0, n_resamples, at_a_time):
        n_drawn = min(at_a_time, n_resamples - first)
        drawn = generator.integers(n_clusters, size=(n_drawn, n_clusters))
        cells = drawn + n_clusters * np.arange(n_drawn)[:, None]
        counts = np.bincount(cells.ravel(), minlength=n_drawn * n_clusters)
        yield counts.reshape(n_drawn, n_clusters).astype(np.float64)
