"""The snapshot: one generation of a collection, open for reading; the service answers from it."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float16, Float32, Int8, Int64

from indexer.index.vector_index import JoinedIndex, VectorIndex
from indexer.snapshot.facet_rows import FacetRows, FilteredRows
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.sample import Samples
from indexer.snapshot.segment import FEW_IDS, Segment
from models.checksums import hashes64
from models.errors import PaperNotFoundError
from models.types import Facet, Filters, Paper, Unit, rows_of

if TYPE_CHECKING:
    from indexer.words.collection import CollectionWords

_NONE = np.empty(0, dtype=np.int64)
# Vectors of a segment, which of the wanted rows are among them, and their numbers there.
StoredRows = tuple[np.ndarray, Bool[np.ndarray, " n"], Int64[np.ndarray, " n_own"]]


class Snapshot:
    """One generation, open for reading.

    The ``position`` of a paper is its place among the papers of all segments in order; deleted papers keep
    their positions but are never returned. Rows, one per sentence vector, are numbered in the same way.
    """

    def __init__(
        self, manifest: Manifest, segments: Sequence[Segment], deleted: Sequence[Int64[np.ndarray, "..."]]
    ) -> None:
        self.manifest = manifest
        self.segments = tuple(segments)
        self.deleted = tuple(deleted)  # of each segment: the sorted positions in it of its deleted papers
        self._n_rows_of_each = [int(segment.vectors.offsets[-1]) for segment in segments]
        # Where the papers and the rows of each segment begin, and where the last ones end.
        self._starts: Int64[np.ndarray, " n_segments_plus_1"] = np.cumsum([0, *map(len, segments)])
        self._row_starts: Int64[np.ndarray, " n_segments_plus_1"] = np.cumsum([0, *self._n_rows_of_each])
        self.live: Bool[np.ndarray, " n_positions"] = np.ones(self._starts[-1], dtype=bool)
        for start, positions in zip(self._starts, self.deleted, strict=False):
            self.live[start + positions] = False
        self.live.flags.writeable = False
        self._n_papers = int(np.count_nonzero(self.live))

    @property
    def generation(self) -> str:
        """The name of this generation, which every answer contains."""
        return self.manifest.generation

    def __len__(self) -> int:
        return self._n_papers

    @property
    def n_rows(self) -> int:
        """The number of rows, including those of deleted papers."""
        return int(self._row_starts[-1])

    @property
    def away(self) -> frozenset[int]:
        """The numbers of the segments that cannot be searched now: none if all are in this process."""
        return frozenset()

    def papers_of(self, numbers: Collection[int]) -> Bool[np.ndarray, " n_positions"]:
        """Return which papers are in the segments with these numbers."""
        papers = np.zeros(len(self.live), dtype=bool)
        for number in numbers:
            papers[self._starts[number] : self._starts[number + 1]] = True
        return papers

    @cached_property
    def offsets(self) -> Int64[np.ndarray, " n_positions_plus_1"]:
        """The first row of each paper, and the end: paper i owns rows offsets[i]:offsets[i + 1]."""
        starts = zip(self.segments, self._row_starts, strict=False)
        own = [segment.vectors.offsets[:-1] + start for segment, start in starts]
        return np.concatenate([*own, self._row_starts[-1:]])

    @cached_property
    def paper_of_row(self) -> Int64[np.ndarray, " n_rows"]:
        """The position of the paper that owns each row."""
        return np.repeat(np.arange(len(self.live)), np.diff(self.offsets))

    def rows_of_papers(self, papers: Bool[np.ndarray, " n_positions"]) -> Bool[np.ndarray, " n_rows"]:
        """Return which rows belong to ``papers``, as a new array; those of the last filters are kept."""
        return self._filtered_rows.rows(papers)

    @cached_property
    def _filtered_rows(self) -> FilteredRows:
        return FilteredRows(self.offsets)

    @cached_property
    def live_rows(self) -> list[int]:
        """The number of rows of each segment that belong to papers that are not deleted."""
        lost = (
            own.vectors.offsets[places + 1] - own.vectors.offsets[places]
            for own, places in zip(self.segments, self.deleted, strict=True)
        )
        return [own.entry.n_rows - int(rows.sum()) for own, rows in zip(self.segments, lost, strict=True)]

    @cached_property
    def positions(self) -> Int64[np.ndarray, " n_papers"]:
        """The positions of all papers that are not deleted."""
        return np.flatnonzero(self.live)

    def paper(self, position: int, *, text: bool = True) -> Paper:
        """Return the paper at ``position``; without ``text``, its abstract and sentences are not read."""
        number, own = self._locate(position)
        return self.segments[number].paper(own, text=text)

    def find(self, paper_id: str) -> int | None:
        """Return the position of a paper, or ``None`` if it is not in the collection."""
        # Newest first: a paper that was replaced is in two segments.
        for number in range(len(self.segments) - 1, -1, -1):
            own = self.segments[number].position(paper_id)
            if own is not None and self.live[self._starts[number] + own]:
                return int(self._starts[number]) + own
        return None

    def position(self, paper_id: str) -> int:
        """Return the position of a paper; raises PaperNotFoundError."""
        if (position := self.find(paper_id)) is None:
            raise PaperNotFoundError("No paper of this collection has this id.")
        return position

    def find_all(self, paper_ids: Collection[str]) -> Int64[np.ndarray, " n_found"]:
        """Return the positions, in any order, of those of the papers that are in the collection."""
        ids, starts = list(paper_ids), zip(self.segments, self._starts, strict=False)
        hashes = hashes64(ids) if len(ids) > FEW_IDS else None
        found = np.concatenate([_NONE, *(start + own.positions(ids, hashes) for own, start in starts)])
        live: Int64[np.ndarray, " n_found"] = found[self.live[found]]
        return live

    def shared_with(
        self, segment: Segment, *, but: Int64[np.ndarray, " n_left_out"]
    ) -> Int64[np.ndarray, " n_shared"]:
        """Return the positions of papers, also deleted ones, with ids of ``segment`` except those ``but``."""
        starts = zip(self.segments, self._starts, strict=False)
        return np.concatenate([_NONE, *(start + own.shared_with(segment, but=but) for own, start in starts)])

    def content_hash(self, paper_id: str) -> str | None:
        """Return the content hash of a paper as it was given, or ``None`` if it is not in the collection."""
        if (position := self.find(paper_id)) is None:
            return None
        number, own = self._locate(position)
        return str(self.segments[number].column("content_hash")[own])

    def vectors(self, position: int) -> Float32[np.ndarray, "n_sentence dim"]:
        """Return the sentence vectors of one paper."""
        number, own = self._locate(position)
        packed = self.segments[number].vectors
        return packed.rows[packed.offsets[own] : packed.offsets[own + 1]].astype(np.float32)

    def function_vectors(self, position: int) -> Float16[np.ndarray, "n_sentence dim_functions"]:
        """Return the function vectors (unit length) of a paper's sentences; raises MissingVectorsError."""
        number, own = self._locate(position)
        segment = self.segments[number]
        start, end = segment.vectors.offsets[own : own + 2]
        return np.asarray(segment.function_vectors[start:end])

    def dropped_sentences(self, position: int) -> int:
        """Return how many of a paper's last sentences have no vectors, being beyond the token limit."""
        if self.manifest.encoder.unit is Unit.DOCUMENT:
            return 0
        return len(self.paper(position).sentences) - len(self.vectors(position))

    def gather(
        self, positions: Int64[np.ndarray, " k"]
    ) -> tuple[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]]:
        """Return the vectors of the papers at ``positions``, concatenated, with their offsets."""
        from indexer.index.backends.nearest import widened  # noqa: PLC0415 - loads numba, a second of start

        rows, offsets = rows_of(self.offsets, positions)
        found = self.stored(rows)
        if len(found) == 1:
            return widened(found[0][0], found[0][2]), offsets
        gathered = np.empty((len(rows), self.manifest.encoder.dim), dtype=np.float32)
        for stored, places, own in found:
            gathered[places] = widened(stored, own)
        return gathered, offsets

    def stored(self, rows: Int64[np.ndarray, " n"]) -> list[StoredRows]:
        """Return the stored vectors in which each of the ``rows`` is, for each segment that has some."""
        return [(self.segments[n].vectors.rows, own, its) for n, own, its in self._rows_by_segment(rows)]

    def _rows_by_segment(
        self, rows: Int64[np.ndarray, " n"]
    ) -> Iterator[tuple[int, Bool[np.ndarray, " n"], Int64[np.ndarray, " n_own"]]]:
        """Yield each segment with some of the ``rows``, which of them, and their places in the segment."""
        for number, (first, last) in enumerate(pairwise(self._row_starts.tolist())):
            places = (rows >= first) & (rows < last)
            if places.any():
                yield number, places, rows[places] - first

    @cached_property
    def index(self) -> VectorIndex | JoinedIndex:
        """The nearest-neighbour index over all rows, including those of deleted papers."""
        return self._joined([segment.index for segment in self.segments])

    @cached_property
    def function_index(self) -> VectorIndex | JoinedIndex:
        """The nearest-neighbour index over all function vectors; raises MissingVectorsError."""
        return self._joined([segment.function_index for segment in self.segments])

    def _joined(self, indexes: Sequence[VectorIndex]) -> VectorIndex | JoinedIndex:
        return indexes[0] if len(indexes) == 1 else JoinedIndex.of(indexes, self._n_rows_of_each)

    def sample(self, n_papers: int, *having: Collection[Facet]) -> Int64[np.ndarray, " k"]:
        """Return the positions of ``n_papers`` papers (at most MAX_SAMPLED), or of all if there are fewer.

        They are the papers whose ids have the smallest hashes, among papers with a sentence of each set of
        facets in ``having``: the same papers in the same order, however the collection was built. Adding or
        removing one paper changes at most one of them.
        """
        if having:
            return self._samples.having(having, self.papers_of_facets)[:n_papers]
        return self._samples.of_all[:n_papers]

    @cached_property
    def _samples(self) -> Samples:
        return Samples([segment.id_hashes for segment in self.segments], self.live)

    def sample_vectors(
        self, n_papers: int
    ) -> tuple[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]]:
        """Return the result of ``gather`` for the first ``n_papers`` of ``sample``, kept in memory."""
        rows, offsets = self._sampled_vectors
        offsets = offsets[: n_papers + 1]
        return rows[: offsets[-1]], offsets

    @cached_property
    def _sampled_vectors(self) -> tuple[Float32[np.ndarray, "n_rows dim"], Int64[np.ndarray, " k_plus_1"]]:
        return self.gather(self._samples.of_all)

    @cached_property
    def words(self) -> "CollectionWords | None":
        """The words of the papers; ``None`` if a segment was made before words were stored."""
        from indexer.words.collection import CollectionWords  # noqa: PLC0415 - loads numba

        own = [words for segment in self.segments if (words := segment.words) is not None]
        return CollectionWords(own, self._by_segment(self.live)) if len(own) == len(self.segments) else None

    @cached_property
    def row_facets(self) -> Int8[np.ndarray, " n_rows"]:
        """The facet of each row's sentence, as its position in FACETS; NO_FACET for a whole paper's row."""
        return np.concatenate([np.empty(0, np.int8), *(segment.row_facets for segment in self.segments)])

    @cached_property
    def _facet_rows(self) -> FacetRows:
        return FacetRows(self.row_facets, self.paper_of_row, len(self.live))

    def rows_of_facets(self, facets: Collection[Facet]) -> Bool[np.ndarray, " n_rows"]:
        """Return which rows have any of the ``facets``; read-only; stated aims count as background."""
        return self._facet_rows.rows(facets)

    def papers_of_facets(self, facets: Collection[Facet]) -> Bool[np.ndarray, " n_positions"]:
        """Return which papers, also deleted ones, have a row of any of the ``facets``; read-only."""
        return self._facet_rows.papers(facets)

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column of the papers by position, null for deleted papers; see ``columns.py``."""
        chunks: list[pa.Array] = []
        for segment, live in zip(self.segments, self._by_segment(self.live), strict=True):
            own = segment.column(name)
            chunks += (own if live.all() else pa.compute.if_else(pa.array(live), own, None)).chunks
        return pa.chunked_array(chunks, type=None if chunks else pa.string())

    def values(self, name: str, positions: Int64[np.ndarray, " k"]) -> list[Any]:
        """Return one column of the papers at ``positions``, in that order; see ``columns.py``."""
        values = np.empty(len(positions), dtype=object)
        for segment, start, end in zip(self.segments, self._starts, self._starts[1:], strict=False):
            own = np.flatnonzero((positions >= start) & (positions < end))
            values[own] = segment.values(name, positions[own] - start)
        return list(values)

    def allowed_papers(self, filters: Filters) -> Bool[np.ndarray, " n_positions"]:
        """Return which papers are not deleted and pass ``filters``; read-only, as callers may share it."""
        own = [segment.allowed_papers(filters) for segment in self.segments]
        if len(own) == 1 and len(self) == len(self.live):
            return own[0]
        allowed: Bool[np.ndarray, " n_positions"] = np.concatenate([np.empty(0, bool), *own]) & self.live
        allowed.flags.writeable = False
        return allowed

    def kept(self, number: int) -> Int64[np.ndarray, " n_kept"]:
        """Return the positions, in the segment with this number, of its papers that are not deleted."""
        return np.flatnonzero(self.live[self._starts[number] : self._starts[number + 1]])

    def _by_segment(self, flags: Bool[np.ndarray, " n_positions"]) -> list[Bool[np.ndarray, "..."]]:
        return np.split(flags, self._starts[1:-1])[: len(self.segments)]

    def _locate(self, position: int) -> tuple[int, int]:
        """Return the number of the segment of a ``position``, and the position in that segment."""
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        return number, position - int(self._starts[number])
