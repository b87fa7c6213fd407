"""Location and line-by-line reading of a test collection's files, with errors that name its publishers."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from evaluation.collection import CollectionReader
from indexer.corpus.source import Lines, open_source, read_errors
from models.errors import (
    BrokenRowError,
    CollectionMissingError,
    CorpusError,
    CorpusFormatError,
    InputError,
)

JsonObject = dict[str, Any]

_MAX_CELL_CHARS = 8 * 1024 * 1024


def locate(reader: CollectionReader, folder: Path, *names: str) -> Path:
    """Return the first of ``names`` found in ``folder``, plain or with ``.gz``.

    Raises CollectionMissingError if there is none; the message gives the layout that ``reader`` expects and
    where its publishers offer it.
    """
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    wanted = " or ".join(names)
    raise CollectionMissingError(
        f"{folder} holds no {wanted}. Expected is this layout:\n{reader.layout.strip()}\n"
        f"The collection comes from {reader.publisher}; give the folder that holds it."
    )


def is_there(folder: Path, name: str) -> bool:
    """Whether ``folder`` holds ``name``, plain or with ``.gz``."""
    return (folder / name).is_file() or (folder / f"{name}.gz").is_file()


def json_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield ``(line number, object)`` for each non-blank line; raises BrokenRowError if one is no object."""
    for number, line in text_lines(path):
        if line.isspace():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BrokenRowError(str(path), number, f"not valid JSON: {error.msg}") from error
        if not isinstance(record, dict):
            raise BrokenRowError(str(path), number, "not a JSON object {...}, which every line must be")
        yield number, record


def add_once(name: str, seen: set[str], path: Path, line: int, *, what: str = "paper") -> None:
    """Add ``name`` to those ``seen``; raises BrokenRowError if it is there."""
    if name in seen:
        raise BrokenRowError(str(path), line, f"{what} {name!r} occurs twice; keep one")
    seen.add(name)


def json_document(path: Path) -> JsonObject:
    """Return the JSON object in ``path``; raises CorpusFormatError for any other content."""
    with open_source(path) as stream, read_errors(path, line=1):
        try:
            document = orjson.loads(stream.read())
        except orjson.JSONDecodeError as error:
            raise CorpusFormatError(f"{path} is not valid JSON ({error}). Fetch it again.") from error
    if not isinstance(document, dict):
        raise CorpusFormatError(f"{path} is not a JSON object {{...}}. Fetch it again.")
    return document


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield ``(line number, line with its end)`` for every line.

    Raises CorpusFormatError if a line is not UTF-8, BrokenRowError if it is too long to read.
    """
    with open_source(path) as stream:
        lines = Lines(stream, path)
        while True:
            try:
                line = next(lines)
            except StopIteration:
                return
            except CorpusError:  # has the file and the line already
                raise
            except InputError as error:
                raise BrokenRowError(str(path), lines.number, str(error)) from error
            try:
                yield lines.number, line.decode()
            except UnicodeDecodeError as error:
                raise CorpusFormatError(
                    f"{path}:{lines.number}: no UTF-8 ({error}). Save it as UTF-8, or fetch it again."
                ) from error


def csv_rows(path: Path, *columns: str, skip_longer: bool = False) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield ``(line, row)`` of a CSV file with a header: the line that the row ends on.

    Raises CorpusFormatError if one of ``columns`` is missing; BrokenRowError, also for a row with more fields
    than the header, unless such rows are skipped.
    """
    # CORD-19 has cells beyond the default limit, which is global to the process, so restore it afterwards.
    default = csv.field_size_limit(_MAX_CELL_CHARS)
    try:
        rows = csv.DictReader((line for _, line in text_lines(path)), restval="")
        missing = [column for column in columns if column not in (rows.fieldnames or ())]
        if missing:
            raise CorpusFormatError(
                f"{path} has no column {', '.join(missing)}; its header is {rows.fieldnames}. Fetch it again."
            )
        with csv_errors(path, rows):
            for row in rows:
                if None not in row:
                    yield rows.line_num, row
                elif not skip_longer:
                    raise BrokenRowError(str(path), rows.line_num, "more fields than the header has names")
    finally:
        csv.field_size_limit(default)


@contextmanager
def csv_errors(path: Path, rows: "csv.DictReader[str]") -> Iterator[None]:
    """Raise BrokenRowError with the file and the line instead of a CSV error."""
    try:
        yield
    except csv.Error as error:
        raise BrokenRowError(str(path), rows.reader.line_num, f"no CSV ({error})") from error


def read_qrels(path: Path, *, header: bool = False) -> dict[str, dict[str, int]]:
    """Read judgements ``{query id: {paper id: grade}}``, from TREC's four columns or BEIR's three.

    Four: ``query iteration paper grade``, separated by white space; three, with an optional ``header`` line:
    ``query paper grade``, separated by tabs. A negative grade (TREC: junk) counts as 0. Raises
    BrokenRowError, also for a paper that one query judges twice, differently.
    """
    qrels: dict[str, dict[str, int]] = {}
    width = 3 if header else 4
    for number, line in text_lines(path):
        if line.isspace():
            continue
        fields = line.strip().split("\t" if header else None)
        if len(fields) != width:
            raise BrokenRowError(str(path), number, f"{len(fields)} fields; expected {width}")
        if header and number == 1 and not any(each.isdigit() for each in fields[-1]):
            continue
        try:
            grade = int(fields[-1])
        except ValueError as error:
            raise BrokenRowError(
                str(path), number, f"the grade {fields[-1]!r} is not a whole number"
            ) from error
        grades, paper_id, grade = qrels.setdefault(fields[0], {}), fields[-2], max(grade, 0)
        if grades.setdefault(paper_id, grade) != grade:
            reason = (
                f"paper {paper_id!r} has grade {grade} for query {fields[0]!r}, and {grades[paper_id]} above"
            )
            raise BrokenRowError(str(path), number, f"{reason}; keep one")
    return qrels
