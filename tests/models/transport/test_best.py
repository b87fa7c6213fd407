"""The best papers without solving all: the same papers, order and plans."""

from dataclasses import fields

import numpy as np
import pytest

from models.errors import DeadlineError, InputError
from models.interruption import set_interruption
from models.transport import Plans, Scorer, best_papers, score_papers
from models.transport.problem import nearest_distances
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
