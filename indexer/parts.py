"""The parts of an unfinished build: up to 1,000 papers each, their columns and then what is computed of them.

DATA/building/corpus/
  read.json            what was read, from which files and how; written when reading is done
  part-00000.arrow     the papers of a part
  vectors-DIGEST/      the vectors and facets of a part, whole once the folder is there; the digest covers the
                       papers and every model, so nothing stale is ever taken up; files.json has the SHA-256
                       of each file, so nothing damaged either
"""

import hashlib
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float16, Int64

from indexer.columns import SCHEMA, paper_at, papers_to_table
from indexer.corpus import CorpusReport
from indexer.durable import discard_folder, publish_folder, write_array
from indexer.embed import EmbeddedPapers, embed
from indexer.generations import compare_files
from indexer.notes import read_note, write_note
from indexer.versions import check
from models.annotator import Annotator
from models.checksums import sha256_of
from models.errors import SnapshotCorruptError
from models.language import language_of
from models.types import Paper, Precision, ProgressFn

PART_PAPERS = 1_000
_ROWS, _OFFSETS, _FACETS, _FUNCTIONS = "rows.npy", "offsets.npy", "facets.npy", "functions.npy"
_FILES = "files.json"


@dataclass(frozen=True, slots=True)
class Part:
    """The papers of one part, in the file ``name``; ``sha256`` (hex) is that of the file."""

    name: str
    sha256: str
    n_papers: int
    n_sentences: int


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """What a segment takes from one part: the columns in ``papers``, and what was computed, in ``folder``.

    ``reused`` when an earlier run had computed it. Every method reads from the disk.
    """

    papers: Path
    folder: Path
    n_rows: int
    reused: bool

    def rows(self) -> np.ndarray:
        """Sentence vectors, (n_rows, dim)."""
        return np.asarray(np.load(self.folder / _ROWS))

    def offsets(self) -> Int64[np.ndarray, " n_papers_plus_1"]:
        """Where each paper's rows begin and end, as in ``PackedVectors``."""
        return np.asarray(np.load(self.folder / _OFFSETS))

    @property
    def has_functions(self) -> bool:
        """Whether there was an encoder of functions."""
        return (self.folder / _FUNCTIONS).is_file()

    def functions(self) -> Float16[np.ndarray, "n_rows dim_functions"]:
        """Function vectors, where there are some."""
        return np.asarray(np.load(self.folder / _FUNCTIONS))

    def table(self) -> pa.Table:
        """The papers' columns, every sentence with a facet: the corpus's own, else the tagger's."""
        table = _read_table(self.papers)
        facets = pa.ListArray.from_arrays(
            table["starts"].combine_chunks().offsets, pa.array(np.load(self.folder / _FACETS))
        )
        field = SCHEMA.get_field_index("facets")
        return table.set_column(field, SCHEMA.field(field), facets)


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a corpus held besides usable papers; ``examples`` are the first messages.

    ``duplicates`` are among the ``broken``.
    """

    broken: int
    duplicates: int
    without_abstract: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """The outcome of reading: the parts, what was refused, and how many abstracts are in other languages.

    ``unchanged`` papers are in the collection as they were read, and in no part.
    """

    key: str
    parts: tuple[Part, ...]
    refusals: Refusals
    languages: dict[str, int]
    unchanged: int

    @property
    def n_papers(self) -> int:
        """Papers in all parts."""
        return sum(part.n_papers for part in self.parts)


def read_into_parts(
    papers: Iterable[Paper],
    folder: Path,
    *,
    key: str,
    report: CorpusReport,
    is_unchanged: Callable[[Paper], bool],
    on_part: Callable[[int], None],
) -> Reading:
    """Write ``papers`` but the unchanged ones to ``folder``, part by part; ``report`` fills meanwhile.

    ``key`` names what is being read and how: ``finished_reading`` finds the outcome under it. ``on_part`` is
    told how many papers each part has. Raises InputError for a paper that the catalog would refuse.
    """
    parts: list[Part] = []
    languages: Counter[str] = Counter()
    unchanged = 0

    def changed() -> Iterator[Paper]:
        nonlocal unchanged
        for paper in papers:
            if is_unchanged(paper):
                unchanged += 1
            else:
                check(paper)
                yield paper

    for number, run in enumerate(_runs(changed())):
        parts.append(_write_part(folder / f"part-{number:05d}.arrow", run))
        languages.update(language_of(paper.abstract) for paper in run)
        on_part(len(run))
    del languages["en"]
    examples = tuple(str(row) for row in report.broken_rows)
    refusals = Refusals(report.broken, report.duplicates, report.without_abstract, examples)
    reading = Reading(key, tuple(parts), refusals, dict(languages.most_common()), unchanged)
    write_note(folder / "read.json", asdict(reading))
    return reading


def finished_reading(folder: Path, key: str) -> Reading | None:
    """The outcome of an earlier run's reading under ``key``, if it came to its end and is still whole."""
    content = read_note(folder / "read.json")
    if not content:
        return None
    parts = tuple(Part(**part) for part in content["parts"])
    if content["key"] != key or not all(_is_whole(folder, part) for part in parts):
        return None
    refusals = Refusals(**{**content["refusals"], "examples": tuple(content["refusals"]["examples"])})
    return Reading(key, parts, refusals, content["languages"], content["unchanged"])


def papers_of(folder: Path, reading: Reading) -> Iterator[Paper]:
    """The papers of all parts as they were read, without the facets of a tagger."""
    for part in reading.parts:
        table = _read_table(folder / part.name)
        for position in range(len(table)):
            yield paper_at(table, position)


def _is_whole(folder: Path, part: Part) -> bool:
    path = folder / part.name
    return path.is_file() and sha256_of(path) == part.sha256


def encode_parts(
    folder: Path,
    reading: Reading,
    annotator: Annotator,
    *,
    dtype: str,
    precision: Precision,
    on_progress: ProgressFn,
) -> list[EncodedPart]:
    """The vectors and facets of every part, those computed now that an earlier run did not."""
    done = 0

    def advance(n_papers: int) -> None:
        nonlocal done
        done += n_papers
        on_progress("Encoding", done, reading.n_papers)

    return [
        _encode_part(folder, part, annotator, dtype=dtype, precision=precision, on_progress=advance)
        for part in reading.parts
    ]


def _encode_part(
    folder: Path,
    part: Part,
    annotator: Annotator,
    *,
    dtype: str,
    precision: Precision,
    on_progress: Callable[[int], None],
) -> EncodedPart:
    """The vectors and facets of a part, computed now unless an earlier run did."""
    functions = annotator.function_spec
    decisive = (
        part.sha256,
        annotator.encoder.spec.fingerprint,
        precision,
        dtype,
        annotator.tagger.spec.fingerprint,
        None if functions is None else functions.fingerprint,
    )
    done = folder / f"vectors-{hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]}"
    reused = _is_kept(done)
    if reused:
        on_progress(part.n_papers)
    else:
        discard_folder(done)
        table = _read_table(folder / part.name)
        papers = [paper_at(table, position) for position in range(len(table))]
        _keep(done, embed(papers, annotator, dtype=dtype, on_progress=on_progress))
    return EncodedPart(folder / part.name, done, int(np.load(done / _OFFSETS)[-1]), reused)


def _read_table(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _is_kept(done: Path) -> bool:
    """Whether an earlier run kept what it computed of a part, and it is as it was kept."""
    files = read_note(done / _FILES)
    try:
        compare_files(done, files)
    except SnapshotCorruptError:
        return False
    return bool(files)


def _keep(done: Path, embedded: EmbeddedPapers) -> None:
    prepared = done.with_name("unfinished")
    shutil.rmtree(prepared, ignore_errors=True)
    prepared.mkdir()
    arrays = {
        _ROWS: embedded.vectors.rows,
        _OFFSETS: embedded.vectors.offsets,
        _FACETS: embedded.facets,
        _FUNCTIONS: embedded.functions,
    }
    for name, array in arrays.items():
        if array is not None:
            write_array(prepared / name, [array], shape=array.shape, dtype=array.dtype)
    write_note(prepared / _FILES, {path.name: sha256_of(path) for path in sorted(prepared.iterdir())})
    publish_folder(prepared, done)


def _runs(papers: Iterable[Paper]) -> Iterator[list[Paper]]:
    iterator = iter(papers)
    while run := list(itertools.islice(iterator, PART_PAPERS)):
        yield run


def _write_part(path: Path, papers: Sequence[Paper]) -> Part:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_table(papers_to_table(papers))
    return Part(path.name, sha256_of(path), len(papers), sum(len(paper.sentences) for paper in papers))
