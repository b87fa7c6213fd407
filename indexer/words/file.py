"""The word index of one segment: a memory-mapped file.

words.arrow, one row of lists:
  words            hashes of the stems that occur in the segment, ascending; a stem's place here is its number
  paper_starts     paper i owns cells paper_starts[i]:paper_starts[i + 1]
  numbers, counts  the stem of each cell, ascending within a paper, and its count in the paper, up to 255
  word_starts      stem i owns postings word_starts[i]:word_starts[i + 1]
  papers, times    the paper of each posting, ascending within a stem, and the count of the stem in it
The schema's metadata names the rules of models/text/words.py by which the words were counted.
"""

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64, UInt8, UInt32, UInt64

from models.checksums import hashes64
from models.text.words import RULES, WordCounts, count_words
from models.types import rows_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

WORDS: Final = "words.arrow"
MAX_COUNT: Final = 255
_PAPERS_AT_ONCE: Final = 1_024
_CELLS_AT_ONCE: Final = 1 << 18
_RULES_KEY: Final = b"rules"


@dataclass(frozen=True, slots=True, eq=False)
class SegmentWords:
    """The words of one segment, as in its file."""

    words: UInt64[np.ndarray, " n_words"]
    paper_starts: Int64[np.ndarray, " n_papers_plus_1"]
    numbers: UInt32[np.ndarray, " n_cells"]
    counts: UInt8[np.ndarray, " n_cells"]
    word_starts: Int64[np.ndarray, " n_words_plus_1"]
    papers: UInt32[np.ndarray, " n_cells"]
    times: UInt8[np.ndarray, " n_cells"]
    rules: str = field(kw_only=True)

    def __post_init__(self) -> None:
        """Make all lists read-only, as if read from a file: loops are compiled for that kind only."""
        for name in _LISTS:
            getattr(self, name).setflags(write=False)

    @property
    def has_current_rules(self) -> bool:
        """Whether the words were counted by the current rules."""
        return self.rules == RULES

    def frequencies(self, live: Bool[np.ndarray, " n_papers"]) -> Int64[np.ndarray, " n_words"]:
        """Return the document frequency of each stem, among the ``live`` papers."""
        frequencies: Int64[np.ndarray, " n_words"] = np.diff(self.word_starts)
        gone = np.flatnonzero(~live)
        if len(gone):
            cells, _ = rows_of(self.paper_starts, gone)
            frequencies = frequencies - np.bincount(self.numbers[cells], minlength=len(self.words))
        return frequencies


_LISTS: Final = tuple(each.name for each in fields(SegmentWords) if not each.kw_only)


class KeptWords(NamedTuple):
    """The words of the papers at ``positions`` of a segment, counted by the current rules."""

    words: SegmentWords
    positions: Int64[np.ndarray, " n_papers"]


def open_words(path: Path) -> SegmentWords:
    """Open the words in a file, memory-mapped; compare its checksum first."""
    row = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    rules = (row.schema.metadata or {}).get(_RULES_KEY, b"1").decode()
    return SegmentWords(*(np.asarray(row.column(name).values) for name in _LISTS), rules=rules)


def write_words(path: Path, words: SegmentWords) -> None:
    """Write words to ``path``."""
    row = pa.record_batch({name: _listed(getattr(words, name)) for name in _LISTS})
    row = row.replace_schema_metadata({_RULES_KEY: words.rules})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, row.schema) as writer:
        writer.write_batch(row)


def words_in(papers: Path) -> SegmentWords:
    """Count the words of ``papers``, a file of columns; temporary files are in its folder."""
    with pa.memory_map(str(papers)) as source:
        table = pa.ipc.open_file(source).read_all().select(["title", "abstract"])
        return words_of(_counted(table), papers.parent)


def words_of(
    papers: Iterable[WordCounts], folder: Path | None = None, *, at_once: int = _CELLS_AT_ONCE
) -> SegmentWords:
    """Return the words of papers, given the counts of the stems of each.

    Arrays that grow with the papers are memory-mapped temporary files in ``folder`` (default: the system's
    folder), so that the system can reclaim their memory. ``at_once`` cells, or those of one paper, are sorted
    in memory at a time. Raises OSError.
    """
    return _sorted_words(partial(_spooled, papers), folder, at_once)


def merged_words(
    kept: Sequence[KeptWords], folder: Path | None = None, *, at_once: int = _CELLS_AT_ONCE
) -> SegmentWords:
    """Return the words of the papers that are kept of segments, as ``words_of`` without counting again."""
    return _sorted_words(partial(_spooled_again, kept), folder, at_once)


_Spooled = tuple[UInt64[np.ndarray, " n_words"], Int64[np.ndarray, " n_papers_plus_1"]]


def _sorted_words(
    spool: Callable[[IO[bytes], IO[bytes]], _Spooled], folder: Path | None, at_once: int
) -> SegmentWords:
    """Return the words of the cells that ``spool`` writes to a file of numbers and one of counts.

    ``spool`` returns the hash of each number, and where the cells of each paper begin.
    """
    with TemporaryFile(dir=folder) as numbers_file, TemporaryFile(dir=folder) as counts_file:
        hashes, starts = spool(numbers_file, counts_file)
        numbers = _mapped(numbers_file, np.dtype(np.int32))
        counts = _mapped(counts_file, np.dtype(np.uint8))
    blocks = [(block, slice(starts[block.start], starts[block.stop])) for block in _blocks(starts, at_once)]
    times = np.zeros(len(hashes), dtype=np.int64)  # the document frequency of each stem
    for _, cells in blocks:
        times += np.bincount(numbers[cells], minlength=len(hashes))
    order = np.argsort(hashes)
    order = order[times[order] > 0]
    place = np.empty(len(hashes), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    word_starts = np.concatenate([[0], np.cumsum(times[order])])
    by_word = [_temporary_array(len(numbers), np.dtype(dtype), folder) for dtype in (np.uint32, np.uint8)]
    following = word_starts[:-1].copy()  # where the next paper of each stem goes
    for block, cells in blocks:
        own = _matrix(place[numbers[cells]], counts[cells], starts[block.start : block.stop + 1], len(order))
        numbers[cells], counts[cells] = own.indices, own.data
        turned = own.tocsc()
        lengths = np.diff(turned.indptr)
        places = np.arange(len(turned.indices)) + np.repeat(following - turned.indptr[:-1], lengths)
        by_word[0][places], by_word[1][places] = turned.indices + block.start, turned.data
        following += lengths
    return SegmentWords(
        hashes[order], starts, numbers.view(np.uint32), counts, word_starts, *by_word, rules=RULES
    )


def _spooled(papers: Iterable[WordCounts], numbers_file: IO[bytes], counts_file: IO[bytes]) -> _Spooled:
    """Write the cells of papers, with stems numbered in order of occurrence."""
    known: defaultdict[str, int] = defaultdict(count().__next__)
    lengths = array("q", [0])
    for counted in papers:
        numbers_file.write(array("i", map(known.__getitem__, counted)).tobytes())
        counts_file.write(_bounded(counted.values()))
        lengths.append(len(counted))
    hashes = hashes64(known)
    return hashes, np.cumsum(np.frombuffer(lengths, np.int64))


def _spooled_again(kept: Sequence[KeptWords], numbers_file: IO[bytes], counts_file: IO[bytes]) -> _Spooled:
    """Write the cells of papers of segments, with stems numbered by hash; some may occur in none of them."""
    runs = [(words, list(run)) for words, run in groupby(kept, key=attrgetter("words"))]
    hashes = np.unique(np.concatenate([words.words for words, _ in runs]))
    lengths: list[Int64[np.ndarray, ...]] = [np.zeros(1, dtype=np.int64)]
    for words, run in runs:
        places = np.searchsorted(hashes, words.words).astype(np.int32)
        for _, positions in run:
            cells, starts = rows_of(words.paper_starts, positions)
            numbers_file.write(places[words.numbers[cells]].tobytes())
            counts_file.write(words.counts[cells].tobytes())
            lengths.append(np.diff(starts))
    return hashes, np.cumsum(np.concatenate(lengths))


def _mapped(stream: IO[bytes], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the content of a file as an array mapped into memory."""
    stream.flush()
    n = stream.tell() // dtype.itemsize
    return np.memmap(stream, dtype, "r+", shape=(n,)) if n else np.empty(0, dtype)


def _temporary_array(n: int, dtype: np.dtype[Any], folder: Path | None) -> np.ndarray:
    """Map a temporary file of zeros; they are written first, as a full disk would else kill the process."""
    with TemporaryFile(dir=folder) as stream:
        for start in range(0, n, _CELLS_AT_ONCE):
            stream.write(bytes(min(_CELLS_AT_ONCE, n - start) * dtype.itemsize))
        return _mapped(stream, dtype)


def _blocks(starts: Int64[np.ndarray, " n_papers_plus_1"], at_once: int) -> list[slice]:
    """Return runs of papers with at most ``at_once`` cells together, or with one paper that has more."""
    blocks, first = [], 0
    while first < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[first] + at_once, side="right")) - 1
        blocks.append(slice(first, max(end, first + 1)))
        first = blocks[-1].stop
    return blocks


def _matrix(
    numbers: np.ndarray,
    counts: UInt8[np.ndarray, " n_cells"],
    starts: Int64[np.ndarray, " n_papers_plus_1"],
    n_words: int,
) -> "csr_array":
    """Return cells as a matrix with a row per paper, its stems ascending."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - a third of a second of every command's start

    own_starts = (starts - starts[0]).astype(np.int32)
    matrix = csr_array((np.array(counts), numbers, own_starts), shape=(len(starts) - 1, n_words))
    matrix.sort_indices()
    return matrix


def _bounded(times: Collection[int]) -> bytes:
    """Return one byte per count, at most ``MAX_COUNT``."""
    try:
        return bytes(times)
    except ValueError:
        return bytes(min(each, MAX_COUNT) for each in times)


def _counted(table: pa.Table) -> Iterator[WordCounts]:
    for batch in table.to_batches(max_chunksize=_PAPERS_AT_ONCE):
        columns = (batch.column(name).to_pylist() for name in ("title", "abstract"))
        yield from (count_words(title, abstract) for title, abstract in zip(*columns, strict=True))


def _listed(values: np.ndarray) -> pa.Array:
    """Return an array with one list of all ``values``."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), pa.array(values))
