"""The best papers without solving all: the same papers, order and plans."""

from dataclasses import fields

import numpy as np
import pytest

from models.errors import DeadlineError, InputError
from models.interruption import set_interruption
from models.transport import Plans, Scorer, TransportSettings, best_papers, score_papers
from models.transport.best import _least_costs
from models.transport.problem import Problem, distances, marginals, nearest_distances
from tests.support.examples.models.vectors import clustered_vectors

TRANSPORT = [Scorer.OT, Scorer.EXACT_OT]


@pytest.mark.parametrize("scorer", TRANSPORT)
@pytest.mark.parametrize("norm", [1.0, 12.0])
@pytest.mark.parametrize("seed", range(3))
def test_they_are_the_first_of_all(scorer: Scorer, norm: float, seed: int) -> None:
    """With any added scores and sentence weights, the best papers are the first of all, with equal plans."""
    query, rows, offsets = clustered_vectors(seed, n_papers=300, norm=norm)
    drawn = np.random.default_rng(seed)
    for n_best, spread in ((1, 0.0), (10, 0.2), (40, 3.0)):
        added, weights = spread * drawn.random(300), drawn.normal(size=len(query))
        found = best_papers(query, rows, offsets, n_best, scorer=scorer, log_weights=weights, added=added)
        whole = score_papers(query, rows, offsets, scorer=scorer, log_weights=weights)
        expected = np.argsort(-(whole.scores + added), kind="stable")[:n_best]
        np.testing.assert_array_equal(expected, found.order)
        np.testing.assert_array_equal(whole.scores[expected], found.plans.scores)
        for place, paper in enumerate(expected.tolist()):
            np.testing.assert_array_equal(whole[paper].mass, found.plans[place].mass, strict=True)
            np.testing.assert_array_equal(whole[paper].cost, found.plans[place].cost, strict=True)
        assert found.n_solved < 300


def test_of_equal_papers_the_least_comes_first() -> None:
    """Equal papers come in the order of ``ties``, or by number without it."""
    query, rows, offsets = clustered_vectors(1, n_papers=1)
    many = np.tile(rows, (50, 1)), np.arange(51) * offsets[1]
    assert [0, 1, 2] == best_papers(query, *many, 3).order.tolist()
    ties = np.arange(50)[::-1].copy()
    assert [49, 48, 47] == best_papers(query, *many, 3, ties=ties).order.tolist()


@pytest.mark.parametrize("n_papers", [0, 1, 7])
def test_fewer_papers_than_wanted(n_papers: int) -> None:
    """If there are fewer papers than requested, all are returned in order with complete plans."""
    query, rows, offsets = clustered_vectors(2, n_papers=7)
    offsets = offsets[: n_papers + 1]
    rows = rows[: offsets[-1]]
    found, whole = best_papers(query, rows, offsets, 20), score_papers(query, rows, offsets)
    assert np.argsort(-whole.scores, kind="stable").tolist() == found.order.tolist()
    assert n_papers == found.n_solved
    for field in fields(Plans):
        if field.name not in {"mass", "cost", "offsets", "n_query"}:
            expected = getattr(whole, field.name)[found.order]
            np.testing.assert_array_equal(expected, getattr(found.plans, field.name))


def test_distances_of_thousands_leave_no_better_paper_out() -> None:
    """A plan may cost less than its bound by the tolerance times the spread of its distances."""
    rng, scale, dim = np.random.default_rng(2), 1000.0, 64
    settings = TransportSettings(tau=0.7 * scale)
    query = (rng.normal(size=(2, dim)) * scale).astype(np.float32)
    offsets = np.arange(201) * 3
    rows = (rng.normal(size=(600, dim)) * scale).astype(np.float32)
    rows[::3] = query[0] + (rng.normal(size=(200, dim)) * 1e-3).astype(np.float32)
    log_weights, cost = np.zeros(2), distances(query, rows, offsets)
    weights = marginals(cost, offsets, log_weights, settings.tau)[:2]
    least = _least_costs(Problem(cost, offsets, *weights))
    scores = score_papers(query, rows, offsets, settings=settings).scores
    lowest = int(np.argmax(least + scores))  # farthest below its bound
    # Others cost more than this plan, and less than its bound.
    near = rng.normal(size=(3_000, dim))
    near *= (
        rng.uniform(0.2, 1.5, size=(3_000, 1)) * least[lowest] / np.linalg.norm(near, axis=1, keepdims=True)
    )
    single = (query[0] + near).astype(np.float32)
    costs = -score_papers(query, single, np.arange(3_001), settings=settings).scores
    between = (costs > 1e-8 - scores[lowest]) & (costs < least[lowest] - 1.2e-6 * (1 + least[lowest]))
    chosen = single[between][:40]
    rows = np.concatenate([chosen, rows[offsets[lowest] : offsets[lowest + 1]]])
    offsets = np.concatenate([np.arange(41), [43]])
    assert 40 == score_papers(query, rows, offsets, settings=settings).scores.argmax()
    assert [40] == best_papers(query, rows, offsets, 1, settings=settings).order.tolist()


def test_what_cannot_be_compared_is_refused() -> None:
    """Wrong offsets and non-finite numbers are refused as in ``score_papers``."""
    query, rows, offsets = clustered_vectors(2, n_papers=7)
    with pytest.raises(InputError, match="do not span"):
        best_papers(query, rows[:-1], offsets, 3)
    rows[3, 3] = np.nan
    with pytest.raises(InputError, match="not finite"):
        best_papers(query, rows, offsets, 1)


def test_nobody_waits_any_more() -> None:
    """An error that the interruption raises ends the search."""
    query, rows, offsets = clustered_vectors(2, n_papers=7)

    def ended() -> None:
        raise DeadlineError("over")

    set_interruption(ended)
    try:
        with pytest.raises(DeadlineError):
            best_papers(query, rows, offsets, 3)
        with pytest.raises(DeadlineError):
            nearest_distances(query, rows, offsets)
    finally:
        set_interruption(lambda: None)


def test_the_best_of_none_are_none() -> None:
    """For 0 papers nothing is solved; a negative number is refused."""
    query, rows = np.ones((2, 8), np.float32), np.random.default_rng(0).normal(size=(90, 8))
    offsets = np.arange(0, 91, 3)
    found = best_papers(query, rows.astype(np.float32), offsets, 0)
    assert ([], 0, 0) == (found.order.tolist(), found.n_solved, len(found.plans.scores))
    with pytest.raises(InputError, match=r"n_best is -1; expected 0 or more\."):
        best_papers(query, rows.astype(np.float32), offsets, -1)
