"""Indexes on GPUs, with a stand-in for faiss-gpu: placement, hits, and full memory."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.index.backends import faiss_codes, faiss_flat, gpu, nearest
from indexer.index.backends.faiss_flat import FlatIndex
from indexer.index.backends.faiss_ivfpq import IvfPqIndex
from indexer.index.backends.faiss_ivfsq import IvfSqIndex
from indexer.index.vector_index import VectorIndex, build_index, check_backend, load_index, serving_backend
from models.errors import DeviceFullError, InputError
from tests.support.examples.models.clusters import clustered
from tests.support.examples.models.gpu_faiss import FULL, GIB, FaissOnGpus

N_ROWS, DIM, K = 12_000, 32, 100
ON_GPUS = ("flat", "ivfsq")


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> FaissOnGpus:
    """Return two stand-in GPUs, the second with more room; FAISS is used whatever a scan would cost."""
    stand_in = FaissOnGpus([10 * GIB, 20 * GIB])
    monkeypatch.setattr(gpu, "faiss", stand_in)
    monkeypatch.setattr("models.encoders.devices.free_bytes", stand_in.free)
    monkeypatch.setattr(faiss_codes, "scan_is_cheaper", lambda n_allowed, cost_rows: n_allowed <= cost_rows)
    monkeypatch.setattr(faiss_flat, "scan_is_cheaper", lambda n_allowed: False)
    gpu._made.cache_clear()
    gpu._to_free.clear()
    return stand_in


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Return clustered rows."""
    return clustered(N_ROWS, DIM)


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    """Return eight sentences of a query paper."""
    return clustered(8, DIM, seed=1).astype(np.float32)


@pytest.fixture(scope="module")
def saved(rows: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of an ``ivfsq`` index saved on a CPU."""
    path = tmp_path_factory.mktemp("ivfsq") / "index.bin"
    build_index(rows, "ivfsq", device="cpu").save(path)
    return path


def opened(name: str, saved: Path, rows: np.ndarray, device: str) -> VectorIndex:
    """Return the index as opened on ``device``."""
    return load_index(saved, rows, backend=name, device=device)


@pytest.mark.parametrize("share", [None, 0.5, 0.1, 0.001])
@pytest.mark.parametrize("name", ON_GPUS)
def test_a_gpu_finds_what_a_scan_finds(
    name: str, share: float | None, two_gpus: FaissOnGpus, saved: Path, rows: np.ndarray, queries: np.ndarray
) -> None:
    """``flat`` finds the same to the bit, ``ivfsq`` 98 % of it, and only allowed rows."""
    allowed = None if share is None else np.random.default_rng(0).random(N_ROWS) < share
    index = opened(name, saved, rows, "auto")
    hits = index.search(queries, K, allowed=allowed)
    # A narrow filter leaves so few rows that the CPU compares each of them.
    assert bool(two_gpus.calls) == (share is None or share > 0.001)
    expected = build_index(rows, "exact").search(queries, K, allowed=allowed)
    if name == "flat":
        np.testing.assert_array_equal(expected.rows, hits.rows)
        np.testing.assert_array_equal(expected.scores, hits.scores)
    shared = [len(np.intersect1d(*pair)) for pair in zip(expected.rows, hits.rows, strict=True)]
    assert np.mean(shared) >= 0.98 * len(np.unique(expected.rows[0]))
    assert allowed is None or allowed[hits.rows[hits.rows >= 0]].all()


@pytest.mark.parametrize(("k", "share"), [(K, 1), (K, 0.3), (500, 0.3)])
@pytest.mark.parametrize("name", ON_GPUS)
def test_a_gpu_finds_the_rows_nearest_to_any_query(
    name: str, k: int, share: float, saved: Path, rows: np.ndarray, queries: np.ndarray
) -> None:
    """The list for all queries together is the best of the queries' lists, filtered or not."""
    allowed = np.random.default_rng(0).random(N_ROWS) < share
    queries = np.concatenate((queries[:1], queries[1:] + 5))  # the whole list is near one query
    index = opened(name, saved, rows, "auto")
    together = index.search(queries, k, together=True, allowed=allowed)
    expected = nearest.best_together(index.search(queries, k, allowed=allowed))
    np.testing.assert_array_equal(expected.rows, together.rows)
    np.testing.assert_array_equal(expected.scores, together.scores)


@pytest.mark.parametrize("name", ON_GPUS)
def test_more_rows_than_a_gpu_selects_are_found_by_a_scan(
    name: str, two_gpus: FaissOnGpus, saved: Path, rows: np.ndarray, queries: np.ndarray
) -> None:
    """More than 2,048 rows, the limit of FAISS's GPU indexes, are found by a scan on the CPU."""
    hits = opened(name, saved, rows, "auto").search(queries, 3000)
    assert (hits.rows >= 0).all()
    assert not two_gpus.calls


@pytest.mark.parametrize(("device", "number"), [("auto", 1), ("cuda", 1), ("cuda:0", 0), ("cuda:1", 1)])
@pytest.mark.parametrize("name", ON_GPUS)
def test_a_device_is_where_it_says(
    name: str,
    device: str,
    number: int,
    two_gpus: FaissOnGpus,
    saved: Path,
    rows: np.ndarray,
    queries: np.ndarray,
) -> None:
    """``cuda:N`` is that GPU, ``auto`` and ``cuda`` the one with most room, with one resource object."""
    for _ in range(2):
        opened(name, saved, rows, device).search(queries, K)
    assert {(number, len(queries))} == set(two_gpus.calls)
    assert 1 == len(two_gpus.resources)


def test_segments_share_the_gpus_out(two_gpus: FaissOnGpus, rows: np.ndarray) -> None:
    """Each index goes to the GPU with the most room at that moment."""
    two_gpus.memory[0] = two_gpus.memory[1] - rows.size * 3
    for _ in range(4):
        build_index(rows, "flat")
    assert [2, 2] == [taken // (4 * rows.size) for taken in two_gpus.taken]


@pytest.mark.parametrize("device", ["cuda:2", "cuda:x", "gpu", "cuda:-1", "CUDA", ""])
def test_a_gpu_that_is_not_there_is_refused(device: str, rows: np.ndarray) -> None:
    """A missing GPU or an unknown device name raises InputError."""
    with pytest.raises(InputError, match=r"cuda:0 on|expected auto, cpu, cuda or cuda:N"):
        check_backend("flat", device)
    with pytest.raises(InputError, match=r"cuda:0 on|expected auto, cpu, cuda or cuda:N"):
        build_index(rows, "flat", device=device)


@pytest.mark.parametrize("name", ["ivfpq", "ivfsq"])
def test_lists_that_a_gpu_trained_are_those_of_a_cpu(
    name: str, two_gpus: FaissOnGpus, rows: np.ndarray, tmp_path: Path
) -> None:
    """A build on a stand-in GPU, which computes like a CPU, writes the same file as a build on the CPU."""
    for device in ("cpu", "cuda:0"):
        build_index(rows, name, device=device).save(tmp_path / device)
    assert two_gpus.taken[0] > 0
    assert (tmp_path / "cpu").read_bytes() == (tmp_path / "cuda:0").read_bytes()


@pytest.mark.parametrize("name", ["ivfpq", "ivfsq"])
def test_a_gpu_that_is_full_leaves_the_build_to_the_cpu(
    name: str, two_gpus: FaissOnGpus, rows: np.ndarray, tmp_path: Path
) -> None:
    """A build goes to the CPU if the GPU is full, at the beginning or when rows are assigned to lists."""
    build_index(rows, name, device="cpu").save(tmp_path / "cpu")
    two_gpus.temporary = 0
    build_index(rows, name, device="auto").save(tmp_path / "later")
    two_gpus.memory = [0, 0]
    build_index(rows, name, device="auto").save(tmp_path / "at once")
    contents = {path.read_bytes() for path in tmp_path.iterdir()}
    assert 1 == len(contents)


@pytest.mark.parametrize("kind", [FlatIndex, IvfSqIndex])
def test_an_index_without_room_goes_to_the_cpu_or_says_so(
    kind: type[FlatIndex | IvfSqIndex],
    two_gpus: FaissOnGpus,
    saved: Path,
    rows: np.ndarray,
    queries: np.ndarray,
) -> None:
    """Without room, ``auto`` uses the CPU, and a named GPU raises DeviceFullError."""
    two_gpus.memory = [3 * GIB] * 2
    index = kind.load(saved, rows, device="auto")
    np.testing.assert_array_equal(
        kind.load(saved, rows, device="cpu").search(queries, K).rows, index.search(queries, K).rows
    )
    assert ([0, 0], []) == (two_gpus.taken, two_gpus.calls)
    for device in ("cuda", "cuda:0"):
        with pytest.raises(DeviceFullError, match=r"needs 0.0 GiB, and 3 for working memory; 3.0 are free"):
            kind.load(saved, rows, device=device)


@pytest.mark.parametrize("full", FULL, ids=["faiss-gpu", "cuvs", "bad_alloc"])
@pytest.mark.parametrize("kind", [FlatIndex, IvfSqIndex])
def test_a_gpu_that_fills_up_meanwhile_is_left(
    kind: type[FlatIndex | IvfSqIndex],
    full: Exception,
    two_gpus: FaissOnGpus,
    saved: Path,
    rows: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If FAISS runs out of memory, ``auto`` uses the CPU and a named GPU raises DeviceFullError."""
    two_gpus.memory, two_gpus.full = [1000, 1000], full
    monkeypatch.setattr("models.encoders.devices.free_bytes", lambda _: None)  # free memory is unknown
    kind.load(saved, rows, device="auto").search(rows[:2].astype(np.float32), K)
    assert [] == two_gpus.calls
    with pytest.raises(DeviceFullError, match="memory of device cuda:1 is full"):
        kind.load(saved, rows, device="cuda:1")


@pytest.mark.parametrize("full", FULL, ids=["faiss-gpu", "cuvs", "bad_alloc"])
@pytest.mark.parametrize(("temporary", "calls"), [(8 * 2 * 400, [2, 2, 2, 2]), (100, [])])
@pytest.mark.parametrize("name", ON_GPUS)
def test_a_search_without_memory_halves_its_queries(
    name: str,
    full: Exception,
    temporary: int,
    calls: list[int],
    two_gpus: FaissOnGpus,
    saved: Path,
    rows: np.ndarray,
    queries: np.ndarray,
) -> None:
    """Without memory, queries are halved, down to the CPU, and the hits stay the same."""
    index = opened(name, saved, rows, "cuda:0")
    expected = index.search(queries, 200)
    two_gpus.calls.clear()
    two_gpus.temporary, two_gpus.full = temporary, full
    hits = index.search(queries, 200)
    assert calls == [n for _, n in two_gpus.calls]
    np.testing.assert_array_equal(expected.rows, hits.rows)


def test_an_error_that_is_not_of_memory_stays_itself(
    two_gpus: FaissOnGpus, rows: np.ndarray, queries: np.ndarray
) -> None:
    """An error that is not about memory is raised unchanged."""
    index = build_index(rows, "flat")
    two_gpus.calls = None  # type: ignore[assignment] # broken on purpose
    with pytest.raises(AttributeError):
        index.search(queries, K)


def test_threads_that_begin_at_once_share_the_resources_of_a_gpu(
    two_gpus: FaissOnGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU has one object with its resources and its lock, whoever asks first."""
    make = two_gpus.StandardGpuResources

    def slowly() -> object:
        time.sleep(0.05)
        return make()

    monkeypatch.setattr(two_gpus, "StandardGpuResources", slowly)
    with ThreadPoolExecutor(4) as pool:
        assert 1 == len({id(found) for found in pool.map(gpu.gpu_at, [0] * 4)})


@pytest.mark.parametrize("name", ON_GPUS)
def test_several_threads_search_at_once(
    name: str, saved: Path, rows: np.ndarray, queries: np.ndarray
) -> None:
    """Four threads that search two indexes of one GPU get the right hits, one call at a time."""
    indexes = [opened(name, saved, rows, "cuda:0") for _ in range(2)]
    expected = indexes[0].search(queries, K).rows
    wrong: list[object] = []

    def ask(number: int) -> None:
        for _ in range(10):
            try:
                if not np.array_equal(expected, indexes[number % 2].search(queries, K).rows):
                    wrong.append("rows")
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong


@pytest.mark.parametrize("name", ON_GPUS)
def test_an_index_is_freed_within_a_call_of_its_gpu(name: str, saved: Path, rows: np.ndarray) -> None:
    """An index released while its GPU is in use is freed by the next use of the GPU."""
    index: Any = opened(name, saved, rows, "cuda:0")
    own = weakref.ref(index._index)
    with gpu.gpu_at(0).used():
        del index
        gc.collect()
        assert own() is not None
    with gpu.gpu_at(0).used():
        assert own() is None


@pytest.mark.parametrize("temporary", [GIB, 0])
def test_lists_of_a_build_are_freed_within_a_call(
    temporary: int, two_gpus: FaissOnGpus, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU index of a build is freed when room is next requested, also if memory was full."""
    made: list[weakref.ref[object]] = []
    flat = two_gpus.GpuIndexFlatL2

    def noted(*given: Any) -> object:
        index = flat(*given)
        made.append(weakref.ref(index))
        return index

    monkeypatch.setattr(two_gpus, "GpuIndexFlatL2", noted)
    two_gpus.temporary = temporary
    build_index(rows, "ivfsq", device="cuda:0")
    gc.collect()
    assert [False] == [each() is None for each in made]
    gpu.gpu_with_room("cuda:0", 1)  # a request for room frees it
    assert [True] == [each() is None for each in made]


def test_flat_takes_its_memory_at_once(
    two_gpus: FaissOnGpus, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are added to a GPU in one call, because growing in steps would take up to twice the memory."""
    monkeypatch.setattr("indexer.index.backends.faiss_flat.ADD_ROWS", 10)
    build_index(rows, "flat", device="cuda:0")
    assert [N_ROWS] == two_gpus.added


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
def test_a_gpu_that_fills_up_leaves_what_is_stored(
    device: str, two_gpus: FaissOnGpus, rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the GPU fills up, many rows are searched with their stored index instead of one by one."""
    build_index(rows, "ivfpq", device="cpu").save(tmp_path / "index.bin")
    monkeypatch.setattr("indexer.index.vector_index.MAX_EXACT_ROWS", N_ROWS - 1)
    two_gpus.memory = [1000, 1000]
    monkeypatch.setattr("models.encoders.devices.free_bytes", lambda _: None)  # free memory is unknown
    assert isinstance(load_index(tmp_path / "index.bin", rows, backend="ivfpq", device=device), IvfPqIndex)


def test_many_rows_are_served_flat_where_there_is_room(two_gpus: FaissOnGpus) -> None:
    """Many rows are served ``flat`` on a GPU with room, except ``ivfsq``, and never on ``cpu``."""
    shape = (10**6, 384)
    expected = {"auto": "flat", "cuda": "flat", "cuda:1": "flat", "cpu": "ivfpq"}
    assert expected == {device: serving_backend("ivfpq", shape, device) for device in expected}
    assert "ivfsq" == serving_backend("ivfsq", shape, "auto")
    assert "exact" == serving_backend("exact", (1000, 384), "cuda")
    two_gpus.memory = [4 * GIB, 4 * GIB]
    assert "ivfpq" == serving_backend("ivfpq", shape, "cuda")


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_the_processor_uses_no_gpu(device: str, saved: Path, rows: np.ndarray) -> None:
    """With device ``cpu`` or ``cpu:0``, no GPU is used."""
    assert gpu.gpu_for(device, 1) is None
    assert gpu.gpu_with_room(device, 1) is None
    assert "ivfsq" == serving_backend("ivfsq", rows.shape, device)
    assert "ivfpq" == serving_backend("ivfpq", (10**6, DIM), device)
