"""Tests of assignments under quotas and conflicts, against brute force and integer programming."""

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from models.errors import InputError
from service.match.assignment import Aim, Assignment, assign


def _every(
    affinities: np.ndarray, allowed: np.ndarray, per_submission: int, per_reviewer: int
) -> list[tuple[tuple[int, ...], ...]]:
    """Return all assignments that keep quotas and conflicts."""
    options = [list(combinations(np.flatnonzero(own).tolist(), per_submission)) for own in allowed]
    return [
        chosen
        for chosen in product(*options)
        if max(np.bincount([each for own in chosen for each in own], minlength=1)) <= per_reviewer
    ]


def _given(affinities: np.ndarray, chosen: tuple[tuple[int, ...], ...]) -> list[float]:
    return [affinities[row, each] for row, own in enumerate(chosen) for each in own]


@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(1, 3), st.sampled_from(Aim))
@settings(max_examples=80)
def test_no_other_assignment_is_better(seed: int, per_submission: int, per_reviewer: int, aim: Aim) -> None:
    """An assignment has the best sum, or the best least affinity and then sum; an impossible one fails."""
    generator = np.random.default_rng(seed)
    affinities = generator.integers(0, 6, size=(3, 4)) / 5
    conflicts = generator.random((3, 4)) < 0.25
    possible = _every(affinities, ~conflicts, per_submission, per_reviewer)

    def solved() -> Assignment:
        return assign(
            affinities,
            per_submission=per_submission,
            per_reviewer=per_reviewer,
            conflicts=conflicts,
            aim=aim,
        )

    if not possible:
        with pytest.raises(InputError):
            solved()
        return
    found = solved()
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
    """A pair without an affinity is a conflict, as for a reviewer whose only paper is the submission."""
    affinities = np.array([[-np.inf, 0.1], [0.9, 0.2]])
    assert ((1,), (0,)) == assign(affinities, per_submission=1, per_reviewer=2).reviewers


def test_each_reviewer_may_have_a_quota() -> None:
    """Reviewers may have different quotas, and one with 0 gets no submission."""
    affinities = np.array([[0.9, 0.5, 0.1], [0.9, 0.2, 0.1]])
    quotas = np.array([0, 1, 5])
    assert ((1,), (2,)) == assign(affinities, per_submission=1, per_reviewer=quotas).reviewers


@pytest.mark.parametrize(
    ("per_submission", "per_reviewer", "message"),
    [
        (
            3,
            2,
            "2 of 2 submissions have fewer than 3 reviewers without a conflict: number 0, number 1 .from 0",
        ),
        (2, 1, "2 submissions x 2 reviews are more than the 2 that the quotas of 2 reviewers allow"),
    ],
)
def test_what_is_short_is_said(per_submission: int, per_reviewer: int, message: str) -> None:
    """If reviewers or quotas are too few, the error says how many."""
    with pytest.raises(InputError, match=message):
        assign(np.ones((2, 2)), per_submission=per_submission, per_reviewer=per_reviewer)


def test_conflicts_that_leave_too_few_together() -> None:
    """If conflicts leave two of three submissions with one reviewer of quota 1, the error names the two."""
    conflicts = np.array([[True, False], [False, True], [False, True]])
    options: dict[str, Any] = {"per_submission": 1, "per_reviewer": [1, 2], "conflicts": conflicts}
    message = "No assignment keeps all quotas and conflicts: 2 of 3 submissions together have too few"
    with pytest.raises(InputError, match=rf"{message} .*: number 1, number 2 \(from 0\)\. Raise"):
        assign(np.ones((3, 2)), **options)
    with pytest.raises(InputError, match=rf"{message} .*: moss, bells\. Raise"):
        assign(np.ones((3, 2)), **options, names=["kelp", "moss", "bells"])


def _programmed(
    affinities: np.ndarray, allowed: np.ndarray, per_submission: int, quotas: np.ndarray
) -> np.ndarray | None:
    """Return the affinities of an assignment with the largest sum by integer programming, or ``None``."""
    rows, columns = np.nonzero(allowed)
    numbers, ones = np.arange(len(rows)), np.ones(len(rows))
    solved = milp(
        -affinities[rows, columns],
        integrality=ones,
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(csr_array((ones, (of, numbers)), shape=(n, len(rows))), least, most)
            for of, n, least, most in (
                (rows, len(affinities), per_submission, per_submission),
                (columns, len(quotas), 0, quotas),
            )
        ],
        options={"mip_rel_gap": 0},
    )
    return None if solved.x is None else affinities[rows, columns][solved.x > 0.5]


def _programmed_worst(
    affinities: np.ndarray, allowed: np.ndarray, per_submission: int, quotas: np.ndarray
) -> np.ndarray | None:
    """Return the same with the largest possible least affinity, which is found by trying all in turn."""
    for least in np.unique(affinities[allowed])[::-1]:
        enough = allowed & (affinities >= least)
        if (found := _programmed(affinities, enough, per_submission, quotas)) is not None:
            return found
    return None


@st.composite
def _programs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Return affinities, allowed pairs, reviewers per submission, and quotas that often just suffice."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_submissions, n_reviewers = draw(st.integers(2, 9)), draw(st.integers(2, 12))
    per_submission = draw(st.integers(1, min(3, n_reviewers)))
    affinities = generator.random((n_submissions, n_reviewers))
    if draw(st.booleans()):  # some reviewers are near to all
        affinities += 2 * generator.random(n_reviewers)
    if draw(st.booleans()):  # many pairs have equal affinities
        affinities = np.round(4 * affinities) / 4
    allowed = generator.random(affinities.shape) >= draw(st.sampled_from([0, 0.1, 0.3]))
    n_reviews = n_submissions * per_submission
    if draw(st.booleans()):
        quotas = np.full(n_reviewers, -(-n_reviews // n_reviewers))
    else:
        quotas = np.bincount(
            generator.integers(0, n_reviewers, n_reviews + draw(st.integers(0, 3))), minlength=n_reviewers
        )
    return affinities, allowed, per_submission, quotas


@given(_programs(), st.integers(1, 4), st.sampled_from(Aim))
@settings(max_examples=60)
def test_few_pairs_weighed_find_what_all_do(
    program: tuple[np.ndarray, np.ndarray, int, np.ndarray], n_weighed: int, aim: Aim
) -> None:
    """Any number of pairs weighed first gives an optimum; errors only mention quotas if higher ones help."""
    affinities, allowed, per_submission, quotas = program

    def solved(quotas: np.ndarray) -> Assignment:
        return assign(
            affinities,
            per_submission=per_submission,
            per_reviewer=quotas,
            conflicts=~allowed,
            aim=aim,
            n_weighed=n_weighed,
        )

    best = {Aim.TOTAL: _programmed, Aim.WORST: _programmed_worst}[aim](
        affinities, allowed, per_submission, quotas
    )
    if best is None:
        with pytest.raises(InputError) as refused:
            solved(quotas)
        if "uota" in str(refused.value):
            solved(np.full_like(quotas, len(affinities)))
        else:
            assert (allowed.sum(axis=1) < per_submission).any()
        return
    found = solved(quotas)
    assert all(per_submission == len(set(own)) for own in found.reviewers)
    assert all(allowed[row, list(own)].all() for row, own in enumerate(found.reviewers))
    loads = np.bincount(np.concatenate(found.reviewers), minlength=len(quotas))
    assert (loads <= quotas).all()
    values = _given(affinities, found.reviewers)
    assert pytest.approx((sum(values), min(values)), abs=1e-12) == (found.total, found.least)
    assert pytest.approx(best.sum(), abs=1e-8) == found.total
    if aim is Aim.WORST:
        assert best.min() == found.least


def test_more_pairs_are_weighed_where_the_nearest_do_not_suffice() -> None:
    """If all submissions are nearest to the same two reviewers, further pairs are weighed."""
    affinities = np.tile(np.linspace(1, 0, 8), (4, 1))
    found = assign(affinities, per_submission=1, per_reviewer=1, n_weighed=2).reviewers
    assert {0, 1, 2, 3} == {each for own in found for each in own}


@pytest.mark.parametrize("per_reviewer", [3_000_000_000, 10**23, (10**23, 2**63, 1)])
def test_a_quota_above_the_number_of_submissions_is_no_bound(per_reviewer: int | tuple[int, ...]) -> None:
    """A quota above the number of submissions has no effect, however large it is."""
    affinities = np.array([[0.9, 0.2, 0.1], [0.8, 0.3, 0.1], [0.7, 0.3, 0.6]])
    found = assign(affinities, per_submission=2, per_reviewer=per_reviewer)
    assert ((0, 1), (0, 1), (0, 2)) == found.reviewers


def test_affinities_that_cannot_be_weighed_are_refused() -> None:
    """The solver treats 1e20 as infinity, so larger affinities raise an error instead of a wrong answer."""
    with pytest.raises(RuntimeError, match="found no assignment although one exists"):
        assign(np.array([[1e25, 2e25]]), per_submission=1, per_reviewer=1)


def test_no_submission() -> None:
    """Without submissions nothing is assigned."""
    assert Assignment((), 0.0, 0.0) == assign(np.empty((0, 3)), per_submission=1, per_reviewer=1)
