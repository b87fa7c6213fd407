"""Reads papers from corpus files of many formats; the beginning of a file tells its format.

A new format needs one file in ``indexer/corpus/formats/`` (``library/`` for reference managers) and one line
in READERS (docs/adding/reader.md).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain
from pathlib import Path, PurePath
from typing import Literal, Protocol, cast, runtime_checkable

from indexer.corpus.advice import advice_on
from indexer.corpus.first_seen import FirstSeen
from indexer.corpus.library.entries import Entry, entry_of
from indexer.corpus.records import head_records
from indexer.corpus.rows import MAX_TITLE_CHARS, RawPaper, Row, clean, completed, to_paper
from indexer.corpus.source import Lines, open_source, read_head
from models.errors import BrokenFileError, BrokenRowError, CorpusFormatError, InputError
from models.registry import resolve
from models.types import Paper

READERS: dict[str, str] = {
    "acl": "indexer.corpus.formats.acl:AclReader",
    "arxiv": "indexer.corpus.formats.arxiv:ArxivReader",
    "bibtex": "indexer.corpus.library.bibtex:BibtexReader",
    "csl": "indexer.corpus.library.csl:CslReader",
    "csv": "indexer.corpus.formats.table:TableReader",
    "ids": "indexer.corpus.library.ids:IdsReader",
    "jsonl": "indexer.corpus.formats.jsonl:JsonlReader",
    "nbib": "indexer.corpus.library.nbib:NbibReader",
    "openalex": "indexer.corpus.formats.openalex:OpenAlexReader",
    "openreview": "indexer.corpus.formats.openreview:OpenReviewReader",
    "pubmed": "indexer.corpus.formats.pubmed:PubmedReader",
    "ris": "indexer.corpus.library.ris:RisReader",
    "s2": "indexer.corpus.formats.s2:S2Reader",
    "unarxive": "indexer.corpus.formats.unarxive:UnarxiveReader",
    "zotero": "indexer.corpus.library.zotero:ZoteroReader",
}
# The name of a file that Akin wrote itself: it is read as jsonl, whatever keys its papers have.
OWN_NAME = "papers given to akin.index.jsonl"
# The format by the ending of the file name, used if the beginning of the file does not tell it.
EXTENSIONS = {".bib": "bibtex", ".nbib": "nbib", ".ris": "ris"}
# The endings of corpus file names, apart from .gz.
_ENDINGS = frozenset({*EXTENSIONS, ".csv", ".json", ".jsonl", ".ndjson", ".tsv", ".txt", ".xml"})

# Enough to see what is wrong with a file; a million broken rows must not fill the memory.
MAX_REPORTED_ROWS = 20
# A list of this many takes 30 MB; a library has thousands.
MAX_UNRESOLVED = 100_000
# A file has fewer than 2**40 lines.
_LINE_BITS = 40
_ROWS_BETWEEN = 1_000  # rows between two reports of progress: a tenth of a second


@runtime_checkable
class CorpusReader(Protocol):
    """One corpus format.

    ``needs_abstract`` says whether a row without an abstract is broken; many sources have such rows.
    """

    needs_abstract: bool

    def recognises(self, head: str) -> bool:
        """Return whether a file that begins with ``head`` has this format and no other.

        ``head`` is its first 64 kB or, if no reader recognises those, one of the JSON objects in them.
        """
        ...

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield the rows of the file in order, with one record in memory at a time.

        Raises BrokenFileError if the file cannot be read to its end, CorpusFormatError if it is unusable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An entry without an abstract that a public service has under ``lookup``; ``title`` may be empty."""

    lookup: str
    title: str
    path: str
    line: int


@dataclass(slots=True)
class CorpusReport:
    """Counts over all the files that are read with this report; filled while their papers are consumed.

    ``broken`` counts every refused row, ``duplicates`` the ones among them whose id an earlier row had;
    ``first_duplicate`` names the first of these. The first MAX_REPORTED_ROWS of each kind are kept:
    ``broken_rows`` with reasons, ``rows_without_abstract`` as ``(path, line)``. A file that breaks off counts
    as one broken row, which is always kept, also in ``breaks``. ``unresolved`` has the first
    ``max_unresolved`` rows without an abstract that can be looked up; ``looked_up`` counts the rows whose
    abstract came from a lookup.
    """

    papers: int = 0
    without_abstract: int = 0
    broken: int = 0
    duplicates: int = 0
    first_duplicate: str = ""
    broken_rows: list[BrokenRowError] = field(default_factory=list)
    rows_without_abstract: list[tuple[str, int]] = field(default_factory=list)
    looked_up: int = 0
    max_unresolved: int = MAX_UNRESOLVED
    unresolved: list[Unresolved] = field(default_factory=list)
    breaks: list[BrokenFileError] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _first_seen: FirstSeen = field(default_factory=FirstSeen)

    @property
    def rows(self) -> int:
        """The number of rows, usable or not."""
        return self.papers + self.broken + self.without_abstract

    def begin_file(self, path: Path) -> int:
        """Store ``path`` and return its number in this report."""
        self._paths.append(str(path))
        return len(self._paths) - 1

    def note_id(self, paper_id: str, *, file: int, line: int) -> None:
        """Store ``paper_id``; raises InputError if an earlier row had it."""
        first = self._first_seen.note(paper_id, file << _LINE_BITS | line)
        if first is None:
            return
        self.duplicates += 1
        first_file, first_line = first >> _LINE_BITS, first & ((1 << _LINE_BITS) - 1)
        where = f"line {first_line}" if first_file == file else f"{self._paths[first_file]}:{first_line}"
        reason = f"duplicate id {paper_id!r}, first seen at {where}"
        self.first_duplicate = self.first_duplicate or f"{self._paths[file]}:{line}: {reason}"
        raise InputError(reason)

    def note_broken(self, row: BrokenRowError) -> None:
        """Count a refused row."""
        self.broken += 1
        if len(self.broken_rows) < MAX_REPORTED_ROWS:
            self.broken_rows.append(row)

    def note_break(self, error: BrokenFileError) -> None:
        """Count a file that breaks off; it is always kept, because the lost rows cannot be counted."""
        self.broken += 1
        self.breaks.append(error)
        reason = f"the file ends early here: {error.reason}; the rest was not read"
        self.broken_rows.append(BrokenRowError(error.path, error.line, reason))

    def note_without_abstract(self, path: Path, line: int, raw: RawPaper) -> None:
        """Count a row without an abstract, in a format where that is no fault."""
        self.without_abstract += 1
        if raw.lookup and len(self.unresolved) < self.max_unresolved:
            title = clean(raw.title)[:MAX_TITLE_CHARS] if isinstance(raw.title, str) else ""
            self.unresolved.append(Unresolved(raw.lookup, title, str(path), line))
        if len(self.rows_without_abstract) < MAX_REPORTED_ROWS:
            self.rows_without_abstract.append((str(path), line))


def read_corpus(
    path: Path,
    *,
    format_name: str = "auto",
    on_error: Literal["skip", "fail"] = "skip",
    report: CorpusReport | None = None,
    found: Mapping[str, RawPaper] | None = None,
    on_rows: Callable[[int], None] = lambda _n_rows: None,
) -> Iterator[Paper]:
    """Return the papers of ``path`` (plain or gzipped) in order, with their sentences split.

    Pass the same ``report`` with every file of a corpus: it counts rows and finds ids that several files
    share. With ``on_error="skip"`` a broken row is reported and skipped, and a file that breaks off is
    reported as a broken row after its last whole paper; with ``"fail"`` they raise BrokenRowError and
    BrokenFileError. An entry without an abstract is completed from ``found``, which has papers by their
    ``lookup``. ``on_rows`` receives the number of rows in the report, usable or not, at each multiple of a
    thousand, 0 included. A file that cannot be opened or has no known format always raises StorageError,
    CorpusFormatError or UnknownNameError at once.
    """
    reader = _select_reader(path, format_name)
    report = CorpusReport() if report is None else report
    return _papers(path, reader, on_error=on_error, report=report, found=found or {}, on_rows=on_rows)


def expect_corpus(path: Path, format_name: str = "auto") -> None:
    """Raise the errors of ``path`` that ``read_corpus`` raises at once, without reading any rows."""
    _select_reader(path, format_name)


def read_entries(path: Path, *, format_name: str = "auto", report: CorpusReport) -> Iterator[Entry]:
    """Return the entries of ``path`` in order and unchecked, also those without an abstract.

    Rows that cannot be read, and a file that breaks off, go into ``report``. Raises the errors that
    ``read_corpus`` raises at once.
    """
    return _entries(path, _select_reader(path, format_name), report)


def _entries(path: Path, reader: CorpusReader, report: CorpusReport) -> Iterator[Entry]:
    with open_source(path) as stream:
        for row in _until_break(reader.rows(_lines(stream, path)), report):
            if isinstance(row.content, InputError):
                report.note_broken(BrokenRowError(str(path), row.line, row.reason(row.content)))
            else:
                yield entry_of(row.content, keyed=not reader.needs_abstract)


def _lines(stream: BufferedReader, path: Path) -> Lines:
    return Lines(stream, path, reopen=lambda: open_source(path))


def _select_reader(path: Path, format_name: str) -> CorpusReader:
    """Return the reader of a named format; for ``auto``, the reader that recognises the file."""
    head = read_head(path)
    own = path.name == OWN_NAME
    if format_name == "auto" and not own:
        return _reader_for(path, head)
    reader: CorpusReader = resolve(READERS, "jsonl" if own else format_name, "corpus format")()
    return reader


def reader_of(head: str, name: str) -> CorpusReader | None:
    """Return the reader of a file called ``name`` that begins with ``head``, or ``None`` if there is none."""
    readers: list[CorpusReader] = [resolve(READERS, each, "corpus format")() for each in READERS]
    # The first rows may be broken, so each JSON object of the head is tried until one tells the format.
    # With its line end, an object is whole, which is faster to see than that it is cut off.
    for candidate in chain([head], (f"{json.dumps(record)}\n" for _, record in head_records(head))):
        for reader in readers:
            if reader.recognises(candidate):
                return reader
    if known := EXTENSIONS.get(Path(name.lower().removesuffix(".gz")).suffix):
        return cast("CorpusReader", resolve(READERS, known, "corpus format")())
    return None


def without_ending(name: str) -> str:
    """Return the name of a corpus file without ``.gz`` and the ending of its format, if it has them."""
    for endings in ({".gz"}, _ENDINGS):
        path = PurePath(name)
        name = path.stem if path.suffix.lower() in endings else name
    return name


def _reader_for(path: Path, head: str) -> CorpusReader:
    """Return the reader of ``path``; raises CorpusFormatError if there is none."""
    if (reader := reader_of(head, path.name)) is not None:
        return reader
    raise CorpusFormatError(
        f"{path} has no known corpus format; it begins with {head.lstrip()[:60]!r}. "
        f"Known: {', '.join(READERS)}. {advice_on(head)}"
    )


def _papers(
    path: Path,
    reader: CorpusReader,
    *,
    on_error: str,
    report: CorpusReport,
    found: Mapping[str, RawPaper],
    on_rows: Callable[[int], None],
) -> Iterator[Paper]:
    file = report.begin_file(path)
    with open_source(path) as stream:
        rows = reader.rows(_lines(stream, path))
        for row in rows if on_error == "fail" else _until_break(rows, report):
            if report.rows % _ROWS_BETWEEN == 0:
                on_rows(report.rows)
            content = row.content
            if isinstance(content, RawPaper) and content.lacks_abstract and not reader.needs_abstract:
                content = completed(content, found.get(content.lookup or ""))
                if content.lacks_abstract:
                    report.note_without_abstract(path, row.line, content)
                    continue
                report.looked_up += 1
            try:
                if isinstance(content, InputError):
                    raise content
                paper = to_paper(content)
                report.note_id(paper.id, file=file, line=row.line)
            except InputError as error:
                broken = BrokenRowError(str(path), row.line, row.reason(error))
                report.note_broken(broken)
                if on_error == "fail":
                    raise broken from error
                continue
            report.papers += 1
            yield paper


def _until_break(rows: Iterator[Row], report: CorpusReport) -> Iterator[Row]:
    """Yield ``rows`` until they end or their file breaks off, which is noted in ``report``."""
    try:
        yield from rows
    except BrokenFileError as error:
        report.note_break(error)
