"""The exact scan and the re-scoring that every index backend shares."""

import numpy as np
import pytest

from indexer.index.backends.nearest import best_of_owners, nearest_rows, rescored, widened
from tests.support.examples.models.clusters import clustered


def test_half_and_single_precision_rows_score_alike() -> None:
    """Float16 rows score exactly as the same numbers in float32, subnormal ones too."""
    half = clustered(500, 33)
    half[:3] *= np.float16(1e-6)
    queries = clustered(3, 33, seed=4).astype(np.float32)
    expected = nearest_rows(half.astype(np.float32), queries, k=500)
    hits = nearest_rows(half, queries, k=500)
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_rows_are_widened_to_the_same_numbers(kind: type[np.floating]) -> None:
    """Any rows in any order, subnormal ones too, are widened exactly from a read-only array."""
    rows = clustered(50, 33).astype(kind)
    rows[:3] *= kind(1e-6)
    rows.flags.writeable = False
    numbers = np.array([7, 0, 49, 2, 7])
    found = widened(rows, numbers)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(rows[numbers].astype(np.float32), found)
    assert (0, 33) == widened(rows, numbers[:0]).shape


def test_the_scan_does_not_depend_on_its_blocks() -> None:
    """Blocks of 70 rows give the rows and scores of one block, with ties in row order."""
    rows, queries = clustered(1000, 24), clustered(4, 24, seed=3).astype(np.float32)
    rows[::50] = rows[0]
    queries[0] = rows[0]
    expected = nearest_rows(rows, queries, k=30)
    hits = nearest_rows(rows, queries, k=30, block_rows=70)
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)
    assert hits.rows[0, :20].tolist() == list(range(0, 1000, 50))
    every = nearest_rows(rows, queries, k=1100)
    np.testing.assert_array_equal(every.rows[:, :30], hits.rows)
    assert (np.diff(every.scores[:, :1000]) <= 0).all()
    assert (every.rows[:, 1000:] == -1).all()


@pytest.mark.parametrize("dim", [1, 7, 32, 100, 384, 768])
def test_rescoring_gives_the_scores_of_the_scan(dim: int) -> None:
    """A row has the same score, bit for bit, scanned or proposed, and -1 proposes no row."""
    rows, queries = clustered(300, dim), clustered(5, dim, seed=3).astype(np.float32)
    expected = nearest_rows(rows, queries, k=40)
    shuffled = np.random.default_rng(0).permuted(expected.rows, axis=1)
    hits = rescored(rows, queries, proposed=np.pad(shuffled, ((0, 0), (2, 2)), constant_values=-1), k=42)
    np.testing.assert_array_equal(expected.rows, hits.rows[:, :40])
    np.testing.assert_array_equal(expected.scores, hits.scores[:, :40])
    assert (hits.rows[:, 40:] == -1).all()
    assert (hits.scores[:, 40:] == -np.inf).all()


@pytest.mark.parametrize("apart", [1, 21_000_000])
@pytest.mark.parametrize("n_hits", [0, 1, 500])
def test_each_owner_of_hits_comes_once(n_hits: int, apart: int) -> None:
    """Each owner comes once with its best score, best first, and equal scores by owner."""
    rng = np.random.default_rng(n_hits)
    owners = rng.integers(0, 200, n_hits) * apart  # up to the largest number of a row
    scores = -rng.choice(np.array([-0.0, 0.0, 0.25, 1.5, np.inf], np.float32), n_hits)
    best: dict[int, float] = {}
    for owner, score in zip(owners.tolist(), scores.tolist(), strict=True):
        best[owner] = max(score, best.get(owner, -np.inf))
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    found = best_of_owners(owners, scores)
    assert expected == list(zip(*(each.tolist() for each in found), strict=True))
