"""Reads OpenReview's expertise format: papers of a profile as JSON lines, submissions as one object by id.

Both hold ``{"id": ..., "content": {"title": ..., "abstract": ...}}``; values of ``content`` are texts or, in
today's OpenReview, objects with a ``value``.
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

# A file of submissions is read whole; those of the largest conferences have 100 MB.
_MAX_DOCUMENT_BYTES = 512 * 2**20
_PIECE_BYTES = 2**20
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DOCUMENT = re.compile(r'\s*\{\s*"[^"\\]{0,200}"\s*:\s*\{\s*"(?:id|content)"\s*:')


class OpenReviewReader:
    """The reader of OpenReview: ids stay unchanged; a paper without an abstract is reported, not refused."""

    needs_abstract = False

    def __init__(self, *, max_document_bytes: int = _MAX_DOCUMENT_BYTES) -> None:
        self._max_document_bytes = max_document_bytes

    def recognises(self, head: str) -> bool:
        """Return whether the file has objects with an ``id`` and a title in ``content``, or objects by id."""
        if _DOCUMENT.match(head):
            return True
        record = first_record(head)
        content = record.get("content")
        return "id" in record and isinstance(content, dict) and "title" in content

    def rows(self, lines: Lines) -> Iterator[Row]:
        """Yield one row for each line, or for each entry of the one object."""
        if not _DOCUMENT.match(lines.peek().decode(errors="replace")):
            yield from json_rows(lines, _raw)
            return
        for name, record in _document(lines, self._max_document_bytes).items():
            entry, label = record if isinstance(record, dict) else {}, f"entry {name[:60]!r}"
            try:
                yield Row(1, _raw({"id": name, **entry}), label)
            except InputError as error:
                yield Row(1, error, label)


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
    """Return the given year, or that of the first usable date: publication, creation, entry."""
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
    """Return a list of names, taken from ``name`` if they are objects, as Semantic Scholar writes them."""
    listed = given if isinstance(given, list) else []
    named = (each.get("name") if isinstance(each, dict) else each for each in listed)
    return [name for name in named if name]
