"""The indexes of several segments as one find what one index over all rows would find."""

import numpy as np
import pytest

from indexer.index.backends.exact import ExactIndex
from indexer.index.vector_index import JoinedIndex

N_ROWS, DIM = 600, 4


def drawn_rows(kind: str) -> np.ndarray:
    """Return random rows, sorted by one column, or at only two places."""
    rows = np.random.default_rng(0).normal(size=(N_ROWS, DIM)).astype(np.float32)
    if kind == "sorted":
        return rows[np.argsort(rows[:, 0])]
    return np.repeat(np.sign(rows[:, :1]), DIM, axis=1) if kind == "equal" else rows


@pytest.mark.parametrize("kind", ["anywhere", "sorted", "equal"])
@pytest.mark.parametrize("n_allowed", [None, 30, 500])
@pytest.mark.parametrize("k", [1, 40, N_ROWS])
@pytest.mark.parametrize("together", [False, True])
def test_several_indexes_find_what_one_does(
    kind: str, n_allowed: int | None, k: int, *, together: bool
) -> None:
    """Several indexes find the same rows and scores as one, however rows are spread."""
    rows, generator = drawn_rows(kind), np.random.default_rng(1)
    queries = rows[generator.integers(N_ROWS, size=5)]
    allowed = None
    if n_allowed is not None:
        allowed = np.zeros(N_ROWS, dtype=bool)
        allowed[generator.choice(N_ROWS // 2 + n_allowed // 2, n_allowed, replace=False)] = True
    own = np.split(rows, [10, 11, 300, 410])
    joined = JoinedIndex.of([ExactIndex(each) for each in own], [len(each) for each in own])
    expected = ExactIndex(rows).search(queries, k, together=together, allowed=allowed)
    found = joined.search(queries, k, together=together, allowed=allowed)
    assert np.array_equal(expected.rows, found.rows)
    assert np.array_equal(expected.scores, found.scores)


def test_an_index_with_more_of_the_best_is_searched_again_for_all_queries() -> None:
    """If one index holds all near rows, the list for all queries is still that of one index."""
    rows = np.arange(N_ROWS * DIM, dtype=np.float32).reshape(N_ROWS, DIM)
    own = np.split(rows, [300, 410])
    joined = JoinedIndex.of([ExactIndex(each) for each in own], [len(each) for each in own])
    queries = rows[310:400:20]
    expected = ExactIndex(rows).search(queries, 40, together=True)
    found = joined.search(queries, 40, together=True)
    assert np.array_equal(expected.rows, found.rows)
    assert np.array_equal(expected.scores, found.scores)
