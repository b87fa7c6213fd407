"""Rows that are not in memory are prefetched together, and have the same values."""

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from indexer.index.backends import nearest
from indexer.index.backends.nearest import rescored, rescored_together, widened
from indexer.index.backends.prefetch import disk_reads, prefetch, read_alone

DIM = 100  # of float16: rows end within pages


@pytest.fixture
def rows(tmp_path: Path) -> np.ndarray:
    """Return a thousand rows of a file, memory-mapped as in a segment."""
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((1_000, DIM)).astype(np.float16))
    mapped: np.ndarray = np.load(tmp_path / "rows.npy", mmap_mode="r")
    return mapped


def pages(numbers: list[int]) -> int:
    """Return how many pages hold these rows, which begin 128 bytes into the file."""
    ends = [(128 + 2 * DIM * number, 128 + 2 * DIM * (number + 1) - 1) for number in numbers]
    return len({page for start, end in ends for page in range(start // 4096, end // 4096 + 1)})


@pytest.mark.skipif(mmap.PAGESIZE != 4096, reason="counts pages of 4 kB")
@pytest.mark.parametrize("numbers", [[0], [20], [500, 3, 3], [0, 1, 40, 41, 500], [*range(900)]])
def test_every_page_of_the_rows_is_prefetched_once(rows: np.ndarray, numbers: list[int]) -> None:
    """Every page is prefetched once, for rows on two pages, sharing one, and in any order."""
    assert 4096 * pages(numbers) == prefetch(rows, np.array(numbers))


def test_the_last_page_ends_with_the_file(rows: np.ndarray) -> None:
    """The last page, which is not full, can be prefetched."""
    assert 0 < prefetch(rows, np.array([999])) < 3 * mmap.PAGESIZE


def test_of_a_part_of_a_map_its_own_rows_are_prefetched(rows: np.ndarray) -> None:
    """Rows of a slice are counted from the start of the slice."""
    assert prefetch(rows, np.array([40, 700])) == prefetch(rows[40:], np.array([0, 660]))


def test_nothing_of_an_array_in_memory_is_prefetched(rows: np.ndarray) -> None:
    """Nothing is prefetched for an array in memory or for no rows."""
    assert 0 == prefetch(np.array(rows), np.arange(9)) == prefetch(rows, np.arange(0))


def test_rows_are_the_same_wherever_they_were(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are the same with and without prefetching, which happens if the first rows come from disk."""
    numbers = np.random.default_rng(1).choice(1_000, 200, replace=False)
    queries = np.random.default_rng(2).standard_normal((3, DIM), dtype=np.float32)
    proposed = np.where(numbers[:198] % 7, numbers[:198], -1).reshape(3, 66)
    warm = widened(rows, numbers), rescored(rows, queries, proposed=proposed, k=5)
    together = rescored_together(rows, queries, proposed=numbers, k=5)
    reads: Iterator[int] = iter(range(9))
    prefetched: list[np.ndarray] = []
    monkeypatch.setattr(nearest, "disk_reads", lambda: next(reads))
    monkeypatch.setattr(nearest, "prefetch", lambda _, numbers: prefetched.append(numbers))
    cold = widened(rows, numbers), rescored(rows, queries, proposed=proposed, k=5)
    again = rescored_together(rows, queries, proposed=numbers, k=5)
    assert np.array_equal(rows[numbers].astype(np.float32), cold[0])
    assert np.array_equal(warm[0], cold[0])
    assert (warm[1].rows.tolist(), warm[1].scores.tolist()) == (
        cold[1].rows.tolist(),
        cold[1].scores.tolist(),
    )
    assert set(numbers[8:].tolist()) == set(prefetched[0].tolist())
    assert set(proposed[1:][proposed[1:] >= 0].tolist()) == set(prefetched[1].tolist())
    assert set(numbers[8:].tolist()) == set(prefetched[2].tolist())
    assert (together.rows.tolist(), together.scores.tolist()) == (again.rows.tolist(), again.scores.tolist())


def is_read_ahead_of(rows: np.ndarray) -> bool:
    """Return whether touching a page of the map of ``rows`` reads others too, by its flags in the kernel."""
    maps = Path("/proc/self/smaps").read_text(encoding="utf-8").split("VmFlags:")
    (number,) = (i for i, lines in enumerate(maps) if f"{rows.filename}" in lines)
    return "rr" not in maps[number + 1].splitlines()[0].split()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the flags of a map in /proc")
def test_the_first_rows_are_read_alone(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a few rows are read, nothing around them is read ahead; a later scan is read ahead again."""
    assert is_read_ahead_of(rows)
    seen: list[bool] = []
    monkeypatch.setattr(nearest, "disk_reads", lambda: seen.append(is_read_ahead_of(rows)) or 0)
    widened(rows, np.arange(20))
    assert ([False, False], True) == (seen, is_read_ahead_of(rows))
    with pytest.raises(IndexError), read_alone(rows):
        rows[[1_000]]
    assert is_read_ahead_of(rows)
    with read_alone(np.array(rows)):
        assert is_read_ahead_of(rows)


def test_reads_from_the_disk_are_counted() -> None:
    """The count of disk reads never falls."""
    assert 0 <= disk_reads() <= disk_reads()
