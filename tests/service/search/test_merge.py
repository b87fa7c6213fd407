"""Tests of the weights of seeds when their scores are merged."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.search.aspect import Part
from service.search.query import Strategy
from service.search.seeds import seed_weights


def seed(number: int, *, weight: float = 1.0, negative: bool = False) -> Part:
    """Return a seed in which only number, weight and sign matter."""
    vectors = np.zeros((1, 2), np.float32)
    return Part(vectors, (0,), away=negative, weight=weight, seed=number, negative=negative)


def merged(
    scores: list[list[float]],
    seeds: list[Part],
    *,
    strategy: Strategy = Strategy.ANY,
    usual: float = 1.0,
    negative_weight: float = 0.4,
) -> np.ndarray:
    """Return the weights of seeds with equal usual distances."""
    return seed_weights(
        np.array(scores),
        np.full(len(seeds), usual),
        seeds,
        strategy=strategy,
        negative_weight=negative_weight,
    )


def test_one_seed_is_a_search() -> None:
    """A single seed has weight 1, whatever its usual distance."""
    assert [[1.0, 1.0]] == merged([[-0.5, -0.9]], [seed(0)], usual=1.3).tolist()


def test_all_seeds_count_as_they_were_given() -> None:
    """With ``Strategy.ALL`` seeds have their given weights, near or far."""
    weights = merged([[-0.2], [-0.9]], [seed(0, weight=3.0), seed(1)], strategy=Strategy.ALL)
    assert [0.75, 0.25] == pytest.approx(weights[:, 0])


def test_the_nearer_seed_counts_more() -> None:
    """With ``Strategy.ANY``, being nearer by a fifth of the usual distance multiplies a weight by e."""
    (near,), (far,) = merged([[-1.4], [-1.8]], [seed(0), seed(1, weight=2.0)], usual=2.0)
    assert (np.e / 2, 1) == pytest.approx((near / far, near + far))


def test_no_more_than_the_ten_nearest_seeds_count() -> None:
    """With ``Strategy.ANY`` only the ten nearest of 12 seeds have weight, so explanations stay short."""
    scores = [[-1 - 0.01 * n] for n in range(12)]
    weights = merged(scores, [seed(n) for n in range(12)])
    assert [True] * 10 + [False] * 2 == (weights[:, 0] > 0).tolist()
    everyone = merged(scores, [seed(n) for n in range(12)], strategy=Strategy.ALL)
    assert (everyone > 0).all()


def test_a_seed_near_to_everything_does_not_decide_alone() -> None:
    """Distances count relative to the usual distance of their seed."""
    scores = np.array([[-0.6, -0.6], [-1.0, -1.2]])
    weights = seed_weights(
        scores, np.array([0.6, 1.2]), [seed(0), seed(1)], strategy=Strategy.ANY, negative_weight=0.4
    )
    assert weights[1, 0] * 1.2 > weights[0, 0] * 0.6
    totals = (weights * scores).sum(axis=0)
    assert totals[0] > totals[1]


@pytest.mark.parametrize("strategy", Strategy)
def test_a_contrast_counts_with_its_weight(strategy: Strategy) -> None:
    """Beside other seeds and negatives, a contrast weighs its share of the seeds' weights."""
    contrast = replace(seed(0, weight=0.1, negative=True), negative=False)
    parts = [seed(0), contrast, seed(1, weight=3.0), seed(2, negative=True)]
    weights = merged([[-1.0]] * 4, parts, strategy=strategy)[:, 0]
    assert [0.25, -0.1 / 4, 0.75, -0.4] == pytest.approx(weights)


def test_negatives_subtract() -> None:
    """Negatives together weigh minus ``negative_weight``, the nearest the most, with either strategy."""
    seeds = [seed(0), seed(0, negative=True), seed(1, negative=True)]
    for strategy in Strategy:
        weights = merged([[-0.5], [-0.6], [-1.0]], seeds, strategy=strategy, negative_weight=0.7)[:, 0]
        assert (1.0, -0.7) == pytest.approx((weights[0], weights[1:].sum()))
        assert weights[1] < weights[2] < 0


@settings(max_examples=50)
@given(
    scores=st.lists(st.lists(st.floats(-20, 0), min_size=3, max_size=3), min_size=1, max_size=14),
    usual=st.lists(st.floats(1e-5, 30), min_size=14, max_size=14),
    given_weights=st.lists(st.floats(0.01, 100), min_size=14, max_size=14),
    strategy=st.sampled_from(Strategy),
)
def test_weights_are_always_numbers(
    scores: list[list[float]], usual: list[float], given_weights: list[float], strategy: Strategy
) -> None:
    """Weights are finite and not negative for any distances, and the seeds' parts of a score sum to 1."""
    n = len(scores)
    units = np.array(usual[:n])
    seeds = [seed(i, weight=given_weights[i]) for i in range(n)]
    weights = seed_weights(np.array(scores), units, seeds, strategy=strategy, negative_weight=0.4)
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    unit = np.average(units, weights=given_weights[:n])
    assert np.ones(3) == pytest.approx((weights * units[:, None]).sum(axis=0) / unit)
