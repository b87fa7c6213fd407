"""A segment: the immutable files with a run of papers, their vectors and the index over them.

vectors.npy      (n_rows, dim) float16 or float32; this order is the index's row order
offsets.npy      (n_papers + 1,) int64; paper i owns rows offsets[i]:offsets[i + 1]
papers.arrow     text and metadata, one row per paper
ids.npy          (n_papers,) hashes of the paper ids, sorted, with their positions
index.bin        the file of the index backend
functions.npy    (n_rows, dim_functions) float16, if there is an encoder of functions: row i is the function
                 vector of the sentence in row i of vectors.npy
functions.bin    the file of the index backend over them
words.arrow      the words of its papers: indexer/words/file.py; missing in old segments
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float16, Int8, Int64, UInt64

from indexer.files.arrays import load_array
from indexer.index.vector_index import VectorIndex, load_index
from indexer.snapshot.columns import Columns, allowed_papers
from indexer.snapshot.manifest import SegmentEntry
from indexer.words.file import WORDS, SegmentWords, open_words
from models.checksums import hash64, hashes64
from models.errors import MissingVectorsError
from models.facets import NO_FACET
from models.types import Filters, PackedVectors, Paper, Unit

VECTORS, OFFSETS, IDS = "vectors.npy", "offsets.npy", "ids.npy"
PAPERS, INDEX = "papers.arrow", "index.bin"
FUNCTIONS, FUNCTION_INDEX = "functions.npy", "functions.bin"
ID_HASHES = np.dtype([("hash", "<u8"), ("position", "<i8")])
# Up to this many ids are looked up one by one, at 9 us each; more together take 2 us each, plus 2 ms in all.
FEW_IDS = 100


class Segment:
    """One segment, open for reading: memory-mapped, its checksums already compared.

    ``unit`` is the unit of text that each row of its vectors encodes; ``effort`` multiplies the usual search
    effort of its index. It serves several generations, so deleted papers are not recorded here.
    """

    def __init__(
        self, folder: Path, entry: SegmentEntry, *, unit: Unit, device: str, effort: float = 1.0
    ) -> None:
        self._folder = folder
        self.entry = entry
        self._unit = unit
        self._device = device
        self._effort = effort
        offsets = np.asarray(load_array(folder / OFFSETS, mmap_mode="r"))
        self.vectors = PackedVectors(load_array(folder / VECTORS, mmap_mode="r"), offsets)
        self._table = pa.ipc.open_file(pa.memory_map(str(folder / PAPERS))).read_all()
        self._columns = Columns(self._table)
        self._ids = load_array(folder / IDS, mmap_mode="r")
        # The cache holds no reference to ``self``, so the files are closed as soon as ``self`` is unused.
        self._allowed = lru_cache(maxsize=64)(partial(_allowed_papers, self._table))

    def __len__(self) -> int:
        return self.entry.n_papers

    def serves(self, entry: SegmentEntry, *, effort: float) -> bool:
        """Return whether this is the segment of ``entry``, with the same search effort."""
        return entry.is_same_as(self.entry) and effort == self._effort

    def itself(self) -> "Segment":
        """Return this segment, for callers that take a function that opens one."""
        return self

    @cached_property
    def index(self) -> VectorIndex:
        """The nearest-neighbour index over ``vectors.rows``."""
        return load_index(
            self._folder / INDEX,
            self.vectors.rows,
            backend=self.entry.backend,
            device=self._device,
            effort=self._effort,
        )

    @cached_property
    def function_vectors(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """The function vectors of the sentences, of unit length, by row; raises MissingVectorsError."""
        if not self.has_functions:
            raise MissingVectorsError(
                "This collection has no function vectors; encode it with an encoder that has a function "
                "encoder, such as minilm: `akin reindex --encoder minilm`."
            )
        vectors: np.ndarray = load_array(self._folder / FUNCTIONS, mmap_mode="r")
        return vectors

    @cached_property
    def function_index(self) -> VectorIndex:
        """The nearest-neighbour index over ``function_vectors``; raises MissingVectorsError."""
        return load_index(
            self._folder / FUNCTION_INDEX,
            self.function_vectors,
            backend=self.entry.function_backend or "",
            device=self._device,
        )

    @cached_property
    def row_facets(self) -> Int8[np.ndarray, " n_rows"]:
        """The facet of each row's sentence, as its position in FACETS; NO_FACET for a whole paper's row."""
        n_rows = self.entry.n_rows
        if self._unit is Unit.DOCUMENT:
            return np.full(n_rows, NO_FACET, dtype=np.int8)
        facets = self._table["facets"].combine_chunks()
        starts = np.asarray(facets.offsets)[:-1] - self.vectors.offsets[:-1]  # (n_papers,)
        codes: Int8[np.ndarray, " n_rows"] = np.asarray(facets.values)[
            np.arange(n_rows) + np.repeat(starts, np.diff(self.vectors.offsets))
        ]
        return codes

    @property
    def size_bytes(self) -> int:
        """The size of its files in bytes; raises StorageError."""
        return self.entry.size_in(self._folder)

    @cached_property
    def words(self) -> SegmentWords | None:
        """The words of its papers; ``None`` if the segment was made before words were stored."""
        return open_words(self._folder / WORDS) if WORDS in self.entry.files else None

    @property
    def has_current_words(self) -> bool:
        """Whether it has the words of its papers, counted by the current rules."""
        return self.words is not None and self.words.has_current_rules

    @property
    def has_functions(self) -> bool:
        """Whether its sentences have function vectors."""
        return self.entry.function_backend is not None

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column of the papers, in order; indexer/snapshot/columns.py names them."""
        return self._table[name]

    def table(self, positions: Int64[np.ndarray, " n"]) -> pa.Table:
        """Return all columns of the papers at ``positions``, in that order."""
        return self._columns.take(positions)

    def values(self, name: str, positions: Int64[np.ndarray, " n"]) -> list[Any]:
        """Return one column of the papers at ``positions``, in that order, without copying the column."""
        order = np.argsort(positions, kind="stable")  # so that each batch is read once
        values = np.empty(len(positions), dtype=object)
        values[order] = self._columns.take(positions[order], [name])[name].to_pylist()
        taken: list[Any] = values.tolist()
        return taken

    def paper(self, position: int, *, text: bool = True) -> Paper:
        """Return the paper at ``position`` (0 <= position < len(self)), with its ``text`` or without."""
        return self._columns.paper(position, text=text)

    def position(self, paper_id: str) -> int | None:
        """Return the position of a paper, or ``None`` if it is not in this segment."""
        wanted = hash64(paper_id)
        first = int(np.searchsorted(self._ids["hash"], np.uint64(wanted)))
        for entry in self._ids[first:]:
            if entry["hash"] != wanted:
                return None
            position = int(entry["position"])
            if self._table["id"][position].as_py() == paper_id:
                return position
        return None

    def positions(
        self, paper_ids: Collection[str], hashes: UInt64[np.ndarray, " n"] | None = None
    ) -> Int64[np.ndarray, " n_found"]:
        """Return the positions, in any order, of the papers that are in this segment.

        With the ``hashes`` of the ids, they need not be hashed for each of several segments.
        """
        ids = list(paper_ids)
        if len(ids) <= FEW_IDS:
            return _those_found(map(self.position, ids))
        places, likely = self._with_hashes(hashes64(ids) if hashes is None else hashes)
        positions = self._ids["position"][places[likely]]
        names = self.values("id", positions)
        return _those_found(
            # If another id has the same hash, the papers after it are tried.
            int(position) if name == ids[i] else self.position(ids[i])
            for i, position, name in zip(likely, positions, names, strict=True)
        )

    def shared_with(
        self, other: "Segment", *, but: Int64[np.ndarray, " n_left_out"]
    ) -> Int64[np.ndarray, " n_shared"]:
        """Return the positions, in any order, of the papers whose ids are also in ``other``.

        Papers at the positions ``but`` of ``other`` are left out. Stored hashes are compared, so few ids are
        hashed.
        """
        _, likely = self._with_hashes(other.id_hashes["hash"])
        return self.positions(other.values("id", np.setdiff1d(other.id_hashes["position"][likely], but)))

    def _with_hashes(
        self, hashes: UInt64[np.ndarray, " n"]
    ) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n_likely"]]:
        """Return the place of each of ``hashes`` among those of the ids, and which of them are there."""
        places = np.minimum(np.searchsorted(self._ids["hash"], hashes), len(self) - 1)
        return places, np.flatnonzero(self._ids["hash"][places] == hashes)

    @property
    def id_hashes(self) -> np.ndarray:
        """The hash of the id and the position of each paper (ID_HASHES), sorted by hash."""
        hashes: np.ndarray = self._ids
        return hashes

    def versions(self, wanted: Mapping[str, str | None]) -> Int64[np.ndarray, " n_found"]:
        """Return the sorted positions of the ``wanted`` versions (content hashes by paper id) found here."""
        positions = np.sort(self.positions(wanted))
        found = self._columns.take(positions, ["id", "content_hash"])
        ids, hashes = (found[name].to_pylist() for name in ("id", "content_hash"))
        same = [wanted[key] == digest for key, digest in zip(ids, hashes, strict=True)]
        versions: Int64[np.ndarray, " n_found"] = positions[np.array(same, dtype=bool)]
        return versions

    def allowed_papers(self, filters: Filters) -> Bool[np.ndarray, " n_papers"]:
        """Return which papers pass ``filters``; the array may be shared between callers and is read-only.

        Filters on ids are applied each time, to the cached result of the other filters, because each query
        paper excludes itself.
        """
        if not filters.ids and not filters.exclude_ids:
            return self._allowed(filters)
        allowed = self._allowed(replace(filters, ids=frozenset(), exclude_ids=frozenset())).copy()
        if filters.ids:
            among = np.zeros(len(self), dtype=bool)
            among[self.positions(filters.ids)] = True
            allowed &= among
        allowed[self.positions(filters.exclude_ids)] = False
        allowed.flags.writeable = False
        return allowed


def _allowed_papers(table: pa.Table, filters: Filters) -> Bool[np.ndarray, " n_papers"]:
    allowed = allowed_papers(table, filters)
    allowed.flags.writeable = False
    return allowed


def _those_found(positions: Iterable[int | None]) -> Int64[np.ndarray, " n_found"]:
    return np.array([position for position in positions if position is not None], dtype=np.int64)
