"""Tests of the contract of every index backend, against exact distances in float64."""

import threading

import faiss
import numpy as np
import pytest

from indexer.index.backends import faiss_codes, faiss_flat
from indexer.index.backends.faiss_codes import Effort
from indexer.index.vector_index import BACKENDS, VectorIndex, build_index
from models.errors import InputError
from tests.support.examples.models.clusters import clustered

EXACT = ("exact", "flat")
APPROXIMATE = ("hnsw", "ivfpq", "ivfsq")
N_ROWS, DIM = 12_000, 32
N_TIED = 300  # copies of row 0, like a sentence that many abstracts share


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Return clustered rows, some of them equal."""
    rows = clustered(N_ROWS, DIM)
    rows[:: N_ROWS // N_TIED] = rows[0]
    return rows


@pytest.fixture(scope="module")
def queries(rows: np.ndarray) -> np.ndarray:
    """Return eight sentence vectors of a query paper, the first of which is stored many times."""
    queries = clustered(8, DIM, seed=1).astype(np.float32)
    queries[0] = rows[0]
    return queries


@pytest.fixture(scope="module")
def indexes(rows: np.ndarray) -> dict[str, VectorIndex]:
    """Return an index of every backend over the same rows."""
    return {name: build_index(rows, name) for name in BACKENDS}


@pytest.fixture
def no_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use FAISS even for small or narrow searches, which would otherwise be exact scans."""
    monkeypatch.setattr(faiss_codes, "scan_is_cheaper", lambda n_allowed, cost_rows: False)
    monkeypatch.setattr(faiss_flat, "scan_is_cheaper", lambda n_allowed: False)


def truth(
    rows: np.ndarray, queries: np.ndarray, k: int, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers and float64 distances, ties in row order, padded with -1 and inf."""
    exact = np.stack(
        [np.sqrt(((rows.astype(np.float64) - q.astype(np.float64)) ** 2).sum(1)) for q in queries]
    )
    if allowed is not None:
        exact[:, ~allowed] = np.inf
    order = np.argsort(exact, axis=1, kind="stable")[:, :k]
    distances = np.take_along_axis(exact, order, axis=1)
    padding = ((0, 0), (0, k - order.shape[1]))
    numbers = np.pad(np.where(np.isfinite(distances), order, -1), padding, constant_values=-1)
    return numbers, np.pad(distances, padding, constant_values=np.inf)


def recall(expected: np.ndarray, actual: np.ndarray) -> float:
    """Return the mean share of the expected rows among the actual ones; -1 is padding."""
    pairs = zip(expected, actual, strict=True)
    return float(np.mean([len(np.intersect1d(e[e >= 0], a)) / np.count_nonzero(e >= 0) for e, a in pairs]))


def filter_of(share: float) -> np.ndarray:
    """Return a random filter that allows this share of the rows."""
    allowed = np.zeros(N_ROWS, bool)
    allowed[np.random.default_rng(5).permutation(N_ROWS)[: round(share * N_ROWS)]] = True
    return allowed


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("k", [1, 10, 250, 500])
@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_find_the_nearest_rows_in_order(
    name: str, k: int, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """The rows are the nearest by float64 distances, and equal rows come in row order."""
    numbers, distances = truth(rows, queries, k)
    hits = indexes[name].search(queries, k)
    # Rows whose distances float32 cannot tell apart may change places.
    np.testing.assert_allclose(-hits.scores, distances, atol=2e-6)
    np.testing.assert_array_equal(numbers[0, : min(k, N_TIED)], hits.rows[0, : min(k, N_TIED)])
    assert recall(numbers, hits.rows) > 0.9999


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("share", [1, 0.5, 0.05, 0.001])
@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_agree_bit_for_bit(
    name: str, share: float, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Rows and scores are bit for bit those of ``exact``, under every filter."""
    expected = indexes["exact"].search(queries, 100, allowed=filter_of(share))
    hits = indexes[name].search(queries, 100, allowed=filter_of(share))
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)


def together_truth(
    rows: np.ndarray, queries: np.ndarray, k: int, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as ``truth``, but one list of the rows nearest to any of the queries."""
    distances = [((rows.astype(np.float64) - q.astype(np.float64)) ** 2).sum(1) for q in queries]
    nearest = np.sqrt(np.min(distances, axis=0))
    if allowed is not None:
        nearest[~allowed] = np.inf
    order = np.argsort(nearest, kind="stable")[:k]
    return order[None], nearest[order][None]


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("k", [1, 30, 500])
@pytest.mark.parametrize("share", [1, 0.5, 0.05])
@pytest.mark.parametrize("name", BACKENDS)
def test_the_nearest_rows_to_any_query_are_found(
    name: str, share: float, k: int, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """With ``together`` one list has the rows nearest to any query, each once, with its least distance."""
    queries, allowed = queries[3:], filter_of(share)
    expected, distances = together_truth(rows, queries, k, allowed)
    hits = indexes[name].search(queries, k, together=True, allowed=allowed)
    assert (1, k) == hits.rows.shape == hits.scores.shape
    assert allowed[hits.rows].all()
    assert len(np.unique(hits.rows)) == k
    steps, order = np.diff(hits.scores), np.diff(hits.rows)
    assert ((steps < 0) | ((steps == 0) & (order > 0))).all()
    _, own = together_truth(rows[hits.rows[0]], queries, k)
    np.testing.assert_allclose(-hits.scores, own, atol=1e-6)
    if name in EXACT:
        np.testing.assert_allclose(-hits.scores, distances, atol=2e-6)
    if k > 1:  # at k = 1, another row may be equally near
        assert recall(expected, hits.rows) >= (0.9999 if name in EXACT else 0.95)


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("case", ["repeated", "one has all", "filtered"])
@pytest.mark.parametrize("name", APPROXIMATE)
def test_sentences_with_the_same_neighbours_hide_none(
    name: str,
    case: str,
    rows: np.ndarray,
    indexes: dict[str, VectorIndex],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FAISS finds all rows of one list if queries repeat and if all rows are near one of them."""
    own, allowed = clustered(4, DIM, seed=1).astype(np.float32), filter_of(0.3 if case == "filtered" else 1)
    queries = np.repeat(own, 4, axis=0)
    if case == "one has all":
        queries[4:] += 5

    def scan(*_: object, **__: object) -> None:
        raise AssertionError("all rows are compared")

    monkeypatch.setattr(faiss_codes, "nearest_rows", scan)
    hits = indexes[name].search(queries, 300, together=True, allowed=allowed)
    assert recall(together_truth(rows, queries, 300, allowed)[0], hits.rows) >= 0.9


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", APPROXIMATE)
def test_one_list_is_completed_where_faiss_falls_short(
    name: str,
    rows: np.ndarray,
    queries: np.ndarray,
    indexes: dict[str, VectorIndex],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One list for all queries is completed to k rows, or to the number of allowed rows."""
    monkeypatch.setattr(type(indexes[name]), "usual_effort", lambda *_: Effort(1, 20, 0))
    distances = np.linalg.norm(rows.astype(np.float32)[:, None] - queries, axis=2).min(axis=1)
    allowed = distances > np.sort(distances)[-50]
    for k in (20, 60):
        hits = indexes[name].search(queries, k, together=True, allowed=allowed)
        expected, _ = together_truth(rows, queries, min(k, int(allowed.sum())), allowed)
        np.testing.assert_array_equal(expected[0], hits.rows[0, : expected.shape[1]])
        assert (hits.rows[0, expected.shape[1] :] == -1).all()
        assert (hits.scores[0, expected.shape[1] :] == -np.inf).all()


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("share", [1, 0.5, 0.05])
@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_backends_recall(
    name: str, share: float, rows: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """FAISS alone finds at least 95 % of the nearest 10 and of the nearest 100 allowed rows."""
    queries, allowed = clustered(50, DIM, seed=2).astype(np.float32), filter_of(share)
    for k in (10, 100):
        hits = indexes[name].search(queries, k, allowed=allowed)
        assert recall(truth(rows, queries, k, allowed)[0], hits.rows) >= 0.95


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", BACKENDS)
def test_scores_are_exact_distances_of_the_rows_returned(
    name: str, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Scores are exact distances in full precision, best first, ties in row order."""
    hits = indexes[name].search(queries, 200)
    differences = rows[hits.rows].astype(np.float64) - queries[:, None].astype(np.float64)
    np.testing.assert_allclose(-hits.scores, np.sqrt((differences**2).sum(-1)), atol=1e-6)
    steps, order = np.diff(hits.scores), np.diff(hits.rows)
    assert ((steps < 0) | ((steps == 0) & (order > 0))).all()
    assert hits.scores[0, 0] == 0


@pytest.mark.parametrize("share", [0.5, 0.05, 0.001, 1 / N_ROWS, 0])
@pytest.mark.parametrize("name", BACKENDS)
def test_filters_hold(
    name: str, share: float, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Only allowed rows are returned, up to k, padded with -1 and -inf."""
    allowed = filter_of(share)
    hits = indexes[name].search(queries, 20, allowed=allowed)
    found = hits.rows >= 0
    n_expected = min(20, np.count_nonzero(allowed))
    assert found.sum(axis=1).tolist() == [n_expected] * len(queries)
    assert allowed[hits.rows[found]].all()
    assert (hits.scores[~found] == -np.inf).all()
    if n_expected:
        assert recall(truth(rows, queries, 20, allowed)[0], hits.rows) >= 0.95


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", APPROXIMATE)
def test_an_answer_is_completed_where_faiss_falls_short(
    name: str,
    rows: np.ndarray,
    queries: np.ndarray,
    indexes: dict[str, VectorIndex],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the filter leaves nothing where FAISS looks, the search still returns the k nearest rows."""
    monkeypatch.setattr(type(indexes[name]), "usual_effort", lambda *_: Effort(1, 20, 0))
    distances = np.linalg.norm(rows.astype(np.float32) - queries[3], axis=1)
    allowed = distances > np.sort(distances)[-500]
    hits = indexes[name].search(queries, 20, allowed=allowed)
    assert (hits.rows >= 0).all()
    assert allowed[hits.rows].all()
    assert recall(truth(rows, queries[3:4], 20, allowed)[0], hits.rows[3:4]) == 1


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_are_exact_far_from_the_origin(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors far from the origin, which float32 matrix products cannot tell apart, are in order."""
    monkeypatch.setattr(faiss.cvar, "distance_compute_blas_threshold", 1)  # as always on a GPU
    rows = clustered(2000, DIM, dtype="float32") * np.float32(0.1) + np.float32(300)
    queries = rows[:40] + np.float32(0.01)
    hits = build_index(rows, name).search(queries, 20)
    np.testing.assert_allclose(-hits.scores, truth(rows, queries, 20)[1], rtol=1e-5)


@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize("name", BACKENDS)
def test_asking_for_every_row_returns_every_row(
    name: str, extra: int, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """A search for as many rows as the index has returns all of them."""
    hits = indexes[name].search(queries, N_ROWS + extra)
    for numbers in hits.rows:
        np.testing.assert_array_equal(np.arange(N_ROWS), np.sort(numbers[:N_ROWS]))
        assert (numbers[N_ROWS:] == -1).all()


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", BACKENDS)
def test_a_batch_answers_as_its_queries_alone(
    name: str, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """One call for all sentences of a paper gives bit for bit the answers of separate calls."""
    together = indexes[name].search(queries, 30)
    for i, query in enumerate(queries):
        alone = indexes[name].search(query[None], 30)
        np.testing.assert_array_equal(together.rows[i], alone.rows[0])
        np.testing.assert_array_equal(together.scores[i], alone.scores[0])


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", BACKENDS)
def test_concurrent_searches_do_not_disturb_each_other(
    name: str, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Four threads with different k and filters get the answers of separate searches."""
    index = indexes[name]
    searches = [(5, None), (50, None), (200, filter_of(0.5)), (20, filter_of(0.2))]
    expected = [index.search(queries, k, allowed=allowed).rows for k, allowed in searches]
    answers: dict[int, list[np.ndarray]] = {i: [] for i in range(4)}

    def ask(i: int) -> None:
        k, allowed = searches[i]
        answers[i] = [index.search(queries, k, allowed=allowed).rows for _ in range(5)]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, numbers in enumerate(expected):
        assert [numbers.tolist()] * 5 == [answer.tolist() for answer in answers[i]]


@pytest.mark.parametrize("name", BACKENDS)
def test_unusable_searches_are_refused(name: str, indexes: dict[str, VectorIndex]) -> None:
    """NaN, wrong dimensions, no query, k below 1 and a filter of wrong length raise ``InputError``."""
    good, index = np.zeros((1, DIM), np.float32), indexes[name]
    with pytest.raises(InputError, match="NaN"):
        index.search(np.full((1, DIM), np.nan, np.float32), 5)
    with pytest.raises(InputError, match=r"expected \(n_query, 32\)"):
        index.search(np.zeros((1, DIM + 1), np.float32), 5)
    with pytest.raises(InputError, match="at least one"):
        index.search(np.zeros((0, DIM), np.float32), 5)
    with pytest.raises(InputError, match="at least 1"):
        index.search(good, 0)
    with pytest.raises(InputError, match="one flag per row"):
        index.search(good, 5, allowed=np.ones(3, bool))
