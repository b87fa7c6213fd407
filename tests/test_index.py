"""The contract every index backend keeps, measured against exact distances in float64."""

import threading
from pathlib import Path

import faiss
import numpy as np
import pytest

import indexer.backends.faiss_codes
import indexer.backends.faiss_flat
from indexer.index import BACKENDS, VectorIndex, build_index, choose_backend, load_index
from models.errors import InputError, SnapshotCorruptError, StorageError, UnknownNameError

EXACT = ("exact", "flat")
APPROXIMATE = ("hnsw", "ivfpq")
N_ROWS, DIM = 12_000, 32
N_TIED = 300  # copies of row 0 among the rows: a sentence many abstracts share


def clustered(n: int, dim: int, *, seed: int = 0, dtype: str = "float16") -> np.ndarray:
    """``n`` unit vectors around 100 centres, as sentence vectors gather around topics."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((100, dim))
    vectors = centres[rng.integers(0, 100, n)] + 0.8 * rng.standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rows = clustered(N_ROWS, DIM)
    rows[:: N_ROWS // N_TIED] = rows[0]
    return rows


@pytest.fixture(scope="module")
def queries(rows: np.ndarray) -> np.ndarray:
    queries = clustered(8, DIM, seed=1).astype(np.float32)
    queries[0] = rows[0]
    return queries


@pytest.fixture(scope="module")
def indexes(rows: np.ndarray) -> dict[str, VectorIndex]:
    return {name: build_index(rows, name) for name in BACKENDS}


@pytest.fixture
def no_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make FAISS answer whatever it would cost, where small or narrow searches would be exact scans."""
    monkeypatch.setattr(indexer.backends.faiss_codes, "scan_is_cheaper", lambda n_allowed, effort: False)
    monkeypatch.setattr(indexer.backends.faiss_flat, "ALWAYS_SCAN_ROWS", 0)


def truth(
    rows: np.ndarray, queries: np.ndarray, k: int, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and distances by float64 arithmetic, equal distances in row order, padded with -1."""
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
    pairs = zip(expected, actual, strict=True)
    return float(np.mean([len(np.intersect1d(e[e >= 0], a)) / np.count_nonzero(e >= 0) for e, a in pairs]))


def filter_of(share: float) -> np.ndarray:
    allowed = np.zeros(N_ROWS, bool)
    allowed[np.random.default_rng(5).permutation(N_ROWS)[: round(share * N_ROWS)]] = True
    return allowed


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_is_a_vector_index(name: str, indexes: dict[str, VectorIndex]) -> None:
    """A backend has the methods of the protocol."""
    assert isinstance(indexes[name], VectorIndex)


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("k", [1, 10, 250, 500])
@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_find_the_nearest_rows_in_order(
    name: str, k: int, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """The ids are those of float64 distances, the first of equal rows before the later ones."""
    numbers, distances = truth(rows, queries, k)
    hits = indexes[name].search(queries, k)
    # Rows closer together than float32 can tell may change places.
    np.testing.assert_allclose(-hits.scores, distances, atol=2e-6)
    np.testing.assert_array_equal(numbers[0, : min(k, N_TIED)], hits.rows[0, : min(k, N_TIED)])
    assert recall(numbers, hits.rows) > 0.9999


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("share", [1, 0.5, 0.05, 0.001])
@pytest.mark.parametrize("name", EXACT)
def test_exact_backends_agree_bit_for_bit(
    name: str, share: float, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Ids and scores are those of ``exact``, under every filter."""
    expected = indexes["exact"].search(queries, 100, allowed=filter_of(share))
    hits = indexes[name].search(queries, 100, allowed=filter_of(share))
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("share", [1, 0.5, 0.05])
@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_backends_recall(
    name: str, share: float, rows: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """At least 95 % of the nearest 10 and of the nearest 100 allowed rows are found, by FAISS alone."""
    queries, allowed = clustered(50, DIM, seed=2).astype(np.float32), filter_of(share)
    for k in (10, 100):
        hits = indexes[name].search(queries, k, allowed=allowed)
        assert recall(truth(rows, queries, k, allowed)[0], hits.rows) >= 0.95


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", BACKENDS)
def test_scores_are_exact_distances_of_the_rows_returned(
    name: str, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Whatever was proposed, scores are full-precision, best first, equal ones in row order."""
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
    """Only allowed rows come back, as many as there are up to k, and -1 with -inf beyond."""
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
@pytest.mark.parametrize("name", BACKENDS)
def test_a_filter_far_from_the_query_still_fills_the_answer(
    name: str, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """Where only rows far from a query are allowed, as many come back as were asked for."""
    distances = np.linalg.norm(rows.astype(np.float32) - queries[3], axis=1)
    allowed = distances > np.sort(distances)[-500]
    hits = indexes[name].search(queries, 50, allowed=allowed)
    assert (hits.rows >= 0).all()
    assert allowed[hits.rows].all()
    assert recall(truth(rows, queries, 50, allowed)[0], hits.rows) >= 0.8


@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize("name", BACKENDS)
def test_asking_for_every_row_returns_every_row(
    name: str, extra: int, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """A search can be widened until the index is exhausted."""
    hits = indexes[name].search(queries, N_ROWS + extra)
    for numbers in hits.rows:
        np.testing.assert_array_equal(np.arange(N_ROWS), np.sort(numbers[:N_ROWS]))
        assert (numbers[N_ROWS:] == -1).all()


@pytest.mark.parametrize("dim", [1, 30, 31, 256, 768])
@pytest.mark.parametrize("n_rows", [1, 10, 300])
@pytest.mark.parametrize("name", BACKENDS)
def test_small_indexes_of_any_dimension(name: str, n_rows: int, dim: int, tmp_path: Path) -> None:
    """A handful of rows, of any dimension, can be indexed, saved, opened and searched."""
    rows = clustered(n_rows, dim, dtype="float32")
    build_index(rows, name).save(tmp_path / "index.bin")
    hits = load_index(tmp_path / "index.bin", rows, backend=name).search(rows[:1], 10)
    assert hits.rows[0, 0] == 0
    assert np.count_nonzero(hits.rows >= 0) == min(10, n_rows)


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", BACKENDS)
def test_an_index_survives_the_disk(
    name: str, rows: np.ndarray, queries: np.ndarray, indexes: dict[str, VectorIndex], tmp_path: Path
) -> None:
    """A saved and opened index, over memory-mapped rows, gives the same answers bit for bit."""
    np.save(tmp_path / "vectors.npy", rows)
    indexes[name].save(tmp_path / "index.bin")
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    opened = load_index(tmp_path / "index.bin", mapped, backend=name)
    expected, hits = indexes[name].search(queries, 50), opened.search(queries, 50)
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)


@pytest.mark.parametrize("name", BACKENDS)
def test_builds_are_byte_equal_whatever_the_thread_count(name: str, rows: np.ndarray, tmp_path: Path) -> None:
    """Two builds of the same rows, on one thread and on two, write the same file or none."""
    n_threads = faiss.omp_get_max_threads()
    try:
        for n in (1, 2):
            faiss.omp_set_num_threads(n)
            build_index(rows[:5000], name).save(tmp_path / f"{n}.bin")
    finally:
        faiss.omp_set_num_threads(n_threads)
    written = sorted(path.read_bytes() for path in tmp_path.iterdir())
    assert len(written) == (2 if name in APPROXIMATE else 0)
    assert len(set(written)) <= 1


@pytest.mark.usefixtures("no_scans")
@pytest.mark.parametrize("name", BACKENDS)
def test_a_batch_answers_as_its_queries_alone(
    name: str, queries: np.ndarray, indexes: dict[str, VectorIndex]
) -> None:
    """One call for all sentences of a paper gives what one call for each gives, bit for bit."""
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
    """Four threads with different k and filters get the answers each gets alone."""
    index = indexes[name]
    asked = [(5, None), (50, None), (200, filter_of(0.5)), (20, filter_of(0.2))]
    expected = [index.search(queries, k, allowed=allowed).rows for k, allowed in asked]
    answers: dict[int, list[np.ndarray]] = {i: [] for i in range(4)}

    def ask(i: int) -> None:
        k, allowed = asked[i]
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
    """NaN, another dimension, no query, k under 1 and a filter of another length raise InputError."""
    good, index = np.zeros((1, DIM), np.float32), indexes[name]
    with pytest.raises(InputError, match="NaN"):
        index.search(np.full((1, DIM), np.nan, np.float32), 5)
    with pytest.raises(InputError, match=r"expected \(n_query, 32\)"):
        index.search(np.zeros((1, DIM + 1), np.float32), 5)
    with pytest.raises(InputError, match="at least one"):
        index.search(np.zeros((0, DIM), np.float32), 5)
    with pytest.raises(InputError, match="at least 1"):
        index.search(good, 0)
    with pytest.raises(InputError, match="one flag a row"):
        index.search(good, 5, allowed=np.ones(3, bool))


@pytest.mark.parametrize("name", BACKENDS)
def test_unusable_rows_are_refused(name: str) -> None:
    """No rows, one axis, or another number format raise InputError."""
    for rows in (np.zeros((0, DIM), np.float16), np.zeros(DIM, np.float32), np.zeros((3, DIM))):
        with pytest.raises(InputError, match="expected"):
            build_index(rows, name)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_damaged_and_foreign_files_are_corrupt_snapshots(
    name: str, rows: np.ndarray, indexes: dict[str, VectorIndex], tmp_path: Path
) -> None:
    """A missing, cut, garbled or foreign index file raises SnapshotCorruptError with what to do."""
    path = tmp_path / "index.bin"
    with pytest.raises(SnapshotCorruptError, match="index the corpus again"):
        load_index(path, rows, backend=name)
    indexes[name].save(path)
    content = path.read_bytes()
    for damaged in (content[:100], content[: len(content) // 2], b"no index" * 100, b""):
        path.write_bytes(damaged)
        with pytest.raises(SnapshotCorruptError, match="cannot read this index"):
            load_index(path, rows, backend=name)
    path.write_bytes(content)
    with pytest.raises(SnapshotCorruptError, match="expected"):
        load_index(path, rows[:-1], backend=name)
    other = next(other for other in APPROXIMATE if other != name)
    with pytest.raises(SnapshotCorruptError, match="expected"):
        load_index(path, rows, backend=other)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_a_file_that_cannot_be_written_is_a_storage_error(
    name: str, indexes: dict[str, VectorIndex], tmp_path: Path
) -> None:
    """Saving into a folder that is not there raises StorageError, not FAISS's RuntimeError."""
    with pytest.raises(StorageError, match="cannot be written"):
        indexes[name].save(tmp_path / "nowhere" / "index.bin")


def test_auto_is_exact_for_few_rows_and_ivfpq_for_many() -> None:
    """``auto`` follows the size; an unknown name lists the known ones."""
    assert [choose_backend(n) for n in (1, 100_000, 100_001, 10**8)] == ["exact", "exact", "ivfpq", "ivfpq"]
    assert type(build_index(clustered(5, 4), "auto")).__name__ == "ExactIndex"
    with pytest.raises(UnknownNameError, match="exact, flat, hnsw, ivfpq"):
        build_index(clustered(5, 4), "annoy")


def test_a_gpu_that_is_not_there_is_named() -> None:
    """Asking ``flat`` for a GPU that FAISS cannot reach raises InputError, as does an unknown device."""
    if hasattr(faiss, "StandardGpuResources"):
        pytest.skip("this FAISS can use a GPU")
    with pytest.raises(InputError, match="faiss-gpu"):
        build_index(clustered(5, 4), "flat", device="cuda")
    with pytest.raises(InputError, match="auto, cpu or cuda"):
        build_index(clustered(5, 4), "flat", device="tpu")


def test_half_and_single_precision_rows_score_alike() -> None:
    """Float16 rows score exactly as the same numbers stored as float32, subnormal ones too."""
    half = clustered(500, 33)
    half[:3] *= np.float16(1e-6)
    queries = clustered(3, 33, seed=4).astype(np.float32)
    expected = build_index(half.astype(np.float32), "exact").search(queries, 500)
    hits = build_index(half, "exact").search(queries, 500)
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)
