"""A segment: the immutable files that hold a run of papers, their vectors and the index over them.

vectors.npy      (n_rows, dim) float16 or float32; this order is the index's row order
offsets.npy      (n_papers + 1,) int64; paper i owns rows offsets[i]:offsets[i + 1]
papers.arrow     text and metadata, one row a paper
ids.npy          (n_papers,) hashes of the paper ids, sorted, with their positions
index.bin        what the index backend saved
functions.npy    (n_rows, dim_functions) float16, where there is an encoder of functions: row i is what the
                 sentence of row i of vectors.npy does
functions.bin    what the backend of the index over them saved
words.arrow      the words of its papers: indexer/words/file.py; those made before it lack it
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float16, Int8, Int64, UInt64

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
# So few ids are looked up one by one, at 9 us each; many at once take 2 us each, after 2 ms for any number.
FEW_IDS = 100


class Segment:
    """One segment, open for reading: memory-mapped, its checksums already compared.

    ``unit`` is what each row of its vectors stands for, ``effort`` how many times as hard as usual its index
    is searched. Which of its papers are deleted is not its concern: it serves several generations.
    """

    def __init__(
        self, folder: Path, entry: SegmentEntry, *, unit: Unit, device: str, effort: float = 1.0
    ) -> None:
        self._folder = folder
        self.entry = entry
        self._unit = unit
        self._device = device
        self._effort = effort
        offsets = np.asarray(np.load(folder / OFFSETS, mmap_mode="r"))
        self.vectors = PackedVectors(np.load(folder / VECTORS, mmap_mode="r"), offsets)
        self._table = pa.ipc.open_file(pa.memory_map(str(folder / PAPERS))).read_all()
        self._columns = Columns(self._table)
        self._ids = np.load(folder / IDS, mmap_mode="r")
        # Nothing in it leads back to this segment, whose files are closed as soon as nobody uses it.
        self._allowed = lru_cache(maxsize=64)(partial(_allowed_papers, self._table))

    def __len__(self) -> int:
        return self.entry.n_papers

    def serves(self, entry: SegmentEntry, *, effort: float) -> bool:
        """Whether it is the segment of ``entry``, searched as hard."""
        return entry.is_same_as(self.entry) and effort == self._effort

    def itself(self) -> "Segment":
        """This segment, for whoever would open it otherwise."""
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
        """What the sentence of each row does, as unit vectors; raises MissingVectorsError."""
        if not self.has_functions:
            raise MissingVectorsError(
                "This collection has no function vectors; index the corpus again with an encoder that has a "
                "function encoder, such as minilm."
            )
        vectors: np.ndarray = np.load(self._folder / FUNCTIONS, mmap_mode="r")
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
        """The size of its files; raises StorageError."""
        return self.entry.size_in(self._folder)

    @cached_property
    def words(self) -> SegmentWords | None:
        """The words of its papers; ``None`` where it was made before they were kept."""
        return open_words(self._folder / WORDS) if WORDS in self.entry.files else None

    @property
    def has_words_of_today(self) -> bool:
        """Whether it has the words of its papers, counted by today's rules."""
        return self.words is not None and self.words.is_of_today

    @property
    def has_functions(self) -> bool:
        """Whether its sentences have function vectors."""
        return self.entry.function_backend is not None

    def column(self, name: str) -> pa.ChunkedArray:
        """One column of the papers, in order; indexer/snapshot/columns.py names them."""
        return self._table[name]

    def table(self, positions: Int64[np.ndarray, " n"]) -> pa.Table:
        """All columns of the papers at ``positions``, in that order."""
        return self._columns.take(positions)

    def ids(self, positions: Int64[np.ndarray, " n"]) -> list[str]:
        """The ids of the papers at ``positions``, in that order."""
        ids: list[str] = self._columns.take(positions, ["id"])["id"].to_pylist()
        return ids

    def paper(self, position: int, *, text: bool = True) -> Paper:
        """The paper at ``position`` (0 <= position < len(self)), with its ``text`` or without."""
        return self._columns.paper(position, text=text)

    def position(self, paper_id: str) -> int | None:
        """Where a paper stands, or ``None`` where it is not in this segment."""
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
        """Where those of the papers stand that are in this segment, in any order.

        ``hashes`` of the ids spare hashing them in each of several segments.
        """
        ids = list(paper_ids)
        if len(ids) <= FEW_IDS:
            return _those_found(map(self.position, ids))
        places, likely = self._with_hashes(hashes64(ids) if hashes is None else hashes)
        likely = likely[np.argsort(self._ids["position"][places[likely]])]  # batch by batch
        positions = self._ids["position"][places[likely]]
        names = self._columns.take(positions, ["id"])["id"].to_pylist()
        return _those_found(
            # Where another id has the same hash, the papers after it are tried.
            int(position) if name == ids[i] else self.position(ids[i])
            for i, position, name in zip(likely, positions, names, strict=True)
        )

    def shared_with(
        self, other: "Segment", *, but: Int64[np.ndarray, " n_left_out"]
    ) -> Int64[np.ndarray, " n_shared"]:
        """Where those papers stand whose ids ``other`` has too, in any order, ``but`` for some of ``other``.

        Those are given by where they stand there. The stored hashes are compared: no id is hashed for it.
        """
        _, likely = self._with_hashes(other.id_hashes["hash"])
        return self.positions(other.ids(np.setdiff1d(other.id_hashes["position"][likely], but)))

    def _with_hashes(
        self, hashes: UInt64[np.ndarray, " n"]
    ) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n_likely"]]:
        """Where each of ``hashes`` would stand among those of the ids, and which of them do stand there."""
        places = np.minimum(np.searchsorted(self._ids["hash"], hashes), len(self) - 1)
        return places, np.flatnonzero(self._ids["hash"][places] == hashes)

    @property
    def id_hashes(self) -> np.ndarray:
        """Hash of the id and position of each paper (ID_HASHES), by hash."""
        hashes: np.ndarray = self._ids
        return hashes

    def versions(self, wanted: Mapping[str, str]) -> Int64[np.ndarray, " n_found"]:
        """Where those of the versions stand, given by paper id and content hash, that are in this segment."""
        positions = np.sort(self.positions(wanted))
        found = self._columns.take(positions, ["id", "content_hash"])
        ids, hashes = (found[name].to_pylist() for name in ("id", "content_hash"))
        same = [wanted[key] == digest for key, digest in zip(ids, hashes, strict=True)]
        versions: Int64[np.ndarray, " n_found"] = positions[np.array(same, dtype=bool)]
        return versions

    def allowed_papers(self, filters: Filters) -> Bool[np.ndarray, " n_papers"]:
        """Which papers pass ``filters``; the array may be shared between callers and is read-only.

        What filters on ids leave is worked out anew each time, from that of the others, which is remembered:
        each query paper excludes itself.
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
