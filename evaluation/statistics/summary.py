"""The figures of a comparison: every system by facet, fold and measure, each with its interval."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from evaluation.collection import Collection, EvalQuery
from evaluation.measures import per_query
from evaluation.run import Run
from evaluation.statistics.bootstrap import COVERAGE, N_RESAMPLES, Difference, differences, intervals
from models.errors import InputError

ALL = "all"
# Measures in which a lower figure is better.
LOWER_IS_BETTER = frozenset({"loss"})
_SEED = "-seed"  # ends the names of systems that differ only by their training seed


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, in percent, over ``n`` queries; ``facet`` or ``fold`` is "all" if it covers them all.

    ``low`` and ``high`` bound the 95 % interval (``bootstrap``); they are nan if there is only one paper.
    """

    set: str
    system: str
    facet: str
    fold: str
    measure: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of a figure over systems that differ only by their seed, in percent."""

    system: str
    measure: str
    mean: float
    deviation: float
    n_seeds: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lead of one run over another in one measure, in percentage points, over all folds.

    ``p_corrected`` is the p value among all comparisons of the same table (evaluation.statistics.multiple),
    nan for a single comparison.
    """

    measure: str
    facet: str
    difference: Difference
    p_corrected: float = math.nan

    @property
    def resolvable(self) -> bool:
        """Whether zero lies outside the interval: these queries suffice to tell the two runs apart."""
        return self.difference.low > 0 or self.difference.high < 0

    @property
    def holds(self) -> bool:
        """Whether the difference is still resolvable after correction for all comparisons of the table."""
        return self.p_corrected < 1 - COVERAGE

    @property
    def verdict(self) -> str:
        """``yes`` if it ``holds``, ``alone`` if it is only ``resolvable``, else ``no``."""
        if self.holds:
            return "yes"
        return "alone" if self.resolvable else "no"


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """System ``a`` minus system ``b``, as ``comparison``."""

    a: str
    b: str
    comparison: Comparison

    @property
    def key(self) -> tuple[str, str, str]:
        """The two systems and the facet."""
        return self.a, self.b, self.comparison.facet


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of a task: figures, comparisons, and notes for the reader."""

    n_papers: int
    n_queries: int
    rows: tuple[Row, ...]
    compared: tuple[SystemComparison, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Group:
    """The queries behind one figure, and the weight of each."""

    facet: str
    fold: str
    queries: tuple[EvalQuery, ...]
    weights: dict[str, float]

    @property
    def clusters(self) -> dict[str, str]:
        return {query.id: query.cluster for query in self.queries}

    def of(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return only the values of the group's queries."""
        return {query.id: values[query.id] for query in self.queries}


def summarise(
    collection: Collection,
    runs: Sequence[Run],
    *,
    with_mean: bool = False,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> list[Row]:
    """Return a row for each run, facet, fold and measure of ``collection``; "all" facets and folds come last.

    If there are several folds, the figure over all of them is the mean of the folds' means, as CSFCube
    reports its test (semantics 3.7); over all facets, every query counts alike within its fold. All runs are
    measured on the same resamples. ``with_mean`` adds the mean of the runs, each query's values averaged.
    Raises InputError for two runs with the same name.
    """
    systems = [run.system for run in runs]
    if len(set(systems)) < len(systems):
        raise InputError(
            f"Two runs have the same name among {', '.join(systems)}; name each run differently."
        )
    values = {run.system: per_query(collection, run) for run in runs}
    if with_mean:
        systems.append(f"mean of {len(runs)} runs")
        values[systems[-1]] = _mean(list(values.values()))
    rows = [
        row
        for group in _groups(collection)
        for row in _rows(collection.name, group, values, n_resamples=n_resamples, seed=seed)
    ]
    return sorted(rows, key=lambda row: systems.index(row.system))


def _mean(values: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the mean of several runs' values, by measure and query."""
    n_runs = len(values)
    return {
        measure: {query: math.fsum(one[measure][query] for one in values) / n_runs for query in of_queries}
        for measure, of_queries in values[0].items()
    }


def _rows(
    name: str,
    group: _Group,
    values: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    n_resamples: int,
    seed: int,
) -> Iterator[Row]:
    """Yield the rows of one group, from values by system, measure and query."""
    table = {
        (system, measure): group.of(of_queries)
        for system, of_measures in values.items()
        for measure, of_queries in of_measures.items()
    }
    figures = intervals(table, group.clusters, weights=group.weights, n_resamples=n_resamples, seed=seed)
    for (system, measure), figure in figures.items():
        yield Row(
            set=name,
            system=system,
            facet=group.facet,
            fold=group.fold,
            measure=measure,
            value=figure.value,
            low=figure.low,
            high=figure.high,
            n=figure.n,
        )


def over_seeds(rows: Sequence[Row]) -> list[Spread]:
    """Average the figures over all queries of systems ``NAME-seedN``, for each NAME with several seeds."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        name, parted, seed = row.system.rpartition(_SEED)
        if parted and seed.isdecimal() and (row.facet, row.fold) == (ALL, ALL):
            found[name, row.measure].append(row.value)
    return [
        Spread(name, measure, fmean(values), stdev(values), len(values))
        for (name, measure), values in found.items()
        if len(values) > 1
    ]


def compare(
    collection: Collection,
    a: Run,
    b: Run,
    *,
    facet: str | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> list[Comparison]:
    """Return ``a`` minus ``b`` for each facet and measure of ``collection``, over all folds, paired by query.

    The mean is that of ``summarise``. Each interval stands alone: of twenty comparisons of equal systems at
    least one is expected to look resolvable, more if there are few papers (evaluation.statistics.bootstrap).
    ``facet`` limits the result to one facet.
    """
    return compare_each(collection, a, [b], facet=facet, n_resamples=n_resamples, seed=seed)[0]


def compare_each(
    collection: Collection,
    a: Run,
    others: Sequence[Run],
    *,
    facet: str | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> list[list[Comparison]]:
    """Return ``compare`` of ``a`` with each of ``others``; all are measured on the same resamples."""
    values, of_others = per_query(collection, a), [per_query(collection, b) for b in others]
    compared: list[list[Comparison]] = [[] for _ in others]
    for group in _groups(collection):
        if group.fold != ALL or facet not in (None, group.facet):
            continue
        for measure in collection.measures:
            found = differences(
                group.of(values[measure]),
                {number: group.of(own[measure]) for number, own in enumerate(of_others)},
                group.clusters,
                weights=group.weights,
                n_resamples=n_resamples,
                seed=seed,
            )
            for number, difference in found.items():
                compared[number].append(Comparison(measure, group.facet, difference))
    return compared


def _groups(collection: Collection) -> Iterator[_Group]:
    """Yield each facet, then all; within a facet each fold, then all."""
    for facet in _then_all(query.facet for query in collection.queries):
        of_facet = [query for query in collection.queries if facet in (query.facet, ALL)]
        for fold in _then_all(query.fold for query in of_facet):
            queries = tuple(query for query in of_facet if fold in (query.fold, ALL))
            yield _Group(facet, fold, queries, _weights(queries))


def _then_all(names: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(name for name in names if name != ALL), ALL]


def _weights(queries: Sequence[EvalQuery]) -> dict[str, float]:
    """Return query weights that give the mean of the folds' means; 1 if the folds have equal sizes."""
    sizes = Counter(query.fold for query in queries)
    return {query.id: len(queries) / (len(sizes) * sizes[query.fold]) for query in queries}
