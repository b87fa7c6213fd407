"""Reading: a corpus, or the papers of a catalog, into parts of up to 1,000 papers on the disk.

DATA/building/corpus/
  part-00000.arrow     the papers of a part
  read-00000.json      how far reading had come when a part was full; who was stopped goes on from there
  read.json            what was read, from which files and how; written when reading is done
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from indexer.catalog.catalog import Catalog
from indexer.catalog.versions import check
from indexer.corpus.read import CorpusReport
from indexer.files.notes import read_note, write_note
from indexer.snapshot.columns import SCHEMA, paper_at, papers_to_table
from models.checksums import is_whole, sha256_of
from models.language import other_language
from models.types import Paper


@dataclass(frozen=True, slots=True)
class PartBounds:
    """Where a part ends: at so many ``papers`` in it, or so many ``read``, where nearly all are unchanged."""

    papers: int = 1_000
    read: int = 20_000


PARTS: Final = PartBounds()


@dataclass(frozen=True, slots=True)
class Part:
    """The papers of one part, in the file ``name``; ``sha256`` (hex) is that of the file."""

    name: str
    sha256: str
    n_papers: int
    n_sentences: int


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


@dataclass(slots=True)
class UnfinishedReading:
    """How far reading has come: what ``Reading`` says so far, and the ``report`` of what was looked at.

    ``n_notes`` of the files that say so are there; what is read next goes behind them.
    """

    folder: Path
    key: str
    parts: list[Part] = field(default_factory=list)
    report: CorpusReport = field(default_factory=lambda: CorpusReport(resumable=True))
    languages: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0
    n_notes: int = 0

    @property
    def n_papers(self) -> int:
        """Papers in all parts."""
        return sum(part.n_papers for part in self.parts)

    def ids(self) -> Iterator[str]:
        """The ids of the papers in all parts."""
        for part in self.parts:
            yield from read_table(self.folder / part.name)["id"].to_pylist()

    def add(self, papers: Sequence[Paper]) -> Part | None:
        """Keep the papers of the next part, if there are any."""
        if not papers:
            return None
        self.parts.append(_write_part(self.folder / f"part-{len(self.parts):05d}.arrow", papers))
        self.languages.update(filter(None, (other_language(paper.abstract) for paper in papers)))
        return self.parts[-1]

    def note(self, part: Part | None) -> None:
        """Leave word for the next run of how far reading has come, with the part that was added, if any."""
        content = {
            "key": self.key,
            "part": part and asdict(part),
            "report": self.report.take_state(),
            "languages": dict(self.languages),
            "unchanged": self.unchanged,
        }
        # Many, and each lost in a power cut costs one part: they are not waited for.
        write_note(_progress(self.folder, self.n_notes), content, durable=False)
        self.n_notes += 1

    def take_up(self) -> None:
        """Go on from where an earlier run under the same key was stopped, as far as what it left is whole."""
        last: dict[str, Any] = {}
        refused_rows: list[int] = []
        while content := read_note(_progress(self.folder, self.n_notes)):
            part = content["part"] and Part(**content["part"])
            if content["key"] != self.key or (part and not is_whole(self.folder / part.name, part.sha256)):
                break
            self.parts += [part] if part else []
            refused_rows += content["report"].pop("refused_rows")
            self.n_notes += 1
            last = content
        if last:
            self.report = CorpusReport.resumed(last["report"], refused_rows)
            self.languages = Counter(last["languages"])
            self.unchanged = last["unchanged"]


def unfinished_reading(folder: Path, key: str) -> UnfinishedReading:
    """What an earlier run read under ``key`` before it was stopped; nothing where there was none."""
    unfinished = UnfinishedReading(folder, key)
    unfinished.take_up()
    return unfinished


def read_into_parts(
    papers: Iterable[Paper],
    unfinished: UnfinishedReading,
    *,
    is_unchanged: Callable[[Paper], bool] = lambda paper: False,
    on_part: Callable[[int], None],
    bounds: PartBounds = PARTS,
) -> Reading:
    """Write ``papers`` but the unchanged ones to parts behind those of ``unfinished``.

    ``papers`` are those that it had not come to; its report fills meanwhile. ``finished_reading`` finds the
    outcome under its key. ``on_part`` is told, part by part, how many papers are in all. Raises InputError
    for a paper that the catalog would refuse.
    """
    on_part(unfinished.n_papers)
    run: list[Paper] = []
    n_read = 0
    for paper in papers:
        n_read += 1
        if is_unchanged(paper):
            unfinished.unchanged += 1
        else:
            check(paper)
            run.append(paper)
        if len(run) == bounds.papers or n_read == bounds.read:
            unfinished.note(unfinished.add(run))
            on_part(unfinished.n_papers)
            run, n_read = [], 0
    unfinished.add(run)  # unnoted: what was met after its papers would be met again
    return _finished(unfinished)


def read_versions(
    catalog: Catalog,
    given: Mapping[str, str | None],
    unfinished: UnfinishedReading,
    *,
    on_part: Callable[[int], None] = lambda n_papers: None,
    bounds: PartBounds = PARTS,
) -> Reading:
    """The same of papers of a catalog: of each id its version with the content hash, if there is one.

    Raises StorageError.
    """
    known = frozenset(unfinished.ids())
    hashes = [digest for key, digest in given.items() if digest is not None and key not in known]
    return read_into_parts(catalog.versions(hashes), unfinished, on_part=on_part, bounds=bounds)


def _finished(unfinished: UnfinishedReading) -> Reading:
    report = unfinished.report
    examples = tuple(str(row) for row in report.broken_rows)
    reading = Reading(
        unfinished.key,
        tuple(unfinished.parts),
        Refusals(report.broken, report.duplicates, report.without_abstract, examples),
        dict(unfinished.languages.most_common()),
        unfinished.unchanged,
    )
    write_note(unfinished.folder / "read.json", asdict(reading))
    return reading


def finished_reading(folder: Path, key: str) -> Reading | None:
    """The outcome of an earlier run's reading under ``key``, if it came to its end and is still whole."""
    reading = last_reading(folder)
    if reading is None or reading.key != key:
        return None
    return reading if all(is_whole(folder / part.name, part.sha256) for part in reading.parts) else None


def last_reading(folder: Path) -> Reading | None:
    """What the last run that read to its end noted, whatever has become of the parts."""
    content = read_note(folder / "read.json")
    if not content:
        return None
    parts = tuple(Part(**part) for part in content["parts"])
    refusals = Refusals(**{**content["refusals"], "examples": tuple(content["refusals"]["examples"])})
    return Reading(content["key"], parts, refusals, content["languages"], content["unchanged"])


def papers_of(folder: Path, reading: Reading) -> Iterator[Paper]:
    """The papers of all parts as they were read, without the facets of a tagger."""
    for part in reading.parts:
        table = read_table(folder / part.name)
        for position in range(len(table)):
            yield paper_at(table, position)


def read_table(path: Path) -> pa.Table:
    """The columns of a part, mapped into memory."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _progress(folder: Path, number: int) -> Path:
    return folder / f"read-{number:05d}.json"


def _write_part(path: Path, papers: Sequence[Paper]) -> Part:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_table(papers_to_table(papers))
    return Part(path.name, sha256_of(path), len(papers), sum(len(paper.sentences) for paper in papers))
