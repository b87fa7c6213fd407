"""Disk and memory use of a collection, and reading vectors that are not in memory: goal P8.

A cold read is of a separate file, through a new memory map, after the system was asked to drop its pages. The
bytes that then came from the disk are counted: if they are fewer than the bytes read (a folder in memory),
the row has no goal, and says so.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np

from benchmarks.suite.rows import OURS, Row, beside, seconds_of, share
from indexer.files.data_folder import DataFolder
from indexer.snapshot.distances import distances_to
from indexer.snapshot.segment import INDEX, VECTORS
from indexer.snapshot.snapshot import Snapshot, StoredRows
from models.encoder import load_encoder
from models.types import rows_of
from service.search.engine import SearchEngine
from tests.support.builds import build_quietly, many_papers, write_corpus

_PAPERS_READ: Final = 1_000
_ROUNDS: Final = 5
_HEADER: Final = 1.01  # a file of vectors may be longer than they by its header
_PAPERS, _SENTENCES, _DIM = 250_000, 8, 384  # of the file that is read: 1.5 GB
_TOUCH: Final = "np.memmap, paper by paper"
_BARE: Final = "posix_fadvise and pread alone"
# Runs in a separate process: prints its memory after opening a collection and one search by id.
_FRESH: Final = """
import sys
from pathlib import Path
from service.collection.generations import open_engine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

engine = open_engine(Settings(data=Path(sys.argv[1]), device="cpu"))
engine.search(SearchQuery((Seed(sys.argv[2]),)))
lines = Path("/proc/self/status").read_text().splitlines()
print(*(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssFile"))))
"""


def on_disk(engine: SearchEngine, data: Path) -> Iterator[Row]:
    """Yield the bytes per sentence and per paper in the files of a collection."""
    snapshot = engine.snapshot
    folders = [DataFolder(data).segment(segment.entry.name) for segment in snapshot.segments]
    float16, in_memory = 2 * snapshot.manifest.encoder.dim * _HEADER, 384 + 64
    for name, what, most in (
        (VECTORS, f"on disk: {VECTORS}", float16),
        (INDEX, "the files of the indexes, which are read into memory", in_memory),
    ):
        size = sum(file.stat().st_size for folder in folders if (file := folder / name).exists())
        if size:  # small collections have no index
            yield Row("P8", what, "bytes a sentence", size / snapshot.n_rows, most=most)
    size = sum(file.stat().st_size for folder in folders for file in folder.iterdir())
    yield Row("P8", "on disk: all files of the segments", "bytes a paper", size / len(snapshot))
    size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    what = "on disk: all files, with the catalog and generations that are kept"
    yield Row("P8", what, "bytes a paper", size / len(snapshot))


def in_memory(engine: SearchEngine, data: Path) -> Iterator[Row]:
    """Compare the memory of a fresh process after one search with that for a collection of two papers."""
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "data"
        corpus = write_corpus(Path(folder) / "papers.jsonl", many_papers(2))
        build_quietly(corpus, alone, load_encoder("hashing"))
        without = _taken(alone, "p0")
    some_paper = engine.snapshot.paper(int(engine.snapshot.positions[0])).id
    n_papers = len(engine.snapshot)
    for what, before, after in zip(
        ("own memory", "mapped files in memory"), without, _taken(data, some_paper), strict=True
    ):
        yield Row(
            "P8",
            f"{what} of a fresh process that opened {n_papers:,} papers and answered by id",
            "bytes a paper",
            (after - before) / n_papers,
            note=f"{after / 2**20:.0f} MiB in all, {before / 2**20:.0f} for a collection of two papers; the "
            "encoder is not loaded",
        )


def _taken(data: Path, paper_id: str) -> tuple[float, float]:
    """Return the bytes of own memory and of mapped files, as medians of three processes."""
    command = [sys.executable, "-c", _FRESH, str(data), paper_id]
    taken = []
    for _ in range(3):
        ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
        own, mapped = ran.stdout.split()[-2:]
        taken.append((int(own), int(mapped)))
    own, mapped = (statistics.median(each) for each in zip(*taken, strict=True))
    return own, mapped


def cold_reads() -> Iterator[Row]:
    """Compare vectors of random papers, in two segments, that are not in memory, as re-ranking does."""
    build = Path("build")  # on a disk more often than the folder for temporary files
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        file = Path(folder) / "vectors.npy"
        _make(file)
        actions = {OURS: _compared, _TOUCH: _touched, _BARE: _read}
        spent: dict[str, list[float]] = {name: [] for name in actions}
        read: dict[str, list[int]] = {name: [] for name in actions}
        again: list[float] = []
        rng = np.random.default_rng(1)
        _compared(file, np.arange(3))  # compiles
        for _ in range(_ROUNDS):
            papers = np.sort(rng.choice(_PAPERS, _PAPERS_READ, replace=False))
            for name, action in actions.items():
                seconds, n_bytes = _cold(file, papers, action)
                spent[name].append(seconds)
                read[name].append(n_bytes)
            again.append(seconds_of(lambda papers=papers: _compared(file, papers)))
    yield from _rows(spent, {name: statistics.median(each) / 1e6 for name, each in read.items()}, again)


def _rows(spent: dict[str, list[float]], read_mb: dict[str, float], again: list[float]) -> Iterator[Row]:
    wanted_mb = _PAPERS_READ * _SENTENCES * _DIM * 2 / 1e6
    cold = read_mb[OURS] >= wanted_mb
    amounts = (
        f"{read_mb[OURS]:.0f} MB were read from the disk for {wanted_mb:.0f}, {read_mb[_TOUCH]:.0f} by theirs"
    )
    note = amounts if cold else f"not cold, so without a goal: {amounts}"
    what = f"distances to {_PAPERS_READ:,} random papers of {_PAPERS:,} that are not in memory"
    yield beside(spent, _TOUCH, goal="P8", what=what, least=50.0 if cold else None, note=note)
    yield beside(spent, _BARE, goal="P8", what=what, inverted=True, note="what the disk takes, at least")
    yield Row("P8", what, "ms", 1000 * statistics.median(spent[OURS]), most=25.0 if cold else None)
    for part, seconds in (
        ("the disk, read without a memory map", spent[_BARE]),
        ("all again, then in memory: mapping pages and distances", again),
    ):
        yield share(f"{what}: {part}", seconds, spent[OURS])


def _make(file: Path) -> None:
    """Write a file of vectors like a segment's."""
    rows = np.lib.format.open_memmap(file, "w+", np.float16, (_PAPERS * _SENTENCES, _DIM))
    some = np.random.default_rng(0).standard_normal((_SENTENCES * 1_000, _DIM)).astype(np.float16)
    for start in range(0, len(rows), len(some)):
        rows[start : start + len(some)] = some
    rows.flush()


def _cold(file: Path, papers: np.ndarray, action: Callable[[Path, np.ndarray], object]) -> tuple[float, int]:
    """Return the seconds of a read with no page of the file in memory, and the bytes read from disk."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # not mapped anywhere: all pages go
    before, start = _read_bytes(), time.perf_counter()
    action(file, papers)
    return time.perf_counter() - start, _read_bytes() - before


def _read_bytes() -> int:
    """Return the bytes that this process has read from disks so far."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


@dataclass(frozen=True, slots=True)
class _TwoSegments:
    """The rows of a file as those of a snapshot of two segments, each a half of it."""

    rows: np.ndarray

    def stored(self, wanted: np.ndarray) -> list[StoredRows]:
        """Return what ``Snapshot.stored`` does."""
        half = len(self.rows) // 2
        is_first = wanted < half
        of_each = ((self.rows[:half], is_first, 0), (self.rows[half:], ~is_first, half))
        return [(rows, own, wanted[own] - start) for rows, own, start in of_each]


def _compared(file: Path, papers: np.ndarray) -> None:
    """Compare the vectors with a sentence, as a search does to re-rank."""
    rows, offsets = rows_of(np.arange(_PAPERS + 1) * _SENTENCES, papers)
    stored = _TwoSegments(np.load(file, mmap_mode="r"))
    distances_to(cast(Snapshot, stored), np.ones((1, _DIM), np.float32), rows, offsets)


def _read(file: Path, papers: np.ndarray) -> None:
    """Read the bytes of the vectors, all announced before the first is read, and do nothing with them."""
    size = _SENTENCES * _DIM * 2
    with file.open("rb") as stream:
        descriptor, header = stream.fileno(), os.fstat(stream.fileno()).st_size - _PAPERS * size
        places = (header + papers * size).tolist()
        for place in places:
            os.posix_fadvise(descriptor, place, size, os.POSIX_FADV_WILLNEED)
        for place in places:
            os.pread(descriptor, size, place)


def _touched(file: Path, papers: np.ndarray) -> None:
    """Read the vectors as a straightforward program would."""
    rows = np.load(file, mmap_mode="r")
    for paper in papers.tolist():
        rows[paper * _SENTENCES : (paper + 1) * _SENTENCES].astype(np.float32)
