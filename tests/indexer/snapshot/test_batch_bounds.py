"""Columns of a segment in record batches: any number of batches holds the same papers."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from indexer.snapshot.columns import Columns
from indexer.snapshot.segment import PAPERS, Segment
from indexer.snapshot.segment_writer import BatchBounds, KeptPart, write_segment
from models.types import Unit
from tests.support.trials.sizes import MadePart

TINY = BatchBounds(papers=7)


def segment_of(
    folder: Path, n_papers: int, *, n_characters: int = 50, batches: BatchBounds = TINY
) -> Segment:
    """Return a segment of generated papers."""
    entry = write_segment(
        folder, [MadePart(0, n_papers, n_characters)], backend="exact", device="cpu", batches=batches
    )
    return Segment(folder, entry, unit=Unit.SENTENCE, device="cpu")


def n_batches(folder: Path) -> int:
    """Return the number of record batches in a segment's file of papers."""
    return int(pa.ipc.open_file(pa.memory_map(str(folder / PAPERS))).num_record_batches)


def test_a_segment_of_many_batches_gives_the_papers_of_one_of_few(tmp_path: Path) -> None:
    """Papers are read in any order, also twice, equally from many batches or one."""
    many, one = segment_of(tmp_path / "many", 100), segment_of(tmp_path / "one", 100, batches=BatchBounds())
    assert (15, 1) == (n_batches(tmp_path / "many"), n_batches(tmp_path / "one"))
    for wanted in ([], [99], [3, 98, 3, 0, 7, 6], list(range(100)), list(range(99, -1, -1))):
        positions = np.array(wanted, dtype=np.int64)
        assert [f"p{i}" for i in wanted] == many.table(positions)["id"].to_pylist()
        assert one.table(positions).equals(many.table(positions))
    some = [f"p{number}" for number in range(140)]  # too many to look up one by one
    assert set(range(100)) == set(many.positions(some).tolist())


def test_compacting_many_tiny_batches_writes_what_compacting_one_does(tmp_path: Path) -> None:
    """A compacted file is the same however the old one was split into batches."""
    live = np.flatnonzero(np.arange(100) % 3)
    written = []
    for name, batches in (("many", TINY), ("one", BatchBounds())):
        old = segment_of(tmp_path / name, 100, batches=batches)
        parts = [KeptPart(old.itself, some) for some in np.split(live, [10, 40])]
        new = tmp_path / f"{name}-compact"
        write_segment(new, parts, backend="exact", device="cpu", batches=BatchBounds(papers=9))
        written.append({path.name: path.read_bytes() for path in new.iterdir()})
    assert written[0] == written[1]
    assert 8 == n_batches(tmp_path / "one-compact")


@pytest.mark.parametrize("n_in_first", [1, 13, 40])
def test_a_batch_ends_with_the_paper_that_fills_it(tmp_path: Path, n_in_first: int) -> None:
    """Long abstracts end a batch before its limit of papers, wherever the parts begin and end."""
    parts = [MadePart(0, n_in_first, 100), MadePart(n_in_first, 41 - n_in_first, 100)]
    write_segment(
        tmp_path / "s",
        parts,
        backend="exact",
        device="cpu",
        batches=BatchBounds(papers=15, text_bytes=1_050),
    )
    file = pa.ipc.open_file(pa.memory_map(str(tmp_path / "s" / PAPERS)))
    lengths = [file.get_batch(number).num_rows for number in range(file.num_record_batches)]
    assert [11, 11, 11, 8] == lengths


def test_more_text_than_one_column_can_hold_is_taken_from() -> None:
    """Papers are read from more than 2 GiB of abstracts without joining the batches into one column."""
    batch = MadePart(0, 64, 2**20).table().to_batches()[0]
    columns = Columns(pa.Table.from_batches([batch] * 33))  # the same 64 MiB again and again
    assert columns.table["abstract"].nbytes > 2**31
    taken = columns.take(np.array([0, 63, 64, 32 * 64 + 63]))
    assert ["p0", "p63", "p0", "p63"] == taken["id"].to_pylist()
    assert 4 * 2**20 == sum(map(len, taken["abstract"].to_pylist()))


def test_a_few_values_are_read_without_the_others(tmp_path: Path) -> None:
    """Values of a column come in the order of the positions, and the column is not copied for them."""
    segment = segment_of(tmp_path / "s", 400, n_characters=10_000)
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    try:
        assert ["p399", "p0", "p25", "p0"] == segment.values("id", np.array([399, 0, 25, 0]))
        assert [10_000] * 2 == list(map(len, segment.values("abstract", np.array([300, 2]))))
    finally:
        pa.set_memory_pool(usual)
    assert counted.max_memory() < 400 * 10_000 / 2


def test_rows_past_the_last_batch_are_refused() -> None:
    """A position past the last paper raises IndexError."""
    columns = Columns(MadePart(0, 10, 20).table())
    with pytest.raises(IndexError):
        columns.take(np.array([10]))
