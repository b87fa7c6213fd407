"""Reads tables with a header line: CSV, TSV, and tables with semicolons or bars as delimiters."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final

from indexer.corpus.library.names import id_by_doi
from indexer.corpus.rows import RawPaper, Row
from indexer.corpus.source import Lines, decoded
from models.errors import BrokenFileError, CorpusFormatError, InputError

# A longer cell has a quote that is never closed: the longest abstract that is accepted fits.
_MAX_CELL_CHARS: Final = 128 * 1024
# csv has one limit per process: only one reader changes it at a time, and restores it for others.
_LIMIT = Lock()
_DELIMITERS = ",\t;|"
# The field of a paper for each column, by the column's name in lower case.
_COLUMNS = {
    "id": "id",
    "paper_id": "id",
    "paperid": "id",
    "title": "title",
    "abstract": "abstract",
    "year": "year",
    "venue": "venue",
    "journal": "venue",
    "source title": "venue",  # Scopus's name for it
    "authors": "authors",
    "url": "url",
    "doi": "doi",
    "fields": "fields",
}
_REQUIRED = {"id", "title", "abstract"}
_BLANK_LINES: Final = re.compile(r"\A(?:[ \r]*\n)+")
_SEP_LINE: Final = re.compile(r'"?sep=."?\s*', re.IGNORECASE)  # the line that tells Excel the delimiter


class TableReader:
    """The reader of tables with columns ``id``, ``title``, ``abstract`` and others of our JSON lines.

    Without an id, a paper gets one by its DOI. Items of lists are separated by semicolons.
    """

    needs_abstract = True

    def recognises(self, head: str) -> bool:
        """Return whether the first line, split at a delimiter, includes the required names."""
        # JSON is excluded, because its texts may hold any words between commas.
        return not head.startswith(("{", "[")) and is_table(head, _COLUMNS)

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each record, with the line it begins on: a quoted field may hold line ends."""
        return table_rows(lines, _COLUMNS, _raw)


def is_table(head: str, known: Mapping[str, str]) -> bool:
    """Return whether the first line names columns of ``known`` for an id or DOI, a title and an abstract."""
    return not _missing(fields_of_table(head, known))


def fields_of_table(head: str, known: Mapping[str, str] = _COLUMNS) -> set[str]:
    """Return the fields of ``known`` that the first line names as columns."""
    first, _, rest = _BLANK_LINES.sub("", head).partition("\n")
    header = rest.partition("\n")[0] if _SEP_LINE.fullmatch(first) else first
    return set(_columns(header, known)[1])


def _missing(fields: set[str]) -> set[str]:
    """Return the fields that a table must have and this one lacks; a DOI may stand for the id."""
    return _REQUIRED - fields - ({"id"} if "doi" in fields else set())


def table_rows(
    lines: Lines,
    known: Mapping[str, str],
    to_paper: Callable[[Mapping[str, str]], RawPaper],
    *,
    max_cell_chars: int = _MAX_CELL_CHARS,
) -> Iterator[Row]:
    """Yield a row for each record; ``known`` maps column names in lower case to fields.

    ``to_paper`` receives the fields that are not empty. If a quote is never closed, the rows in the next
    ``max_cell_chars`` characters are lost. Raises CorpusFormatError without the required columns, and
    BrokenFileError if the file ends within a cell in quotes, or within a line that lacks values.
    """
    delimiter, columns = _header(lines, known)
    texts = _TextLines(lines)
    records = csv.reader(texts, delimiter=delimiter)
    while True:
        line = lines.number + 1
        texts.record.clear()
        try:
            values = _next_record(records, max_cell_chars)
            _expect_whole(lines, line, texts, values, columns)
            _expect_one_row(texts.record, delimiter, max_cell_chars)
        except StopIteration:
            return
        except CorpusFormatError:  # the whole file ends here, not only a row
            raise
        except csv.Error as error:
            yield Row(line, InputError(f"not a valid row: {error}; check for a quote that is not closed"))
        except InputError as error:
            yield Row(lines.number, error)
        else:
            # Tables with tabs have few quotes: a cell with tabs and line ends is rarely meant.
            if delimiter == "\t" and any("\t" in each and "\n" in each for each in values):
                yield Row(line, InputError(f"a quote that is not closed before line {lines.number}"))
            elif len(values) != len(columns) and any(values):
                yield Row(line, InputError(_uneven(values, columns)))
            elif any(values):
                yield Row(line, to_paper(_first_of_each(columns, values)))


def _expect_whole(
    lines: Lines, line: int, texts: "_TextLines", values: Sequence[str], columns: Sequence[str]
) -> None:
    """Raise BrokenFileError if the record from ``line`` is the last one and not whole."""
    cut = ""
    if texts.ended:  # another line was asked for, which a quote that is not closed does
        cut = "the last row ends within a cell; check for a quote that is not closed"
    elif len(values) < len(columns) and not texts.record[-1].endswith("\n"):
        cut = _uneven(values, columns)
    if cut:
        raise BrokenFileError(str(lines.path), line, cut)


def _first_of_each(columns: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """Return the fields that are not empty; if several columns are the same field, the first counts."""
    fields: dict[str, str] = {}
    for column, value in zip(columns, values, strict=True):
        if column and value:
            fields.setdefault(column, value)
    return fields


def _header(lines: Lines, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the delimiter and the field of each column; raises CorpusFormatError if one is missing."""
    header = next(lines, b"").decode(errors="replace")
    while header.isspace():
        header = next(lines, b"").decode(errors="replace")
    if _SEP_LINE.fullmatch(header):
        header = next(lines, b"").decode(errors="replace")
    delimiter, columns = _columns(header, known)
    if missing := _missing(set(columns)):
        absent = " and no ".join(sorted(missing))
        raise CorpusFormatError(
            f"{lines.path}:{lines.number}: no column {absent} in {header.strip()[:80]!r}."
        )
    return delimiter, columns


def _next_record(records: Iterator[list[str]], max_cell_chars: int) -> list[str]:
    """Return the next record; raises csv.Error for a cell over ``max_cell_chars``."""
    with _LIMIT:
        default = csv.field_size_limit(max_cell_chars)
        try:
            return next(records)
        finally:
            csv.field_size_limit(default)


def _expect_one_row(record: Sequence[str], delimiter: str, max_cell_chars: int) -> None:
    """Raise csv.Error if a stray quote has merged several rows: text follows the quote that ends a cell.

    A row of one line may have such text, because it is whole.
    """
    if len(record) > 1:
        _next_record(csv.reader(record, delimiter=delimiter, strict=True), max_cell_chars)


def _columns(header: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the delimiter that gives most known names, and the field of each column, or ``""``."""
    candidates = [(delimiter, _fields(header, delimiter, known)) for delimiter in _DELIMITERS]
    return max(candidates, key=lambda candidate: sum(map(bool, candidate[1])))


def _fields(header: str, delimiter: str, known: Mapping[str, str]) -> list[str]:
    # A quoted name may hold the delimiter; the header may not be longer than a cell.
    try:
        names = next(csv.reader([header[:_MAX_CELL_CHARS]], delimiter=delimiter), [])
    except csv.Error:  # a carriage return in the middle: no table
        return []
    return [known.get(name.strip().strip('"').lower(), "") for name in names]


def _uneven(values: Sequence[str], columns: Sequence[str]) -> str:
    return f"{len(values)} values for {len(columns)} columns; check for a delimiter that is not quoted"


def _raw(fields: Mapping[str, str]) -> RawPaper:
    return RawPaper(**{"id": id_by_doi(fields.get("doi")), "title": None, "abstract": None, **fields})


class _TextLines:
    """``lines`` as text: an iterator that, unlike a generator, can continue after it raised InputError.

    ``record`` has the lines since it was last cleared; ``ended`` says that one was asked for after the last.
    """

    def __init__(self, lines: Lines) -> None:
        self.record: list[str] = []
        self.ended = False
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        text = decoded(line, "the line")
        self.record.append(text)
        return text
