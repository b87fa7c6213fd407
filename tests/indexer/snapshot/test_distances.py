"""Tests of distances to stored rows that are read in place."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from indexer.index.backends import nearest
from indexer.index.backends.nearest import as_bits
from indexer.snapshot.distances import distances_to
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.encoder import load_encoder
from models.errors import DeadlineError
from models.interruption import set_interruption
from models.transport.problem import distances, set_distances
from models.types import rows_of
from tests.support.builds import add_papers, build_quietly, many_papers, write_corpus


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Every check for an interruption raises an error."""

    def ended() -> None:
        raise DeadlineError("over")

    set_interruption(ended)
    yield
    set_interruption(lambda: None)


def expect_same_bits(snapshot: Snapshot, positions: np.ndarray) -> None:
    """Compare with the distances to gathered rows, for three query sentences."""
    query = snapshot.gather(snapshot.positions[:2])[0][:3]
    expected = distances(query, *snapshot.gather(positions))
    found = distances_to(snapshot, query, *rows_of(snapshot.offsets, positions))
    np.testing.assert_array_equal(expected.view(np.uint64), found.view(np.uint64))


def test_rows_read_in_place_have_the_same_distances(tmp_path: Path) -> None:
    """The bits are those of rows that were widened first, in one segment, in several, and for no papers."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "papers.jsonl", many_papers(300)), data, load_encoder("hashing"))
    snapshot = open_snapshot(data)
    drawn = np.random.default_rng(0).permutation(snapshot.positions)
    expect_same_bits(snapshot, drawn)
    expect_same_bits(snapshot, drawn[:0])
    add_papers(data, ("new", "Knots", "We tie knots. They hold."), ("other", "Ropes", "A rope is long."))
    several = open_snapshot(data)
    assert len(several.segments) > 1
    expect_same_bits(several, np.random.default_rng(1).permutation(several.positions))


def test_rows_of_every_segment_are_prefetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If rows are on disk, all but the first of each segment are prefetched, wherever its papers stand."""
    data = tmp_path / "data"
    build_quietly(write_corpus(tmp_path / "papers.jsonl", many_papers(60)), data, load_encoder("hashing"))
    add_papers(data, *((f"new:{n}", "Knots", "We tie knots. They hold.") for n in range(9)))
    snapshot = open_snapshot(data)
    expected = [len(segment.vectors.rows) - 8 for segment in snapshot.segments]
    assert 2 == len(expected)
    assert all(n > 0 for n in expected)
    prefetched: list[np.ndarray] = []
    reads = count()
    monkeypatch.setattr(nearest, "disk_reads", lambda: next(reads))
    monkeypatch.setattr(nearest, "prefetch", lambda _, numbers: prefetched.append(numbers))
    expect_same_bits(snapshot, snapshot.positions)
    assert expected == [len(numbers) for numbers in prefetched[-2:]]
    assert all((numbers >= 0).all() for numbers in prefetched)


def test_nobody_waits_any_more(hashed_snapshot: Snapshot, interrupted: None) -> None:
    """An error that the interruption raises ends the comparison."""
    rows = rows_of(hashed_snapshot.offsets, hashed_snapshot.positions)
    with pytest.raises(DeadlineError):
        distances_to(hashed_snapshot, np.ones((1, hashed_snapshot.manifest.encoder.dim), np.float32), *rows)


@pytest.mark.parametrize("dim", [1, 8, 31, 384, 768])
@pytest.mark.parametrize("stored_as", [np.float16, np.float32])
def test_distances_of_stored_rows_are_equal_to_the_bit(dim: int, stored_as: type) -> None:
    """Any number of query sentences and of rows; rows that are left out keep their cells."""
    rng = np.random.default_rng(dim)
    stored, offsets = rng.normal(size=(40, dim)).astype(stored_as), np.array([0, 1, 4, 9])
    numbers = rng.integers(0, 40, 9)
    for n_query in (1, 3, 4, 6):
        query = rng.normal(size=(n_query, dim)).astype(np.float32)
        expected = distances(query, stored[numbers].astype(np.float32), offsets)
        found = np.full(9 * n_query, np.nan)
        for pairs in ((0, 2), (2, 3)):
            set_distances(query, as_bits(stored), numbers, offsets, pairs, found)
        np.testing.assert_array_equal(expected.view(np.uint64), found.view(np.uint64))
        without = np.where(np.arange(9) == 5, -1, numbers)
        left = np.full(9 * n_query, np.nan)
        set_distances(query, as_bits(stored), without, offsets, (0, 3), left)
        cells = np.flatnonzero(np.isnan(left))
        assert (4 * n_query + 1 + 5 * np.arange(n_query)).tolist() == cells.tolist()
