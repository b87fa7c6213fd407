"""Tests of bootstrap intervals, and of the tables and comparisons made of them."""

import itertools
import math
from dataclasses import astuple, replace

import numpy as np
import pytest

from evaluation.collection import Collection, EvalQuery
from evaluation.run import Run
from evaluation.statistics import bootstrap
from evaluation.statistics.bootstrap import (
    HOLDING,
    Difference,
    bounds,
    difference,
    differences,
    interval,
    intervals,
    resamples_for,
)
from evaluation.statistics.multiple import correct, holm, n_pairs
from evaluation.statistics.summary import ALL, Comparison, Row, compare, summarise
from models.errors import InputError
from models.types import Paper
from tests.support.builds import ROOT

# Five papers, eight queries.
CLUSTERS = {"q1": "a", "q2": "a", "q3": "a", "q4": "b", "q5": "b", "q6": "c", "q7": "d", "q8": "e"}
VALUES = dict(zip(CLUSTERS, (10.0, 20.0, 60.0, 5.0, 90.0, 33.0, 71.0, 48.0), strict=True))
ALONE = {query_id: query_id for query_id in VALUES}


def enumerated(values: dict[str, float], clusters: dict[str, str]) -> tuple[float, float]:
    """Return the bounds from all resamples of the clusters."""
    members = [[q for q in values if clusters[q] == c] for c in sorted({clusters[q] for q in values})]
    means = [
        np.mean([values[q] for cluster in drawn for q in cluster])
        for drawn in itertools.product(members, repeat=len(members))
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def test_the_bounds_are_those_of_all_resamples() -> None:
    """Random draws give the bounds of all 3,125 resamples of five clusters."""
    low, high = enumerated(VALUES, CLUSTERS)
    drawn = interval(VALUES, CLUSTERS, n_resamples=40_000)
    mean = float(np.mean(list(VALUES.values())))
    assert pytest.approx((mean, low, high, 8)) == astuple(drawn)


def test_clusters_of_one_query_are_the_plain_bootstrap() -> None:
    """With one query per cluster, the interval is that of the plain bootstrap."""
    values = np.array([VALUES[query_id] for query_id in sorted(VALUES)])
    drawn = np.random.default_rng(7).integers(8, size=(10_000, 8))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    plain = interval(VALUES, ALONE, seed=7)
    assert pytest.approx((low, high), abs=1e-9) == (plain.low, plain.high)


def test_the_interval_covers_the_true_mean() -> None:
    """About 95 % of 200 intervals, of samples of 40 papers of unequal size, contain the true mean."""
    generator = np.random.default_rng(0)
    held = 0
    for seed in range(200):
        sizes = generator.integers(1, 4, size=40)
        cluster_of = np.repeat(np.arange(40), sizes)
        sample = 50 + 15 * generator.normal(size=40)[cluster_of] + 10 * generator.normal(size=len(cluster_of))
        values = {str(i): float(value) for i, value in enumerate(sample)}
        clusters = {str(i): str(cluster) for i, cluster in enumerate(cluster_of)}
        measured = interval(values, clusters, n_resamples=1000, seed=seed)
        held += measured.low <= 50 <= measured.high
    assert 0.90 <= held / 200 <= 0.985


def covered(n_papers: int, *, n_samples: int = 1_000) -> float:
    """Return the percentage of samples, with one to three queries a paper, that hold the true mean."""
    generator = np.random.default_rng(0)
    held = 0
    for seed in range(n_samples):
        sizes = generator.integers(1, 4, size=n_papers)
        sums = sizes * (50 + 15 * generator.normal(size=n_papers))
        sums += 10 * np.sqrt(sizes) * generator.normal(size=n_papers)  # each query differs from its paper
        counts = np.column_stack([sums, sizes])
        low, high, _ = bounds(counts, lambda drawn: drawn[:, :1] / drawn[:, 1:], n_resamples=1000, seed=seed)
        held += bool(low[0] <= 50 <= high[0])
    return 100 * held / n_samples


def test_with_few_papers_intervals_are_too_narrow_as_the_page_says() -> None:
    """The share of intervals with the true mean is what this simulation finds, and what the page gives."""
    found = {n_papers: covered(n_papers) for n_papers in HOLDING}
    assert found == pytest.approx(HOLDING, abs=1)
    page = (ROOT / "docs" / "measured" / "evaluation.md").read_text(encoding="utf-8")
    text = f"in {HOLDING[17]} of 100 cases with 17 papers and in {HOLDING[8]} with 8"
    assert text in " ".join(page.split())


def test_queries_that_share_papers_widen_the_interval() -> None:
    """If queries of a paper are alike, clustering by paper widens the interval."""
    values = {str(i): 10.0 * (i // 5) for i in range(20)}
    few = interval(values, {query_id: str(int(query_id) // 5) for query_id in values})
    many = interval(values, {query_id: query_id for query_id in values})
    assert few.value == many.value
    assert few.high - few.low > 1.8 * (many.high - many.low)


def test_the_order_of_queries_changes_nothing() -> None:
    """The order of queries does not change a bit of the interval."""
    values = {f"q{i}": 50 + 50 * math.sin(i) / 3 for i in range(600)}
    clusters = {query_id: query_id[-1] for query_id in values}
    turned = dict(reversed(values.items()))
    assert interval(values, clusters) == interval(turned, dict(reversed(clusters.items())))


def test_the_seed_decides_the_bounds() -> None:
    """The same seed gives the same interval, and another seed another one."""
    assert interval(VALUES, CLUSTERS, seed=1) == interval(VALUES, CLUSTERS, seed=1)
    assert interval(VALUES, ALONE, seed=1) != interval(VALUES, ALONE, seed=2)


def test_drawing_in_pieces_changes_nothing() -> None:
    """Drawing in pieces, which bounds memory, gives exactly the same bounds."""
    counts = np.random.default_rng(0).uniform(size=(5, 2))
    whole, pieces = (
        bounds(counts, lambda drawn: drawn / 5, draws_at_a_time=at_a_time) for at_a_time in (1 << 20, 777)
    )
    np.testing.assert_array_equal(whole, pieces)


def test_a_run_differs_from_itself_by_nothing() -> None:
    """The difference of a run from itself is exactly 0, with bounds of exactly 0."""
    assert Difference(0.0, 0.0, 0.0, 8, 1.0) == difference(VALUES, VALUES, CLUSTERS)


def test_a_difference_is_paired() -> None:
    """A constant lead has an interval of no width, however much the queries differ."""
    ahead = {query_id: value + 2.0 for query_id, value in VALUES.items()}
    measured = difference(ahead, VALUES, CLUSTERS)
    assert pytest.approx((2.0, 2.0, 2.0, 8, 0.0002)) == astuple(measured)
    assert interval(VALUES, CLUSTERS).high - interval(VALUES, CLUSTERS).low > 20


def test_a_difference_turns_its_sign_with_its_sides() -> None:
    """Swapping the sides negates and swaps the bounds."""
    other = dict(zip(VALUES, reversed(VALUES.values()), strict=True))
    forth, back = difference(VALUES, other, CLUSTERS), difference(other, VALUES, CLUSTERS)
    assert pytest.approx((-forth.high, -forth.low)) == (back.low, back.high)


def test_weights_make_a_weighted_mean() -> None:
    """A query of weight two counts like two queries of its paper."""
    weights = {query_id: 2.0 if query_id == "q6" else 1.0 for query_id in VALUES}
    doubled = {**VALUES, "q6 again": VALUES["q6"]}
    expected = interval(doubled, {**CLUSTERS, "q6 again": "c"})
    weighted = interval(VALUES, CLUSTERS, weights=weights)
    assert pytest.approx(astuple(expected)[:3]) == astuple(weighted)[:3]


def test_one_paper_alone_has_no_bounds() -> None:
    """With one cluster there is nothing to resample: the bounds are nan."""
    measured = interval(VALUES, dict.fromkeys(VALUES, "a"))
    assert np.mean(list(VALUES.values())) == pytest.approx(measured.value)
    assert [True, True] == [math.isnan(measured.low), math.isnan(measured.high)]


def test_values_that_cannot_be_averaged_are_refused() -> None:
    """No queries, different queries, and values that are not finite are refused."""
    with pytest.raises(InputError, match="at least one"):
        interval({}, {})
    with pytest.raises(InputError, match="the same queries"):
        intervals({"x": {"q1": 1.0}, "y": {"q2": 1.0}}, CLUSTERS)
    with pytest.raises(InputError, match="1 are on one side"):
        difference({"q1": 1.0}, {"q1": 1.0, "q2": 1.0}, CLUSTERS)
    with pytest.raises(InputError, match="finite"):
        interval({"q1": math.nan}, CLUSTERS)


# Tables and comparisons


def collection() -> Collection:
    """Return six query papers with facets and folds, and two candidates, of which one is relevant."""
    where = [
        ("q1", "method", "fold1"),
        ("q2", "method", "fold1"),
        ("q3", "method", "fold1"),
        ("q4", "method", "fold2"),
        ("q5", "result", "fold1"),
        ("q6", "result", "fold2"),
    ]
    queries = tuple(
        EvalQuery(
            id=name,
            paper=Paper(id=f"paper of {name}", title="", abstract="", sentences=()),
            pool=("good", "poor"),
            cluster=f"paper of {name}",
            facet=facet,
            fold=fold,
        )
        for name, facet, fold in where
    )
    qrels = {query.id: {"good": 1, "poor": 0} for query in queries}
    return Collection("invented", {}, queries, qrels, relevant_from=1, measures=("P@1", "MAP"))


def run(system: str, *right: str) -> Run:
    """Return a run that ranks the good paper first for the queries named, and last for the others."""
    return Run(system, {f"q{i}": {"good": 1.0, "poor": 2.0 * (f"q{i}" not in right)} for i in range(1, 7)})


def test_a_table_has_every_system_facet_fold_and_measure() -> None:
    """Rows are ordered by system, facet, fold and measure, with "all" facets and folds last."""
    rows = summarise(collection(), [run("one"), run("two", "q1")], n_resamples=100)
    assert [
        (system, facet, fold, measure)
        for system in ("one", "two")
        for facet in ("method", "result", "all")
        for fold in ("fold1", "fold2", "all")
        for measure in ("P@1", "MAP")
    ] == [(row.system, row.facet, row.fold, row.measure) for row in rows]
    assert {"invented"} == {row.set for row in rows}


def test_all_folds_together_are_the_mean_of_their_means() -> None:
    """Overall figures are the mean of the folds' means, as CSFCube reports, whatever the folds' sizes."""
    rows = summarise(collection(), [run("one", "q4", "q5")], n_resamples=100)
    values = {(row.facet, row.fold): (row.value, row.n) for row in rows if row.measure == "P@1"}
    assert {
        ("method", "fold1"): (0.0, 3),
        ("method", "fold2"): (100.0, 1),
        ("method", "all"): (50.0, 4),
        ("result", "fold1"): (100.0, 1),
        ("result", "fold2"): (0.0, 1),
        ("result", "all"): (50.0, 2),
        ("all", "fold1"): (25.0, 4),
        ("all", "fold2"): (50.0, 2),
        ("all", "all"): (37.5, 6),
    } == values


def test_a_collection_without_facets_and_folds_has_one_row_for_a_measure() -> None:
    """Without facets and folds there is one row per measure."""
    plain = collection()
    plain = replace(plain, queries=tuple(replace(query, facet="all", fold="all") for query in plain.queries))
    rows = summarise(plain, [run("one", "q1", "q2", "q3")], n_resamples=10_000)
    assert [("all", "all", "P@1", 50.0, 6), ("all", "all", "MAP", 75.0, 6)] == [
        (row.facet, row.fold, row.measure, row.value, row.n) for row in rows
    ]
    assert Row("invented", "one", "all", "all", "P@1", 50.0, rows[0].low, rows[0].high, 6) == rows[0]
    assert 0 <= rows[0].low < 50 < rows[0].high <= 100


def test_two_runs_of_one_name_are_refused() -> None:
    """Two runs with the same name are refused."""
    with pytest.raises(InputError, match="the same name"):
        summarise(collection(), [run("one"), run("one", "q1")])


def test_several_differences_are_those_of_each_alone() -> None:
    """Differences from several systems at once are those from each, up to rounding."""
    drawn = np.random.default_rng(0).uniform(0, 100, (4, 30))
    own, *others = ({f"q{i}": float(value) for i, value in enumerate(row)} for row in drawn)
    clusters = {query: f"c{number // 2}" for number, query in enumerate(own)}
    found = differences(own, dict(enumerate(others)), clusters)
    for number, other in enumerate(others):
        alone = astuple(difference(own, other, clusters))
        assert pytest.approx(alone, abs=1e-12) == astuple(found[number])
    with pytest.raises(InputError, match="same queries on both sides; 1 are"):
        differences(own, {0: own, 1: {**own, "q30": 0.0}}, {**clusters, "q30": "c"})


def test_a_clear_lead_is_resolvable_and_a_thin_one_is_not() -> None:
    """A lead on all queries is resolvable, and a lead of two queries against one is not."""
    every = [f"q{i}" for i in range(1, 7)]
    clear = {c.facet: c for c in compare(collection(), run("a", *every), run("b")) if c.measure == "P@1"}
    thin = {
        c.facet: c for c in compare(collection(), run("a", "q1", "q2"), run("b", "q3")) if c.measure == "P@1"
    }
    assert (["method", "result", "all"], 100.0, True) == (
        list(clear),
        clear["all"].difference.value,
        clear["all"].resolvable,
    )
    assert (True, False) == (thin["all"].difference.value > 0, thin["all"].resolvable)


def test_a_run_does_not_differ_from_itself() -> None:
    """A run that ranks the same is resolvable in no facet and no measure."""
    compared = compare(collection(), run("a", "q1", "q5"), run("b", "q1", "q5"))
    assert [(0.0, False)] * 6 == [(c.difference.value, c.resolvable) for c in compared]


def test_one_paper_resolves_nothing() -> None:
    """With one cluster no lead is resolvable."""
    single = collection()
    single = replace(single, queries=tuple(replace(query, cluster="one") for query in single.queries))
    every = [f"q{i}" for i in range(1, 7)]
    assert {False} == {c.resolvable for c in compare(single, run("a", *every), run("b"))}


def test_p_is_small_where_the_interval_leaves_zero_out() -> None:
    """p is below 5 % if the interval excludes 0, the same swapped, bounded below, and nan for one paper."""
    draw = np.random.default_rng(0)
    for shift in (0.0, 1.0, 2.0):
        values = {f"q{i:02}": float(value) + shift for i, value in enumerate(draw.normal(size=20))}
        alone = {query: query for query in values}
        found = difference(values, dict.fromkeys(values, 0.0), alone, n_resamples=2000)
        assert (found.low > 0 or found.high < 0) == (found.p < 0.05)
        swapped = difference(dict.fromkeys(values, 0.0), values, alone, n_resamples=2000)
        assert pytest.approx(found.p) == swapped.p
    assert 2 / 2000 == found.p
    assert math.isnan(difference({"q": 1.0}, {"q": 0.0}, {"q": "q"}).p)


def test_holm_worked_by_hand() -> None:
    """Holm multiplies the smallest of four p by 4, the next by 3, keeps them ascending, and skips nan."""
    corrected = holm([0.04, 0.01, math.nan, 0.3, 0.02])
    assert pytest.approx([0.08, 0.04, math.nan, 0.3, 0.06], nan_ok=True) == corrected
    assert [1.0, 1.0] == holm([0.6, 0.9])


def test_holm_of_some_of_a_family_is_never_below_that_of_all() -> None:
    """Corrected p of four of ten pairs of systems are never below those with all ten known."""
    assert n_pairs(5) == 10
    assert pytest.approx([0.1, 0.18, 0.18]) == holm([0.01, 0.02, 0.0201], n_family=10)
    draw = np.random.default_rng(0)
    for _ in range(200):
        ps = (draw.random(10) ** 4).tolist()
        of_all = holm(ps)[:4]
        assert all(some >= one for some, one in zip(holm(ps[:4], n_family=10), of_all, strict=True))


@pytest.mark.parametrize("n_comparisons", [1, 125, 126, 251, 500, 4_000, 20_000])
def test_a_comparison_of_a_large_family_can_hold(n_comparisons: int) -> None:
    """The smallest possible p, corrected for the number of comparisons, is below 5 %."""
    least = 2 / resamples_for(n_comparisons)
    assert holm([least], n_family=n_comparisons)[0] < 0.05


def test_many_rows_are_resampled_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The intervals of many rows are the same if only some are resampled at a time, to bound memory."""
    table = {number: {query: value * number for query, value in VALUES.items()} for number in range(1, 8)}
    at_once = intervals(table, CLUSTERS, n_resamples=50)
    monkeypatch.setattr(bootstrap, "_KEPT_AT_A_TIME", 150)
    assert at_once == intervals(table, CLUSTERS, n_resamples=50)


def test_each_measure_is_a_family_of_comparisons() -> None:
    """Comparisons in one measure are corrected together, and separately from other measures."""
    found = [
        Comparison(measure, ALL, Difference(1.0, 0.1, 2.0, 9, p))
        for measure, p in (("MAP", 0.02), ("CSFCube-NDCG", 0.04), ("MAP", 0.03), ("MAP", 0.5))
    ]
    corrected = correct(found)
    assert pytest.approx([0.06, 0.04, 0.06, 0.5]) == [each.p_corrected for each in corrected]
    assert [False, True, False, False] == [each.holds for each in corrected]
    assert [True] * 4 == [each.resolvable for each in corrected]
    assert not found[1].holds
