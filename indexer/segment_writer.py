"""Writes segments: from newly encoded papers, and from those of other segments."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Float16, Int64

from indexer.columns import SCHEMA
from indexer.durable import write_array
from indexer.index import build_index, choose_backend
from indexer.manifest import SegmentEntry
from indexer.segment import (
    FUNCTION_INDEX,
    FUNCTIONS,
    ID_HASHES,
    IDS,
    INDEX,
    OFFSETS,
    PAPERS,
    VECTORS,
    Segment,
    id_hash,
)
from models.checksums import sha256_of
from models.types import rows_of

# Rows per Arrow batch: few enough batches that row access stays quick, few enough rows to hold in memory.
_BATCH_PAPERS = 65_536


@runtime_checkable
class SegmentPart(Protocol):
    """Papers that become part of a segment: newly encoded ones, or those of an older segment."""

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


class KeptPart:
    """Papers of a segment that another is to take over: those at ``positions``, in that order."""

    def __init__(self, segment: Segment, positions: Int64[np.ndarray, " n_papers"]) -> None:
        self._segment = segment
        self._positions = positions
        self._rows, self._offsets = rows_of(segment.vectors.offsets, positions)

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


def write_segment(folder: Path, parts: Sequence[SegmentPart], *, backend: str, device: str) -> SegmentEntry:
    """Write the files of a segment into the empty ``folder``; the parts are read one at a time.

    ``backend`` is that of the index over sentence vectors; the one over function vectors goes by its size.
    """
    n_rows = sum(part.n_rows for part in parts)
    _write_rows(folder / VECTORS, (part.rows() for part in parts), n_rows)
    lengths = [np.diff(part.offsets()) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    write_array(folder / OFFSETS, [offsets], shape=offsets.shape, dtype=offsets.dtype)
    ids = _id_hashes(_write_papers(folder / PAPERS, (part.table() for part in parts)))
    write_array(folder / IDS, [ids], shape=ids.shape, dtype=ids.dtype)
    own_backend = choose_backend(n_rows) if backend == "auto" else backend
    _write_index(folder / VECTORS, folder / INDEX, own_backend, device)
    function_backend = None
    if parts[0].has_functions:
        function_backend = choose_backend(n_rows)
        _write_rows(folder / FUNCTIONS, (part.functions() for part in parts), n_rows)
        _write_index(folder / FUNCTIONS, folder / FUNCTION_INDEX, function_backend, device)
    files = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    return SegmentEntry(folder.name, len(offsets) - 1, n_rows, own_backend, function_backend, files)


def _write_rows(path: Path, blocks: Iterator[np.ndarray], n_rows: int) -> None:
    """Vectors end to end, in the format of the first block."""
    first = next(blocks)
    write_array(path, chain([first], blocks), shape=(n_rows, first.shape[1]), dtype=first.dtype)


def _write_index(rows: Path, path: Path, backend: str, device: str) -> None:
    build_index(np.load(rows, mmap_mode="r"), backend=backend, device=device).save(path)


def _write_papers(path: Path, tables: Iterable[pa.Table]) -> list[str]:
    """Write the columns in batches whose bounds do not depend on the parts; returns the ids in order."""
    ids: list[str] = []
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for batch in _even_batches(tables):
            writer.write_table(batch)
            ids += batch["id"].to_pylist()
    return ids


def _even_batches(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= _BATCH_PAPERS:
            joined = pa.concat_tables(waiting).combine_chunks()
            yield joined.slice(0, _BATCH_PAPERS).combine_chunks()
            waiting = [joined.slice(_BATCH_PAPERS)]
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _id_hashes(ids: Sequence[str]) -> np.ndarray:
    table = np.empty(len(ids), dtype=ID_HASHES)
    table["hash"] = [id_hash(paper_id) for paper_id in ids]
    table["position"] = np.arange(len(ids))
    return np.sort(table, order=["hash", "position"])
