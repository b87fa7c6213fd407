"""Transport on the CPU: a plan depends only on its two papers, not on the rest of the batch."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from models.transport import REFERENCE, Plan, Plans, Scorer, score_papers
from tests.support.examples.models.vectors import clustered_vectors

RAW = 12.0


@pytest.fixture(params=[1.0, RAW], ids=["unit", "raw"])
def papers(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a query and 60 candidates, normalised or not."""
    return clustered_vectors(3, n_papers=60, norm=request.param)


def alone(query: np.ndarray, rows: np.ndarray, offsets: np.ndarray, paper: int, scorer: Scorer) -> Plan:
    """Return the plan of one of the papers, scored in a separate call."""
    own = rows[offsets[paper] : offsets[paper + 1]]
    return score_papers(query, own, np.array([0, len(own)]), scorer=scorer)[0]


def assert_same_bits(plan: Plan, other: Plan) -> None:
    """Assert that two plans are equal in every bit of every field."""
    np.testing.assert_array_equal(plan.mass, other.mass, strict=True)
    np.testing.assert_array_equal(plan.cost, other.cost, strict=True)
    assert (plan.score, plan.marginal_error, plan.n_iterations) == (
        other.score,
        other.marginal_error,
        other.n_iterations,
    )


@pytest.mark.parametrize("scorer", Scorer)
def test_batch_mates_change_no_bit(papers: tuple[np.ndarray, np.ndarray, np.ndarray], scorer: Scorer) -> None:
    """A paper scored alone, in a batch or in the reversed batch has the same plan, bit for bit."""
    query, rows, offsets = papers
    plans = score_papers(query, rows, offsets, scorer=scorer)
    pieces = np.split(rows, offsets[1:-1])[::-1]
    turned = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    reversed_plans = score_papers(query, np.concatenate(pieces), turned, scorer=scorer)
    for i in range(60):
        assert_same_bits(plans[i], reversed_plans[59 - i])
        assert_same_bits(plans[i], alone(query, rows, offsets, i, scorer))


@pytest.mark.parametrize("scorer", [Scorer.OT, Scorer.EXACT_OT])
def test_threads_change_no_bit(papers: tuple[np.ndarray, np.ndarray, np.ndarray], scorer: Scorer) -> None:
    """Calls at the same time in several threads return what one call returns."""
    expected = score_papers(*papers, scorer=scorer)

    def score(_: int) -> Plans:
        return score_papers(*papers, scorer=scorer)

    with ThreadPoolExecutor(4) as pool:
        for plans in pool.map(score, range(8)):
            np.testing.assert_array_equal(plans.mass, expected.mass, strict=True)
            np.testing.assert_array_equal(plans.scores, expected.scores, strict=True)


@pytest.mark.parametrize("scorer", Scorer)
def test_sentence_order_does_not_matter(
    papers: tuple[np.ndarray, np.ndarray, np.ndarray], scorer: Scorer
) -> None:
    """Reversing the sentences of query and candidates reverses the plans and keeps the scores."""
    query, rows, offsets = papers
    plans = score_papers(query, rows, offsets, scorer=scorer, settings=REFERENCE)
    turned_rows = np.concatenate([piece[::-1] for piece in np.split(rows, offsets[1:-1])])
    turned = score_papers(query[::-1], turned_rows, offsets, scorer=scorer, settings=REFERENCE)
    np.testing.assert_allclose(turned.scores, plans.scores, atol=1e-9)
    for plan, other in zip(plans, turned, strict=True):
        np.testing.assert_allclose(other.mass[::-1, ::-1], plan.mass, atol=1e-9)


def test_a_sentence_without_weight_changes_nothing() -> None:
    """A sentence so far away that its weight is 0 adds no step and leaves the plan of the others."""
    query, rows, offsets = clustered_vectors(0, n_papers=20, n_sentences=(4, 6), norm=RAW)
    away = np.eye(1, rows.shape[1], dtype=np.float32) * 1000
    query = np.concatenate([query, rows[:1] + 2 * away])  # it has the largest distances, with or without
    for paper in np.split(rows, offsets[1:-1]):
        more = np.concatenate([paper, paper[:1] + away])
        plan, other = (score_papers(query, each, np.array([0, len(each)]))[0] for each in (paper, more))
        assert plan.n_iterations == other.n_iterations
        np.testing.assert_allclose(other.mass, np.pad(plan.mass, ((0, 0), (0, 1))), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", [0.3, RAW])
def test_long_papers_are_solved(norm: float) -> None:
    """Two hundred sentences against two hundred, in many pairs, converge with the same bits as alone."""
    query, rows, offsets = clustered_vectors(
        12, n_papers=30 if norm < 1 else 2, n_query=200, n_sentences=(190, 200), dim=4, norm=norm
    )
    plans = score_papers(query, rows, offsets)
    assert plans.converged.all()
    assert_same_bits(plans[1], alone(query, rows, offsets, 1, Scorer.OT))


@pytest.mark.parametrize("scorer", Scorer)
def test_a_paper_is_nearest_to_itself(scorer: Scorer) -> None:
    """A paper against itself scores 0 if the scorer can match every sentence to itself."""
    query, _, _ = clustered_vectors(11, n_papers=1, norm=RAW)
    plan = score_papers(query, query, np.array([0, 8]), scorer=scorer)[0]
    assert plan.converged
    np.testing.assert_array_equal(np.diag(plan.cost), np.zeros(8))
    if scorer is Scorer.ATTENTION:
        assert plan.score == pytest.approx(0, abs=1e-3)
    else:
        assert plan.score == pytest.approx(0, abs=1e-12)


def test_no_candidates_is_no_plans() -> None:
    """Scoring no candidates returns no plans, with any scorer."""
    for scorer in Scorer:
        plans = score_papers(
            np.ones((2, 4), np.float32), np.ones((0, 4), np.float32), np.array([0]), scorer=scorer
        )
        assert list(plans) == []


def test_plans_count_like_a_sequence(papers: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Negative positions count from the end, and positions past the end raise IndexError."""
    plans = score_papers(*papers)
    assert_same_bits(plans[-1], plans[59])
    with pytest.raises(IndexError):
        plans[60]
