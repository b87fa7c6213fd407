"""Index backends: how each is built, saved and opened, and what it refuses."""

from pathlib import Path

import faiss
import numpy as np
import pytest

from indexer.index.backends import faiss_codes
from indexer.index.vector_index import (
    BACKENDS,
    VectorIndex,
    build_index,
    choose_backend,
    load_index,
)
from models.errors import InputError, SnapshotCorruptError, StorageError, UnknownNameError
from tests.support.examples.models.clusters import clustered

WITH_FILE = ("hnsw", "ivfpq", "ivfsq")
DIM = 32
_MAPS = Path("/proc/self/maps")


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Return clustered rows, few enough to index quickly."""
    return clustered(5000, DIM)


@pytest.fixture(scope="module")
def indexes(rows: np.ndarray) -> dict[str, VectorIndex]:
    """Return every backend over the same rows."""
    return {name: build_index(rows, name) for name in BACKENDS}


@pytest.mark.parametrize("dim", [1, 30, 31, 256, 768])
@pytest.mark.parametrize("n_rows", [1, 10, 300])
@pytest.mark.parametrize("name", BACKENDS)
def test_small_indexes_of_any_dimension(name: str, n_rows: int, dim: int, tmp_path: Path) -> None:
    """A few rows of any dimension can be indexed, saved, opened and searched."""
    rows = clustered(n_rows, dim, dtype="float32")
    build_index(rows, name).save(tmp_path / "index.bin")
    hits = load_index(tmp_path / "index.bin", rows, backend=name).search(rows[:1], 10)
    assert hits.rows[0, 0] == 0
    assert np.count_nonzero(hits.rows >= 0) == min(10, n_rows)


@pytest.mark.parametrize("name", BACKENDS)
def test_an_index_survives_the_disk(
    name: str,
    rows: np.ndarray,
    indexes: dict[str, VectorIndex],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A saved index, opened over memory-mapped rows, gives the same hits bit for bit."""
    monkeypatch.setattr(faiss_codes, "scan_is_cheaper", lambda n_allowed, cost_rows: False)
    queries = clustered(8, DIM, seed=1).astype(np.float32)
    np.save(tmp_path / "vectors.npy", rows)
    indexes[name].save(tmp_path / "index.bin")
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    opened = load_index(tmp_path / "index.bin", mapped, backend=name)
    expected, hits = indexes[name].search(queries, 50), opened.search(queries, 50)
    np.testing.assert_array_equal(expected.rows, hits.rows)
    np.testing.assert_array_equal(expected.scores, hits.scores)


@pytest.mark.skipif(not _MAPS.is_file(), reason="only Linux lists what a process has mapped")
@pytest.mark.parametrize("name", ["hnsw", "ivfsq"])
def test_an_index_is_mapped_where_faiss_can(
    name: str, rows: np.ndarray, indexes: dict[str, VectorIndex], tmp_path: Path
) -> None:
    """The file of an opened ``hnsw`` or ``ivfsq`` index is memory-mapped, so its pages can be reclaimed."""
    indexes[name].save(tmp_path / "index.bin")
    opened = load_index(tmp_path / "index.bin", rows, backend=name, device="cpu")
    assert str(tmp_path / "index.bin") in _MAPS.read_text(encoding="utf-8")
    opened.search(clustered(8, DIM, seed=1).astype(np.float32), 10)


@pytest.mark.parametrize("name", BACKENDS)
def test_builds_are_byte_equal_whatever_the_thread_count(name: str, tmp_path: Path) -> None:
    """Builds on one thread and on two write the same file, or none."""
    rows = clustered(20_000 if name.startswith("ivf") else 3_000, 16)  # enough that ivfpq trains on a sample
    n_threads = faiss.omp_get_max_threads()
    try:
        for n in (1, 2):
            faiss.omp_set_num_threads(n)
            build_index(rows, name).save(tmp_path / f"{n}.bin")
    finally:
        faiss.omp_set_num_threads(n_threads)
    written = sorted(path.read_bytes() for path in tmp_path.iterdir())
    assert len(written) == (2 if name in WITH_FILE else 0)
    assert len(set(written)) <= 1


@pytest.mark.parametrize("name", BACKENDS)
def test_unusable_rows_are_refused(name: str) -> None:
    """No rows, rows with one axis, and rows of another dtype raise InputError."""
    for rows in (np.zeros((0, DIM), np.float16), np.zeros(DIM, np.float32), np.zeros((3, DIM))):
        with pytest.raises(InputError, match="expected"):
            build_index(rows, name)


@pytest.mark.parametrize("name", WITH_FILE)
def test_damaged_and_foreign_files_are_corrupt_snapshots(
    name: str, rows: np.ndarray, indexes: dict[str, VectorIndex], tmp_path: Path
) -> None:
    """A missing, cut, garbled or foreign index file raises SnapshotCorruptError."""
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
    other = next(other for other in WITH_FILE if other != name)
    with pytest.raises(SnapshotCorruptError, match="expected"):
        load_index(path, rows, backend=other)


@pytest.mark.parametrize("name", WITH_FILE)
def test_a_file_that_cannot_be_written_is_a_storage_error(
    name: str, indexes: dict[str, VectorIndex], tmp_path: Path
) -> None:
    """Saving into a missing folder raises StorageError instead of FAISS's RuntimeError."""
    with pytest.raises(StorageError, match="cannot be written"):
        indexes[name].save(tmp_path / "nowhere" / "index.bin")


def test_auto_is_exact_for_few_rows_and_ivfpq_for_many() -> None:
    """``auto`` depends on the number of rows, and an unknown name lists the known ones."""
    assert [choose_backend(n) for n in (1, 100_000, 100_001, 10**8)] == ["exact", "exact", "ivfpq", "ivfpq"]
    assert type(build_index(clustered(5, 4), "auto")).__name__ == "ExactIndex"
    with pytest.raises(UnknownNameError, match="exact, flat, hnsw, ivfpq, ivfsq"):
        build_index(clustered(5, 4), "annoy")


def test_a_gpu_that_is_not_there_is_named() -> None:
    """``flat`` on a GPU that FAISS cannot reach, or on an unknown device, raises InputError."""
    if faiss.get_num_gpus():
        pytest.skip("this FAISS can use a GPU")
    with pytest.raises(InputError, match="faiss-gpu"):
        build_index(clustered(5, 4), "flat", device="cuda")
    with pytest.raises(InputError, match="auto, cpu, cuda or cuda:N"):
        build_index(clustered(5, 4), "flat", device="tpu")
