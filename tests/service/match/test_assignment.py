"""Assignments under quotas and conflicts, against trying them all."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from service.match import assignment
from service.match.assignment import Aim, Assignment, assign


def _every(
    affinities: np.ndarray, allowed: np.ndarray, per_submission: int, per_reviewer: int
) -> list[tuple[tuple[int, ...], ...]]:
    """All assignments that keep quotas and conflicts."""
    options = [list(combinations(np.flatnonzero(own).tolist(), per_submission)) for own in allowed]
    return [
        chosen
        for chosen in product(*options)
        if max(np.bincount([each for own in chosen for each in own], minlength=1)) <= per_reviewer
    ]


def _given(affinities: np.ndarray, chosen: tuple[tuple[int, ...], ...]) -> list[float]:
    return [affinities[row, each] for row, own in enumerate(chosen) for each in own]


@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(1, 3), st.sampled_from(Aim))
@settings(deadline=None, max_examples=80)
def test_no_other_assignment_is_better(seed: int, per_submission: int, per_reviewer: int, aim: Aim) -> None:
    """By its sum, or by its least affinity and then its sum; where none is possible, that is said."""
    generator = np.random.default_rng(seed)
    affinities = generator.integers(0, 6, size=(3, 4)) / 5
    conflicts = generator.random((3, 4)) < 0.25
    possible = _every(affinities, ~conflicts, per_submission, per_reviewer)

    def asked() -> Assignment:
        return assign(
            affinities,
            per_submission=per_submission,
            per_reviewer=per_reviewer,
            conflicts=conflicts,
            aim=aim,
        )

    if not possible:
        with pytest.raises(InputError):
            asked()
        return
    found = asked()
    assert tuple(tuple(sorted(own)) for own in found.reviewers) in possible
    values = _given(affinities, found.reviewers)
    assert pytest.approx((sum(values), min(values))) == (found.total, found.least)
    worth = {
        Aim.TOTAL: lambda values: (sum(values),),
        Aim.WORST: lambda values: (min(values), sum(values)),
    }[aim]
    best = max(worth([round(each, 6) for each in _given(affinities, chosen)]) for chosen in possible)
    assert pytest.approx(best) == worth([round(each, 6) for each in values])
    for row, own in enumerate(found.reviewers):
        assert sorted(own, key=lambda each: -affinities[row, each]) == list(own)


def test_pairs_without_affinity_are_conflicts() -> None:
    """A reviewer whose only paper is the submission is not its reviewer."""
    affinities = np.array([[-np.inf, 0.1], [0.9, 0.2]])
    assert ((1,), (0,)) == assign(affinities, per_submission=1, per_reviewer=2).reviewers


def test_each_reviewer_may_have_a_quota() -> None:
    """One with 0 gets nothing, however near."""
    affinities = np.array([[0.9, 0.5, 0.1], [0.9, 0.2, 0.1]])
    quotas = np.array([0, 1, 5])
    assert ((1,), (2,)) == assign(affinities, per_submission=1, per_reviewer=quotas).reviewers


@pytest.mark.parametrize(
    ("per_submission", "per_reviewer", "told"),
    [
        (3, 2, "2 submissions have fewer than 3 reviewers without a conflict, the first is number 1"),
        (2, 1, "2 submissions x 2 reviews are more than the 2 that the quotas of 2 reviewers allow"),
    ],
)
def test_what_is_short_is_said(per_submission: int, per_reviewer: int, told: str) -> None:
    """With what to do about it."""
    with pytest.raises(InputError, match=told):
        assign(np.ones((2, 2)), per_submission=per_submission, per_reviewer=per_reviewer)


def test_conflicts_that_leave_too_few_together() -> None:
    """Each submission has a reviewer and quotas suffice, yet two have only the same one."""
    conflicts = np.array([[False, True], [False, True]])
    with pytest.raises(InputError, match="No assignment keeps all quotas and conflicts"):
        assign(np.ones((2, 2)), per_submission=1, per_reviewer=1, conflicts=conflicts)


def test_of_many_pairs_the_nearest_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they suffice the same assignment is found."""
    affinities = np.random.default_rng(0).random((6, 30))
    whole = assign(affinities, per_submission=2, per_reviewer=2)
    monkeypatch.setattr(assignment, "MAX_PAIRS", 60)
    assert whole == assign(affinities, per_submission=2, per_reviewer=2)


def test_where_the_nearest_do_not_suffice_more_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All submissions are nearest to the same two reviewers, of whom each takes one."""
    affinities = np.tile(np.linspace(1, 0, 8), (4, 1))
    monkeypatch.setattr(assignment, "MAX_PAIRS", 8)
    found = assign(affinities, per_submission=1, per_reviewer=1).reviewers
    assert {0, 1, 2, 3} == {each for own in found for each in own}


def test_no_submission() -> None:
    """Nothing is assigned."""
    assert Assignment((), 0.0, 0.0) == assign(np.empty((0, 3)), per_submission=1, per_reviewer=1)
