"""Writing of segments, from newly encoded papers and from papers of other segments."""

import ctypes
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float16, Int64

from indexer.files.arrays import load_array
from indexer.files.durable import write_array
from indexer.index.vector_index import build_index, choose_backend
from indexer.snapshot.columns import SCHEMA
from indexer.snapshot.manifest import SegmentEntry
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
from indexer.words.file import WORDS, KeptWords, merged_words, words_in, write_words
from models.checksums import digest_of, hashes64, sha256_of
from models.types import ProgressFn, ignore_progress, rows_of


@runtime_checkable
class SegmentPart(Protocol):
    """Papers that become part of a segment: newly encoded ones, or papers of an older segment."""

    @property
    def key(self) -> str:
        """A digest that identifies its content."""
        ...

    @property
    def n_rows(self) -> int:
        """The number of sentence vectors."""
        ...

    @property
    def has_functions(self) -> bool:
        """Whether there are function vectors."""
        ...

    def rows(self) -> np.ndarray:
        """Return the sentence vectors, (n_rows, dim)."""
        ...

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Return where the rows of each paper begin and end, as in ``PackedVectors``."""
        ...

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Return the function vectors, if ``has_functions``."""
        ...

    def table(self) -> pa.Table:
        """Return the columns of the papers, every sentence with a facet."""
        ...

    def words(self) -> KeptWords | None:
        """Return the words of the papers, or ``None`` if they must be counted."""
        ...


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """The size of record batches of papers: few enough batches for quick row access, each small in memory.

    A batch ends after ``papers`` papers, or with the paper by which its abstracts reach ``text_bytes``. Arrow
    can store 2 GiB of text in one batch.
    """

    papers: int = 8_192
    text_bytes: int = 1 << 26


_BATCHES: Final = BatchBounds()


class KeptPart:
    """Papers at ``positions`` of a segment, to be copied into another in this order.

    ``opened`` returns the segment each time something of it is read. ``key`` is a digest of the content.
    """

    def __init__(self, opened: Callable[[], Segment], positions: Int64[np.ndarray, " n_papers"]) -> None:
        self._opened = opened
        self._positions = positions
        segment = opened()
        offsets = segment.vectors.offsets
        self.n_rows = int((offsets[positions + 1] - offsets[positions]).sum())
        self.has_functions = segment.has_functions
        of_positions = hashlib.sha256(positions.tobytes()).hexdigest()
        self.key = digest_of({"files": segment.entry.files, "positions": of_positions})

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def n_sentences(self) -> int:
        """The number of sentences, including those without vectors that the encoder dropped."""
        return int(pc.sum(pc.list_value_length(self.table()["starts"])).as_py() or 0)

    def rows(self) -> np.ndarray:
        """Return the sentence vectors, (n_rows, dim)."""
        vectors = self._opened().vectors
        return np.asarray(vectors.rows[rows_of(vectors.offsets, self._positions)[0]])

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Return where the rows of each paper begin and end, as in ``PackedVectors``."""
        return rows_of(self._opened().vectors.offsets, self._positions)[1]

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Return the function vectors, if ``has_functions``."""
        segment = self._opened()
        rows = rows_of(segment.vectors.offsets, self._positions)[0]
        return np.asarray(segment.function_vectors[rows])

    def table(self) -> pa.Table:
        """Return the columns of the papers, every sentence with a facet."""
        return self._opened().table(self._positions)

    def words(self) -> KeptWords | None:
        """Return the words of the papers; ``None`` if the segment has none by the current rules."""
        words = self._opened().words
        return KeptWords(words, self._positions) if words is not None and words.has_current_rules else None


def write_vectors(folder: Path, parts: Sequence[SegmentPart], batches: BatchBounds = _BATCHES) -> None:
    """Write the files of a segment except words and indexes; the parts are read one at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    n_rows = sum(part.n_rows for part in parts)
    lengths = np.concatenate([np.diff(part.offsets()) for part in parts])
    _write_rows(folder / VECTORS, (part.rows() for part in parts), n_rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    write_array(folder / OFFSETS, [offsets], shape=offsets.shape, dtype=offsets.dtype)
    _write_papers(folder / PAPERS, (part.table() for part in parts), batches)
    _write_id_hashes(folder / IDS, folder / PAPERS)
    if parts[0].has_functions:
        _write_rows(folder / FUNCTIONS, (part.functions() for part in parts), n_rows)


def entry_of(folder: Path, *, backend: str, function_backend: str | None) -> SegmentEntry:
    """Return the manifest entry for the segment files in ``folder``."""
    offsets = load_array(folder / OFFSETS, mmap_mode="r")
    files = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    return SegmentEntry(folder.name, len(offsets) - 1, int(offsets[-1]), backend, function_backend, files)


def write_segment(
    folder: Path,
    parts: Sequence[SegmentPart],
    *,
    backend: str,
    device: str,
    on_progress: ProgressFn = ignore_progress,
    batches: BatchBounds = _BATCHES,
) -> SegmentEntry:
    """Write all files of a segment into ``folder``, and return its entry.

    ``backend`` is the backend for sentence vectors; for function vectors it is chosen by their number.
    """
    write_vectors(folder, parts, batches)
    kept = [words for part in parts if (words := part.words()) is not None]
    counted = merged_words(kept, folder) if len(kept) == len(parts) else words_in(folder / PAPERS)
    write_words(folder / WORDS, counted)
    del kept, counted
    _release_memory()
    n_rows = sum(part.n_rows for part in parts)
    n_papers = len(load_array(folder / OFFSETS, mmap_mode="r")) - 1
    indexes = {INDEX: (VECTORS, choose_backend(n_rows) if backend == "auto" else backend)}
    if parts[0].has_functions:
        indexes[FUNCTION_INDEX] = (FUNCTIONS, choose_backend(n_rows))

    def tell(n_before: int, n_indexed: int) -> None:
        n_all = max(len(indexes) * n_rows, 1)
        on_progress("Indexing", round(n_papers * (n_before + n_indexed) / n_all), n_papers)

    for number, (name, (rows, own_backend)) in enumerate(indexes.items()):
        index = build_index(
            load_array(folder / rows, mmap_mode="r"),
            own_backend,
            device=device,
            on_rows=partial(tell, number * n_rows),
        )
        index.save(folder / name)
        del index
        _release_memory()
    tell(len(indexes) * n_rows, 0)
    function_backend = indexes[FUNCTION_INDEX][1] if FUNCTION_INDEX in indexes else None
    return entry_of(folder, backend=indexes[INDEX][1], function_backend=function_backend)


def _release_memory() -> None:
    """Return freed memory to the system; else it adds to later allocations (250 MiB from Arrow)."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # the C library is not GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _write_rows(path: Path, blocks: Iterator[np.ndarray], n_rows: int) -> None:
    """Write blocks of vectors as one array, in the type of the first block."""
    first = next(blocks)
    write_array(path, chain([first], blocks), shape=(n_rows, first.shape[1]), dtype=first.dtype)


def _write_papers(path: Path, tables: Iterable[pa.Table], bounds: BatchBounds) -> None:
    """Write the columns in batches that do not depend on the division into parts."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for batch in _even_batches(tables, bounds):
            writer.write_table(batch)
    _release_memory()


def _write_id_hashes(path: Path, papers: Path) -> None:
    """Write the sorted hashes of the paper ids in the file ``papers``, each with its position."""
    with pa.memory_map(str(papers)) as source:
        ids = pa.ipc.open_file(source).read_all()["id"]
        table = np.empty(len(ids), dtype=ID_HASHES)
        start = 0
        for chunk in ids.chunks:  # a batch at a time
            table["hash"][start : start + len(chunk)] = hashes64(chunk.to_pylist())
            start += len(chunk)
    table["position"] = np.arange(len(table))
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
            # The batch ends with the paper by which its text reaches the bound.
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
    """Join tables, with only their papers in the buffers: for a slice Arrow also writes text outside it."""
    joined = pa.concat_tables(tables).combine_chunks()
    return joined if len(tables) > 1 else joined.take(pa.array(np.arange(len(joined))))
