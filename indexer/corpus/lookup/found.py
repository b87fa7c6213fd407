"""The results of lookups, and the entries still unresolved: two files in ``lookups/``."""

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

import orjson

from indexer.corpus.read import Unresolved
from indexer.corpus.rows import RawPaper
from indexer.files.cells import escape_formulas
from indexer.files.durable import replace_file, storage_errors

FOUND_FILE: Final = "found.jsonl"
UNRESOLVED_FILE: Final = "unresolved.csv"
_COLUMNS: Final = ("id", "title", "file", "line")
_FIELDS: Final = {each.name for each in fields(RawPaper)}


class FoundPapers(Mapping[str, RawPaper]):
    """The papers of ``folder`` by their ``lookup``, one per line of a file; all are held in memory."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FOUND_FILE
        self._papers: dict[str, RawPaper] = {}
        self.has_more = False  # whether the file also has an outdated line of a paper, or half a line
        with storage_errors(self._path):
            lines = self._path.read_bytes().split(b"\n") if self._path.exists() else []
        for line in lines:
            self._take(line)

    def __getitem__(self, lookup: str) -> RawPaper:
        return self._papers[lookup]

    def __iter__(self) -> Iterator[str]:
        return iter(self._papers)

    def __len__(self) -> int:
        return len(self._papers)

    def add(self, papers: Mapping[str, RawPaper]) -> None:
        """Append papers to the file; half a line, left by an interruption, is skipped when it is read."""
        lines = _lines(papers)
        with storage_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as stream:
                stream.write(lines)
        for line in lines.split(b"\n"):
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            record = None
        if isinstance(record, dict) and record.keys() == _FIELDS and isinstance(record["lookup"], str):
            self.has_more |= record["lookup"] in self._papers
            self._papers[record["lookup"]] = RawPaper(**record)
        elif line:
            self.has_more = True


def forget(folder: Path, names: Collection[str]) -> None:
    """Remove the papers and the unresolved ids that have one of these ids, DOIs or titles; for a purge.

    Half a line is removed too, because its paper is unknown.
    """
    wanted = {_name(each) for name in names for each in (name, escape_formulas(name))}
    found, unresolved = folder / FOUND_FILE, folder / UNRESOLVED_FILE
    with storage_errors(folder):
        if found.exists():
            papers = FoundPapers(folder)
            kept = {
                lookup: paper
                for lookup, paper in papers.items()
                if wanted.isdisjoint(_names_in(lookup, paper.id, paper.title, paper.doi))
            }
            if len(kept) < len(papers) or papers.has_more:
                replace_file(found, _lines(kept))
        if unresolved.exists():
            rows = _rows(unresolved)
            others = [row for row in rows if wanted.isdisjoint(_names_in(*row[:2]))]
            if len(others) < len(rows):
                replace_file(unresolved, _table(others))


def _names_in(*given: object) -> set[str]:
    """Return the values that are texts and not empty, normalised for comparison."""
    return {_name(each) for each in given if isinstance(each, str) and each}


def _name(given: str) -> str:
    """Return an id, DOI or title normalised for comparison."""
    text = " ".join(given.casefold().split())
    return text.removeprefix("doi:").removeprefix("https://doi.org/")


def _lines(papers: Mapping[str, RawPaper]) -> bytes:
    lines = [orjson.dumps(asdict(paper) | {"lookup": lookup}) for lookup, paper in papers.items()]
    return b"".join(b"\n" + line for line in lines) + b"\n"


def _table(rows: Iterable[Sequence[str]]) -> bytes:
    table = io.StringIO(newline="")
    csv.writer(table, quoting=csv.QUOTE_ALL).writerows([_COLUMNS, *rows])
    return table.getvalue().encode()


def note_unresolved(folder: Path, unresolved: Sequence[Unresolved], corpora: Iterable[Path]) -> Path | None:
    """Write the table of entries that can be looked up; rows of files other than ``corpora`` stay.

    Return its path, or ``None`` if the table is empty.
    """
    path = folder / UNRESOLVED_FILE
    read = {str(corpus) for corpus in corpora}
    with storage_errors(path):
        before = _rows(path) if path.exists() else []
        rows = [row for row in before if row[2] not in read]
        rows += [
            [escape_formulas(each.lookup), escape_formulas(each.title), each.path, str(each.line)]
            for each in unresolved
        ]
        if not rows and not before:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, _table(rows))
    return path if rows else None


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [row for row in csv.reader(stream) if len(row) == len(_COLUMNS)][1:]
