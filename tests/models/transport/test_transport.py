"""Transport on the CPU against oracles: POT's solvers, optimality conditions, closed formulas."""

import inspect
from contextvars import copy_context
from dataclasses import replace

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import CompileResultCacheImpl
from scipy.special import xlogy

from models.errors import DeadlineError, InputError
from models.interruption import set_interruption
from models.transport import (
    CHEAPEST,
    REFERENCE,
    SERVING,
    Plan,
    Scorer,
    TransportSettings,
    score_papers,
)
from models.transport import compiled as compilation
from models.transport.kernels import check_shapes, checked_weights
from models.transport.newton import STALLED
from tests.support.examples.models.vectors import clustered_vectors

UNIT, RAW = 1.0, 12.0


def marginals_of(plan: Plan, tau: float = SERVING.tau) -> tuple[np.ndarray, np.ndarray]:
    """Return the marginals of semantics 3.4 from the plan's cost."""
    a, b = (np.exp((plan.cost.min() - plan.cost.min(axis=axis)) / tau) for axis in (1, 0))
    return a / a.sum(), b / b.sum()


@pytest.fixture(params=[UNIT, RAW], ids=["unit", "raw"])
def papers(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a query and 60 candidates, normalised or not."""
    return clustered_vectors(3, n_papers=60, norm=request.param)


def test_costs_are_l2_distances(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """The cells of a plan's cost are the L2 distances of query and candidate sentences."""
    query, rows, offsets = papers
    for i, plan in enumerate(score_papers(query, rows, offsets, scorer=Scorer.SINGLE)):
        own = rows[offsets[i] : offsets[i + 1]].astype(np.float64)
        expected = np.linalg.norm(query[:, None].astype(np.float64) - own[None], axis=2)
        np.testing.assert_allclose(plan.cost, expected, rtol=1e-6)


def test_ot_equals_converged_sinkhorn() -> None:
    """For unit vectors, the entropic plan is that of POT's log-domain Sinkhorn run to 1e-12."""
    for plan in score_papers(*clustered_vectors(5, n_papers=6)):
        a, b = marginals_of(plan)
        expected = ot.sinkhorn(
            a, b, plan.cost, reg=0.05, method="sinkhorn_log", stopThr=1e-12, numItermax=20_000
        )
        np.testing.assert_allclose(plan.mass, expected, atol=1e-6)
        assert plan.score == pytest.approx(-(expected * plan.cost).sum(), abs=1e-6)


def test_plans_meet_the_conditions_of_optimality(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """epsilon log P + cost is f_i + g_j and P has its marginals, as only for the entropic optimum."""
    for plan in score_papers(*papers, settings=REFERENCE):
        assert plan.converged
        a, b = marginals_of(plan)
        np.testing.assert_allclose(plan.mass.sum(axis=1), a, atol=1e-11)
        np.testing.assert_allclose(plan.mass.sum(axis=0), b, atol=1e-11)
        split = 0.05 * np.log(plan.mass) + plan.cost
        f, g = split[:, :1], split[:1] - split[0, 0]
        np.testing.assert_allclose(split, f + g, atol=1e-9)


LOG_WEIGHTS = np.array([2.0, -1.0, 0.0, 0.5, -3.0, 1.0, 0.25, -0.5])


def test_weighed_sentences_have_more_of_the_query(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """The query's marginal is softmax(-smallest distance / tau + log weight); the paper's is unchanged."""
    query, rows, offsets = papers
    weights = LOG_WEIGHTS[: len(query)]
    for scorer in (Scorer.OT, Scorer.EXACT_OT):
        plans = score_papers(query, rows, offsets, scorer=scorer, settings=REFERENCE, log_weights=weights)
        for plan in plans:
            a, b = marginals_of(plan)
            a = a * np.exp(weights)
            np.testing.assert_allclose(plan.mass.sum(axis=1), a / a.sum(), atol=1e-9)
            np.testing.assert_allclose(plan.mass.sum(axis=0), b, atol=1e-9)


@pytest.mark.parametrize("scorer", [Scorer.SINGLE, Scorer.MEAN_MIN, Scorer.ATTENTION])
def test_weights_count_in_closed_formulas(
    papers: tuple[np.ndarray, np.ndarray, np.ndarray], scorer: Scorer
) -> None:
    """Each row of the plan is multiplied by its weight, then normalised; a single pair is unchanged."""
    query, rows, offsets = papers
    weights = LOG_WEIGHTS[: len(query)]
    plain = score_papers(query, rows, offsets, scorer=scorer)
    weighed = score_papers(query, rows, offsets, scorer=scorer, log_weights=weights)
    for before, after in zip(plain, weighed, strict=True):
        expected = before.mass * np.exp(weights)[:, None]
        np.testing.assert_allclose(after.mass, expected / expected.sum(), atol=1e-9)


def test_weights_that_do_not_fit_are_refused() -> None:
    """Weights other than one finite number per query sentence are refused."""
    for weights in (np.zeros(3), np.full(2, np.inf)):
        with pytest.raises(InputError, match="expected 2 finite numbers"):
            checked_weights(weights, 2)


def test_serving_is_as_good_as_reference(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """The serving profile moves no score by more than 1e-5 and certifies a gap below 1e-4."""
    serving, reference = score_papers(*papers), score_papers(*papers, settings=REFERENCE)
    np.testing.assert_allclose(serving.scores, reference.scores, atol=1e-5, rtol=0)
    assert serving.converged.all()
    assert serving.marginal_errors.max() < 1e-6
    assert 0 <= serving.gaps.min()
    assert serving.gaps.max() < 1e-4


def test_gap_bounds_the_distance_to_the_optimum() -> None:
    """The reported gap is at least the dual value that a loosely converged plan lacks."""
    papers = clustered_vectors(6, n_papers=40)
    plans = score_papers(*papers, settings=TransportSettings(tolerance=0.05))
    best_plans = score_papers(*papers, settings=REFERENCE)
    for plan, best in zip(plans, best_plans, strict=True):
        a, b = marginals_of(plan)
        split = 0.05 * np.log(plan.mass) + plan.cost  # f + g, absolute potentials
        dual = split[:, 0] @ a + (split[0] - split[0, 0]) @ b
        optimum = (best.mass * (0.05 * np.log(best.mass) + best.cost)).sum()
        assert -1e-9 <= optimum - dual <= plan.gap + 1e-9


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
@pytest.mark.parametrize(("tau", "n_steps"), [(0.5, 0), (5000.0, 3)])
def test_gap_bounds_plans_that_are_stopped_early(epsilon: float, tau: float, n_steps: int) -> None:
    """The objective of a plan that did not converge is within its finite gap of the optimum."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, 200))])
    query, rows = (rng.normal(0.0, 10.0, (n, 3)).astype(np.float32) for n in (4, offsets[-1]))
    papers = query, rows, offsets
    stopped = TransportSettings(tau=tau, epsilon=epsilon, max_sweeps=2, max_newton_steps=n_steps)
    plans = score_papers(*papers, settings=stopped)
    best_plans = score_papers(*papers, settings=replace(REFERENCE, tau=tau, epsilon=epsilon))
    assert not plans.converged.all()
    assert np.isfinite(plans.gaps).all()
    for plan, best in zip(plans, best_plans, strict=True):
        reached, optimum = (
            (each.mass * each.cost + epsilon * xlogy(each.mass, each.mass)).sum() for each in (plan, best)
        )
        assert abs(reached - optimum) <= plan.gap + 1e-9


def test_exact_ot_equals_emd(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Exact transport has the cost of POT's network simplex, and a closed gap as proof."""
    for plan in score_papers(*papers, scorer=Scorer.EXACT_OT):
        assert plan.score == pytest.approx(-ot.emd2(*marginals_of(plan), plan.cost), abs=1e-9)
        assert plan.gap < 1e-12


@pytest.mark.parametrize("tau", [0.01, 0.5, 5000.0])
def test_degenerate_pairs_are_solved(tau: float) -> None:
    """Both transport solvers handle ties (vectors on a small grid, repeated sentences)."""
    rng = np.random.default_rng(8)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 13, 200))])
    rows = rng.integers(0, 3, (offsets[-1], 3)).astype(np.float32)
    for n_query in (1, 5, 12):
        query = rows[rng.integers(0, len(rows), n_query)]
        exact = score_papers(
            query, rows, offsets, scorer=Scorer.EXACT_OT, settings=TransportSettings(tau=tau)
        )
        entropic = score_papers(query, rows, offsets, settings=TransportSettings(tau=tau))
        expected = [-ot.emd2(*marginals_of(plan, tau), plan.cost) for plan in exact]
        np.testing.assert_allclose(exact.scores, expected, atol=1e-9)
        assert entropic.converged.all()
        assert (entropic.scores <= exact.scores + 1e-6).all()


def test_single_is_the_smallest_distance() -> None:
    """Single match puts all mass on the closest cell, the first one in reading order if several are equal."""
    sentence = np.zeros((1, 4), np.float32)
    far = np.ones((1, 4), np.float32)
    plan = score_papers(
        np.vstack([far, sentence, sentence]), np.vstack([far + 1, sentence, sentence]),
        np.array([0, 3]), scorer=Scorer.SINGLE,
    )[0]  # fmt: skip
    expected = np.zeros((3, 3))
    expected[1, 1] = 1.0
    np.testing.assert_array_equal(plan.mass, expected)
    assert plan.score == 0.0


def test_mean_min_is_the_mean_of_row_minima(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Each query sentence goes to its nearest sentence with equal weight."""
    for plan in score_papers(*papers, scorer=Scorer.MEAN_MIN):
        assert plan.score == pytest.approx(-plan.cost.min(axis=1).mean(), abs=1e-12)
        np.testing.assert_allclose(plan.mass.sum(axis=1), 1 / 8)


def test_attention_is_a_softmax_over_all_cells(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Attention weighs a cell by softmax(-cost / tau) over the whole pair."""
    for plan in score_papers(*papers, scorer=Scorer.ATTENTION):
        expected = np.exp((plan.cost.min() - plan.cost) / 0.5)
        np.testing.assert_allclose(plan.mass, expected / expected.sum(), atol=1e-11)


@pytest.mark.parametrize("scorer", Scorer)
def test_score_is_what_the_plan_adds_up_to(
    papers: tuple[np.ndarray, np.ndarray, np.ndarray], scorer: Scorer
) -> None:
    """Mass is never negative and sums to 1, and the score is -sum(mass * cost)."""
    plans = score_papers(*papers, scorer=scorer)
    assert len(plans) == 60
    for plan in plans:
        assert plan.mass.min() >= 0
        assert plan.mass.sum() == pytest.approx(1, abs=1e-9)
        assert plan.score == pytest.approx(-(plan.mass * plan.cost).sum(), abs=1e-12)


@given(
    seed=st.integers(0, 10**6),
    n_query=st.integers(1, 9),
    longest=st.integers(1, 9),
    dim=st.integers(1, 8),
    norm=st.sampled_from([0.01, 1.0, 12.0, 1000.0]),
)
@settings(max_examples=60)
def test_any_shape_and_scale_is_solved(seed: int, n_query: int, longest: int, dim: int, norm: float) -> None:
    """Transport converges at any size and norm; entropic costs no less than exact, and is symmetric."""
    query, rows, offsets = clustered_vectors(
        seed, n_papers=3, dim=dim, n_query=n_query, n_sentences=(1, longest), norm=norm
    )
    entropic = score_papers(query, rows, offsets)
    exact = score_papers(query, rows, offsets, scorer=Scorer.EXACT_OT)
    assert entropic.converged.all()
    assert exact.converged.all()
    assert max(entropic.marginal_errors.max(), exact.marginal_errors.max()) < 1e-6
    assert (entropic.scores <= exact.scores + 1e-6 * norm).all()
    swapped = score_papers(rows[: offsets[1]], query, np.array([0, n_query]))
    assert swapped.scores[0] == pytest.approx(entropic.scores[0], abs=1e-6 * max(1.0, norm))


def test_cheapest_is_cheaper() -> None:
    """The profile for tests takes fewer steps and stays within its looser tolerance."""
    papers = clustered_vectors(13, n_papers=40)
    cheap, serving = score_papers(*papers, settings=CHEAPEST), score_papers(*papers)
    assert cheap.n_iterations.sum() < serving.n_iterations.sum()
    np.testing.assert_allclose(cheap.scores, serving.scores, atol=2e-3)


@pytest.mark.parametrize(
    ("row", "message"), [(np.nan, "not finite"), (np.inf, "not finite"), (3e38, "not finite")]
)
def test_vectors_that_are_not_finite_are_refused(row: float, message: str) -> None:
    """NaN, infinity and values with an overflowing square raise InputError."""
    rows = np.ones((3, 4), np.float32)
    rows[1, 2] = row
    with pytest.raises(InputError, match=message):
        score_papers(np.zeros((2, 4), np.float32), rows, np.array([0, 1, 3]))


@pytest.mark.parametrize(
    ("query_shape", "offsets", "message"),
    [
        ((0, 4), [0, 3], "at least one query sentence"),
        ((2, 5), [0, 3], "same dimension"),
        ((2, 4), [0, 2], "do not span the 3 rows"),
        ((2, 4), [1, 3], "do not span the 3 rows"),
        ((2, 4), [], "do not span the 3 rows"),
        ((2, 4), [0, 1, 1, 3], "Candidate 1 owns 0 rows"),
        ((2, 4), [0, 2, 1, 3], "Candidate 1 owns -1 rows"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    query_shape: tuple[int, int], offsets: list[int], message: str
) -> None:
    """Shapes that the compiled loops would read out of bounds raise InputError."""
    with pytest.raises(InputError, match=message):
        check_shapes(
            np.zeros(query_shape, np.float32), np.zeros((3, 4), np.float32), np.array(offsets, np.int64)
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_vectors_of_another_precision_are_refused(dtype: type) -> None:
    """The message about a wrong dtype names it and the expected one, for query and candidates."""
    unchecked = inspect.unwrap(score_papers)
    wanted, other = np.ones((2, 4), np.float32), np.ones((2, 4), dtype)
    for query, rows in ((wanted, other), (other, wanted)):
        with pytest.raises(InputError, match=f"{np.dtype(dtype)}; expected float32"):
            unchecked(query, rows, np.array([0, 2]))


def hard_pair(n_query: int, n_sentence: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a pair with distances of 1e7; with equal weights, steps from epsilon to epsilon stall on it."""
    drawn = np.random.default_rng(0).normal(size=(n_query + n_sentence, 8)) * 3e6
    vectors = drawn.astype(np.float32)
    return vectors[:n_query], vectors[n_query:], np.array([0, n_sentence])


EQUAL_WEIGHTS = TransportSettings(tau=1e9)


@pytest.mark.parametrize("shape", [(10, 12), (12, 10), (60, 60)])
def test_a_pair_that_stalls_starts_again_from_exact_transport(shape: tuple[int, int]) -> None:
    """A stalled pair restarts from exact transport and ends within a few steps, at its cost."""
    exact = score_papers(*hard_pair(*shape), scorer=Scorer.EXACT_OT, settings=EQUAL_WEIGHTS)
    plans = score_papers(*hard_pair(*shape), settings=EQUAL_WEIGHTS)
    assert plans.converged.all()
    assert STALLED < plans.n_iterations[0] < STALLED + 50
    assert plans.marginal_errors[0] < 1e-6
    assert plans.scores[0] == pytest.approx(exact.scores[0], rel=1e-9)


def test_a_plan_does_not_depend_on_where_the_work_was_interrupted() -> None:
    """A pair that takes many slices of work has the same bits alone and after others."""
    query, rows, _ = hard_pair(60, 80)
    unfinished = TransportSettings(tau=1e9, max_newton_steps=250)
    alone = score_papers(query, rows[20:], np.array([0, 60]), settings=unfinished)
    behind = score_papers(query, rows, np.array([0, 7, 20, 80]), settings=unfinished)
    assert 250 == alone.n_iterations[0] == behind.n_iterations[2]
    np.testing.assert_array_equal(alone[0].mass, behind[2].mass)


def test_a_hard_pair_ends_with_the_time_for_it() -> None:
    """Newton's method checks for an interruption again and again."""
    looks = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 4:
            raise DeadlineError("time is up")

    def ask() -> None:
        set_interruption(look)
        score_papers(*hard_pair(100, 100), settings=EQUAL_WEIGHTS)

    with pytest.raises(DeadlineError):
        copy_context().run(ask)
    assert 4 == len(looks)


def test_easy_pairs_need_no_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinkhorn alone solves pairs with distances of a few epsilon."""
    monkeypatch.setattr("models.transport.kernels.newton", lambda *_: None)
    assert score_papers(
        *clustered_vectors(3, n_papers=5), settings=TransportSettings(epsilon=1.0)
    ).converged.all()
    assert not score_papers(
        *clustered_vectors(3, n_papers=5), settings=TransportSettings(epsilon=1e-4)
    ).converged.any()


def test_a_plan_at_a_larger_epsilon_has_not_converged() -> None:
    """A plan at a larger epsilon does not count as converged, however small its error is."""
    papers = clustered_vectors(3, n_papers=20, norm=1000.0)
    few = TransportSettings(tau=5000.0, tolerance=0.9, max_newton_steps=2)
    plans = score_papers(*papers, settings=few)
    assert plans.marginal_errors.max() < 0.9
    assert not plans.converged.any()


@pytest.mark.parametrize("field", ["tau", "epsilon", "tolerance"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    """Temperatures and tolerances must be positive and finite."""
    with pytest.raises(InputError, match="out of range"):
        TransportSettings(**{field: value})


def test_compiling_needs_no_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """If numba finds no folder for its cache, functions are compiled without one."""

    def doubled(number: int) -> int:
        return 2 * number

    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    loops = compilation.compiled(doubled)
    assert (6, True) == (loops(3), compilation.is_on_disk(loops))
