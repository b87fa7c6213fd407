"""Writes segments: from newly encoded papers, and from those of other segments."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float16, Int64

from indexer.files.durable import write_array
from indexer.files.steps import Steps
from indexer.index.vector_index import MOST_EXACT_ROWS, build_index, choose_backend
from indexer.snapshot.columns import SCHEMA
from indexer.snapshot.manifest import FORMAT_VERSION, SegmentEntry
from indexer.snapshot.segment import (
    FUNCTION_INDEX,
    FUNCTIONS,
    ID_HASHES,
    IDS,
    INDEX,
    OFFSETS,
    PAPERS,
    VECTORS,
    Segment,
)
from indexer.words.file import WORDS, write_words
from models.checksums import digest_of, hash64
from models.types import ProgressFn, rows_of, unseen

# Beyond so many sentence vectors a segment takes minutes, and is made in steps that a kill leaves standing.
_LASTING_ROWS = MOST_EXACT_ROWS


@runtime_checkable
class SegmentPart(Protocol):
    """Papers that become part of a segment: newly encoded ones, or those of an older segment."""

    @property
    def key(self) -> str:
        """What tells its content from any other."""
        ...

    @property
    def n_rows(self) -> int:
        """How many sentence vectors there are."""
        ...

    @property
    def has_functions(self) -> bool:
        """Whether there was an encoder of functions."""
        ...

    def rows(self) -> np.ndarray:
        """Sentence vectors, (n_rows, dim)."""
        ...

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Where each paper's rows begin and end, as in ``PackedVectors``."""
        ...

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Function vectors, where there are some."""
        ...

    def table(self) -> pa.Table:
        """The papers' columns, every sentence with a facet."""
        ...


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """Where a record batch of papers ends: few enough that row access stays quick, each small in memory.

    Whichever comes first: so many ``papers``, or ``text_bytes`` of abstracts, which the last paper of the
    batch may pass. Arrow can hold 2 GiB of text in one batch.
    """

    papers: int = 65_536
    text_bytes: int = 1 << 28


_BATCHES: Final = BatchBounds()


class KeptPart:
    """Papers of a segment that another is to take over: those at ``positions``, in that order."""

    def __init__(self, segment: Segment, positions: Int64[np.ndarray, " n_papers"]) -> None:
        self._segment = segment
        self._positions = positions
        self._rows, self._offsets = rows_of(segment.vectors.offsets, positions)

    @property
    def key(self) -> str:
        """What tells its content from any other."""
        positions = hashlib.sha256(self._positions.tobytes()).hexdigest()
        return digest_of({"files": self._segment.entry.files, "positions": positions})

    @property
    def n_rows(self) -> int:
        """How many sentence vectors there are."""
        return len(self._rows)

    @property
    def has_functions(self) -> bool:
        """Whether there was an encoder of functions."""
        return self._segment.has_functions

    def rows(self) -> np.ndarray:
        """Sentence vectors, (n_rows, dim)."""
        return np.asarray(self._segment.vectors.rows[self._rows])

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Where each paper's rows begin and end, as in ``PackedVectors``."""
        return self._offsets

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Function vectors, where there are some."""
        return np.asarray(self._segment.function_vectors[self._rows])

    def table(self) -> pa.Table:
        """The papers' columns, every sentence with a facet."""
        return self._segment.table(self._positions)


def write_segment(
    folder: Path,
    parts: Sequence[SegmentPart],
    *,
    backend: str,
    device: str,
    on_progress: ProgressFn = unseen,
    batches: BatchBounds = _BATCHES,
) -> SegmentEntry:
    """Write the files of a segment into ``folder``; the parts are read one at a time.

    ``backend`` is that of the index over sentence vectors; the one over function vectors goes by its size.
    Of a large segment, whatever an earlier call wrote of the same parts into the folder is not made again;
    ``discard_steps`` when it is not needed any more.
    """
    n_rows = sum(part.n_rows for part in parts)
    own_backend = choose_backend(n_rows) if backend == "auto" else backend
    function_backend = choose_backend(n_rows) if parts[0].has_functions else None
    key = digest_of({"backend": backend, "format": FORMAT_VERSION, "parts": [part.key for part in parts]})
    steps = Steps(folder, key, lasting=n_rows > _LASTING_ROWS)
    lengths = np.concatenate([np.diff(part.offsets()) for part in parts])
    n_papers, n_indexes = len(lengths), 1 if function_backend is None else 2

    def tell(n_indexed: int) -> None:
        on_progress("Indexing", round(n_papers * n_indexed / max(n_indexes * n_rows, 1)), n_papers)

    steps.make(VECTORS, lambda path: _write_rows(path, (part.rows() for part in parts), n_rows))
    steps.make(OFFSETS, lambda path: _write_offsets(path, lengths))
    steps.make(PAPERS, lambda path: _write_papers(path, (part.table() for part in parts), batches))
    steps.make(IDS, lambda path: _write_hash64es(path, folder / PAPERS))
    steps.make(WORDS, lambda path: write_words(path, folder / PAPERS))
    _make_index(steps, INDEX, folder / VECTORS, own_backend, device, tell)
    if function_backend is not None:
        steps.make(FUNCTIONS, lambda path: _write_rows(path, (part.functions() for part in parts), n_rows))
        _make_index(
            steps,
            FUNCTION_INDEX,
            folder / FUNCTIONS,
            function_backend,
            device,
            lambda n_indexed: tell(n_rows + n_indexed),
        )
    tell(n_indexes * n_rows)
    return SegmentEntry(folder.name, n_papers, n_rows, own_backend, function_backend, steps.files())


def _write_rows(path: Path, blocks: Iterator[np.ndarray], n_rows: int) -> None:
    """Vectors end to end, in the format of the first block."""
    first = next(blocks)
    write_array(path, chain([first], blocks), shape=(n_rows, first.shape[1]), dtype=first.dtype)


def _write_offsets(path: Path, lengths: Int64[np.ndarray, " n_papers"]) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    write_array(path, [offsets], shape=offsets.shape, dtype=offsets.dtype)


@dataclass(frozen=True, slots=True)
class _IndexProgress:
    """What a build of the index ``name`` keeps among the steps; ``tell`` gets the rows that are in it."""

    steps: Steps
    name: str
    tell: Callable[[int], None]

    def saved(self) -> Path | None:
        """See ``indexer.index.vector_index.BuildProgress``."""
        return self.steps.saved(self.name)

    def save(self, write: Callable[[Path], object]) -> None:
        """See ``indexer.index.vector_index.BuildProgress``."""
        self.steps.save(self.name, write)


def _make_index(
    steps: Steps, name: str, rows: Path, backend: str, device: str, tell: Callable[[int], None]
) -> None:
    def write(path: Path) -> None:
        progress = _IndexProgress(steps, name, tell)
        build_index(np.load(rows, mmap_mode="r"), backend, device=device, progress=progress).save(path)

    steps.make(name, write)


def _write_papers(path: Path, tables: Iterable[pa.Table], bounds: BatchBounds) -> None:
    """Write the columns in batches whose bounds do not depend on the parts."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for batch in _even_batches(tables, bounds):
            writer.write_table(batch)


def _write_hash64es(path: Path, papers: Path) -> None:
    """Write the hashes of the ids of ``papers``, a file of columns, sorted, each with its position."""
    with pa.memory_map(str(papers)) as source:
        ids = pa.ipc.open_file(source).read_all()["id"].to_pylist()
    table = np.empty(len(ids), dtype=ID_HASHES)
    table["hash"] = [hash64(paper_id) for paper_id in ids]
    table["position"] = np.arange(len(ids))
    table.sort(order=["hash", "position"])
    write_array(path, [table], shape=table.shape, dtype=table.dtype)


def _even_batches(tables: Iterable[pa.Table], bounds: BatchBounds) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    n_papers = n_bytes = 0
    for table in tables:
        first = 0
        sizes = np.asarray(pc.binary_length(table["abstract"]), dtype=np.int64)
        while first < len(table):
            room = sizes[first : first + bounds.papers - n_papers]
            # The batch ends with the paper by which its text comes to the bound.
            n_own = int(np.searchsorted(np.cumsum(room), bounds.text_bytes - n_bytes)) + 1
            n_own = min(n_own, len(room))
            waiting.append(table.slice(first, n_own))
            first, n_papers, n_bytes = first + n_own, n_papers + n_own, n_bytes + int(room[:n_own].sum())
            if n_papers == bounds.papers or n_bytes >= bounds.text_bytes:
                yield _joined(waiting)
                waiting, n_papers, n_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table, whose buffers hold its own papers alone: Arrow would write some text beside a slice too."""
    joined = pa.concat_tables(tables).combine_chunks()
    return joined if len(tables) > 1 else joined.take(pa.array(np.arange(len(joined))))
