"""OpenReview's expertise format: a profile of papers as JSON lines, submissions as one JSON object by id.

Both hold ``{"id": ..., "content": {"title": ..., "abstract": ...}}``; values of ``content`` are texts, or, as
OpenReview has them today, objects with a ``value``.
"""

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import suppress

import orjson

from indexer.corpus.records import JsonObject, first_record, json_rows
from indexer.corpus.rows import RawPaper, Row, year_of
from indexer.corpus.source import Lines
from models.errors import BrokenFileError, InputError

# Submissions are read at once; those of the largest conferences take 100 MB.
_MAX_DOCUMENT_BYTES = 512 * 2**20
_PIECE_BYTES = 2**20
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DOCUMENT = re.compile(r'\s*\{\s*"[^"\\]{0,200}"\s*:\s*\{\s*"(?:id|content)"\s*:')


class OpenReviewReader:
    """Ids are those given; a paper without an abstract is told, not refused."""

    needs_abstract = False

    def __init__(self, *, max_document_bytes: int = _MAX_DOCUMENT_BYTES) -> None:
        self._max_document_bytes = max_document_bytes

    def recognises(self, head: str) -> bool:
        """An object with ``id`` and ``content`` that has a title, or such objects by id."""
        if _DOCUMENT.match(head):
            return True
        record = first_record(head)
        content = record.get("content")
        return "id" in record and isinstance(content, dict) and "title" in content

    def rows(self, lines: Lines) -> Iterator[Row]:
        """One row for each line, or for each entry of the one object."""
        if not _DOCUMENT.match(lines.peek().decode(errors="replace")):
            yield from json_rows(lines, _raw)
            return
        for name, record in _document(lines, self._max_document_bytes).items():
            try:
                entry = record if isinstance(record, dict) else {}
                yield Row(1, _raw({"id": name, **entry}))
            except InputError as error:
                yield Row(1, InputError(f"entry {name[:60]!r}: {error}"))


def _document(lines: Lines, max_bytes: int) -> JsonObject:
    read = bytearray()
    while piece := lines.read(_PIECE_BYTES):
        read += piece
        if len(read) > max_bytes:
            raise BrokenFileError(
                str(lines.path), 1, f"over {max_bytes >> 20} MiB; write one paper a line instead"
            )
    try:
        document: JsonObject = orjson.loads(bytes(read))
    except orjson.JSONDecodeError as error:
        raise BrokenFileError(str(lines.path), error.lineno, f"not valid JSON: {error.msg}") from error
    return document


def _raw(record: JsonObject) -> RawPaper:
    content = record.get("content")
    if not isinstance(content, dict):
        raise InputError('no "content" with a title and an abstract')
    return RawPaper(
        id=record.get("id"),
        title=_value(content.get("title")),
        abstract=_value(content.get("abstract")),
        year=_year(record, _value(content.get("year"))),
        venue=_value(content.get("venue")),
        authors=_names(_value(content.get("authors"))),
        author_ids=_ids(_value(content.get("authorids"))),
    )


def _year(record: JsonObject, given: object) -> int | None:
    """The year given, or that of the first date there is: of publication, of creation, of entry."""
    with suppress(InputError):
        if (year := year_of(given)) is not None:
            return year
    for name in ("pdate", "cdate", "tcdate"):
        date_ms = record.get(name)
        if isinstance(date_ms, (int, float)) and not isinstance(date_ms, bool):
            with suppress(OverflowError, ValueError, InputError):
                return year_of((_EPOCH + dt.timedelta(milliseconds=date_ms)).year)
    return None


def _ids(given: object) -> list[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _value(given: object) -> object:
    return given.get("value") if isinstance(given, dict) else given


def _names(given: object) -> list[object]:
    """Names as they are, or those of Semantic Scholar's objects."""
    listed = given if isinstance(given, list) else []
    named = (each.get("name") if isinstance(each, dict) else each for each in listed)
    return [name for name in named if name]
