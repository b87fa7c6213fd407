"""The words of one segment: a file that is written with it and memory-mapped.

words.arrow, one row of lists:
  words            hashes of the stems that occur in the segment, ascending; a stem's place here is its number
  paper_starts     paper i owns cells paper_starts[i]:paper_starts[i + 1]
  numbers, counts  of each cell a stem, ascending within a paper, and how often it counts there, up to 255
  word_starts      stem i owns postings word_starts[i]:word_starts[i + 1]
  papers, times    of each posting a paper, ascending within a stem, and how often the stem counts there
Its schema says by which rules of models/text/words.py the words were counted.
"""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64, UInt8, UInt32, UInt64
from scipy.sparse import csr_array

from models.checksums import hash64
from models.text.words import RULES, WordCounts, count_words
from models.types import rows_of

WORDS: Final = "words.arrow"
MOST_COUNTED: Final = 255
_PAPERS_AT_ONCE: Final = 1_024
_CELLS_AT_ONCE: Final = 1 << 20
_RULES_KEY: Final = b"rules"


@dataclass(frozen=True, slots=True, eq=False)
class SegmentWords:
    """The words of one segment, as its file has them."""

    words: UInt64[np.ndarray, " n_words"]
    paper_starts: Int64[np.ndarray, " n_papers_plus_1"]
    numbers: UInt32[np.ndarray, " n_cells"]
    counts: UInt8[np.ndarray, " n_cells"]
    word_starts: Int64[np.ndarray, " n_words_plus_1"]
    papers: UInt32[np.ndarray, " n_cells"]
    times: UInt8[np.ndarray, " n_cells"]
    rules: str = field(kw_only=True)

    @property
    def is_of_today(self) -> bool:
        """Whether they were counted by today's rules."""
        return self.rules == RULES

    def frequencies(self, living: Bool[np.ndarray, " n_papers"]) -> Int64[np.ndarray, " n_words"]:
        """In how many of the ``living`` papers each stem occurs."""
        frequencies: Int64[np.ndarray, " n_words"] = np.diff(self.word_starts)
        gone = np.flatnonzero(~living)
        if len(gone):
            cells, _ = rows_of(self.paper_starts, gone)
            frequencies = frequencies - np.bincount(self.numbers[cells], minlength=len(self.words))
        return frequencies


_LISTS: Final = tuple(each.name for each in fields(SegmentWords) if not each.kw_only)


def open_words(path: Path) -> SegmentWords:
    """The words in a file, memory-mapped; compare its checksum first."""
    row = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    rules = (row.schema.metadata or {}).get(_RULES_KEY, b"1").decode()
    return SegmentWords(*(np.asarray(row.column(name).values) for name in _LISTS), rules=rules)


def write_words(path: Path, papers: Path) -> None:
    """Write the words of ``papers``, a file of columns."""
    with pa.memory_map(str(papers)) as source:
        table = pa.ipc.open_file(source).read_all().select(["title", "abstract"])
        words = words_of(_counted(table))
    row = pa.record_batch({name: _listed(getattr(words, name)) for name in _LISTS})
    row = row.replace_schema_metadata({_RULES_KEY: words.rules})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, row.schema) as writer:
        writer.write_batch(row)


def words_of(papers: Iterable[WordCounts]) -> SegmentWords:
    """The words of papers, given by how often each stem counts."""
    known: defaultdict[str, int] = defaultdict(count().__next__)  # stems in the order in which they are met
    numbers, counts, lengths = array("i"), array("B"), array("q", [0])
    for counted in papers:
        numbers.extend(map(known.__getitem__, counted))
        counts.frombytes(_bounded(counted.values()))
        lengths.append(len(counted))
    hashes = np.fromiter(map(hash64, known), dtype=np.uint64, count=len(known))
    order = np.argsort(hashes)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    cells = np.frombuffer(numbers, np.int32)
    for start in range(0, len(cells), _CELLS_AT_ONCE):
        cells[start : start + _CELLS_AT_ONCE] = place[cells[start : start + _CELLS_AT_ONCE]]
    shape = (len(lengths) - 1, len(order))
    starts = np.cumsum(np.frombuffer(lengths, np.int64))
    if len(cells) <= np.iinfo(np.int32).max:  # then scipy numbers all by 32 bits
        starts = starts.astype(np.int32)
    by_paper = csr_array((np.frombuffer(counts, np.uint8), cells, starts), shape=shape)
    by_paper.sort_indices()  # in place: with what follows, ten bytes a cell in all
    by_word = by_paper.tocsc()
    return SegmentWords(
        hashes[order],
        by_paper.indptr.astype(np.int64),
        by_paper.indices.astype(np.int32, copy=False).view(np.uint32),
        by_paper.data,
        by_word.indptr.astype(np.int64),
        by_word.indices.astype(np.int32, copy=False).view(np.uint32),
        by_word.data,
        rules=RULES,
    )


def _bounded(times: Collection[int]) -> bytes:
    """One byte each."""
    try:
        return bytes(times)
    except ValueError:
        return bytes(min(each, MOST_COUNTED) for each in times)


def _counted(table: pa.Table) -> Iterator[WordCounts]:
    for batch in table.to_batches(max_chunksize=_PAPERS_AT_ONCE):
        columns = (batch.column(name).to_pylist() for name in ("title", "abstract"))
        yield from (count_words(title, abstract) for title, abstract in zip(*columns, strict=True))


def _listed(values: np.ndarray) -> pa.Array:
    """One list that holds all ``values``."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), pa.array(values))
