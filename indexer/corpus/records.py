"""Reads the records of a JSON or XML corpus file one at a time, each with the line it begins on."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

import orjson
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from indexer.corpus.arrays import array_elements, list_of_page, page_elements
from indexer.corpus.rows import RawPaper, Row
from indexer.corpus.source import MAX_LINE_BYTES, Lines, decoded
from models.errors import BrokenFileError, InputError

JsonObject = dict[str, Any]

# The most that the parser gets at a time.
_XML_PIECE_BYTES = 16 * 1024
# Nesting of elements; the formats read here need six levels.
MAX_XML_DEPTH = 100

# Atomic groups: a hostile head must not make the search try every way to pair comments.
_XML_PROLOGUE = re.compile(
    r"(?>\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)*+<([A-Za-z_][\w.-]*)", re.DOTALL
)
_JSON_KEY = re.compile(r'\s*[{,]\s*("(?:[^"\\]|\\.)*")\s*:\s*')


def json_rows(lines: Lines, to_paper: Callable[[JsonObject], RawPaper]) -> Iterator[Row]:
    """Yield a row for each line that is not blank, or for each element of an array or of the lists in pages.

    ``to_paper`` raises InputError for a record it cannot use, and the row then holds that error.
    """
    for line, text in _elements(lines):
        try:
            yield Row(line, to_paper(_object(text)))
        except InputError as error:
            yield Row(line, error)


def _elements(lines: Lines) -> Iterator[tuple[int, bytes | InputError]]:
    begin = lines.peek()
    if list_of_page(begin) is not None:
        return page_elements(lines)
    return array_elements(lines) if _is_array(begin) else each_line(lines)


def _is_array(begin: bytes) -> bool:
    """Return whether a file with this beginning is one list, rather than lines that begin with a list."""
    line, _, rest = begin.lstrip().partition(b"\n")
    if not line.startswith(b"["):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return True
    return not rest.strip()


def each_line(lines: Lines) -> Iterator[tuple[int, bytes | InputError]]:
    """Yield the number of each line that is not blank, and the line or the reason why it cannot be used.

    Raises BrokenFileError if the file breaks off.
    """
    while True:
        try:
            line = next(lines)
        except StopIteration:
            return
        except BrokenFileError:  # the whole file ends here, not only a row
            raise
        except InputError as error:
            yield lines.number, error
        else:
            if line.isspace():
                continue
            if line.startswith(b"{") and not line.endswith(b"\n") and not line.rstrip().endswith(b"}"):
                raise BrokenFileError(str(lines.path), lines.number, "the last line is cut short")
            yield lines.number, line


def _object(line: bytes | InputError) -> JsonObject:
    if isinstance(line, InputError):
        raise line
    try:
        record = _parsed(line)
    except orjson.JSONDecodeError as error:
        if (text := decoded(line, "the line").encode()) != line:
            return _object(text)
        raise InputError(f"not valid JSON: {error.msg} at character {error.pos + 1}") from error
    if not isinstance(record, dict):
        raise InputError("this is not a JSON object {...}")
    return record


def _parsed(text: bytes | str) -> object:
    """Parse JSON; NaN, which Python writes for what a table lacks, becomes null. Raises JSONDecodeError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if (b"NaN" if isinstance(text, bytes) else "NaN") not in text:  # type: ignore[operator]  # both or neither
            raise
        try:  # orjson again, which refuses half a character
            return orjson.loads(json.dumps(json.loads(text, parse_constant=lambda _: None)))
        except (ValueError, RecursionError):
            raise error from None


def first_record(head: str) -> JsonObject:
    """Return the first JSON object of ``head``, or ``{}`` if there is none."""
    return next((record for _, record in head_records(head)), {})


def head_records(head: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield ``(line, object)`` for each whole JSON object of ``head``, then the first keys of one cut off.

    If ``head`` is a list, an object that is cut off only counts if no object is whole.
    """
    begin = head.encode()
    whole = begin if _is_array(begin) else list_of_page(begin)
    if whole is not None:
        yield from _head_elements(whole.decode())
        return
    *lines, last = head.split("\n")  # not splitlines: JSON texts hold other line ends
    for line in lines:
        try:
            record = _parsed(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield line, record
    if last.lstrip().startswith("{"):
        yield last, _leading_keys(last)


def _head_elements(head: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the whole objects of an array as lines; if there are none, the first keys of the first object."""
    found = False
    try:
        for _, text in array_elements(Lines(BufferedReader(BytesIO(head.encode())), Path())):
            with suppress(InputError):
                record = _object(text)
                found = True
                yield json.dumps(record), record
    except BrokenFileError:  # the list is cut off by the end of the head
        begin = head.find("{")
        if not found and begin >= 0:
            record = _leading_keys(head[begin:])
            yield json.dumps(record), record


def _leading_keys(line: str) -> JsonObject:
    """Return the top-level keys, with values, that are whole in a JSON object that is cut off somewhere."""
    record: JsonObject = {}
    decoder = json.JSONDecoder()
    position = 0
    while key := _JSON_KEY.match(line, position):
        try:
            record[json.loads(key[1])], position = decoder.raw_decode(line, key.end())
        except (json.JSONDecodeError, RecursionError):
            break
    return record


def root_tag(head: str) -> str:
    """Return the name of the root element of ``head``, or ``""`` if it is not XML."""
    match = _XML_PROLOGUE.match(head)
    return match[1] if match else ""


class _LineByLine:
    """A stream that ``iterparse`` reads line by line, so that an event belongs to the last line read."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.bytes_since_record = 0

    def read(self, _size: int) -> bytes:
        piece = self.lines.read(_XML_PIECE_BYTES)
        self.bytes_since_record += len(piece)
        if self.bytes_since_record > MAX_LINE_BYTES:
            raise _unusable(self.lines, f"more than {MAX_LINE_BYTES:,} bytes without a paper begin here")
        return piece


def xml_records(lines: Lines, *tags: str) -> Iterator[tuple[int, Element, list[Element]]]:
    """Yield ``(line, element, ancestors)`` for each element of ``tags``; the root is first in ``ancestors``.

    Each element is dropped when the next one is requested, so memory holds one record. Raises BrokenFileError
    if the XML is broken, nests too deeply, has too long a part without one, or declares entities or an
    encoding that cannot be read.
    """
    source = _LineByLine(lines)
    ancestors: list[Element] = []
    line = 0
    try:
        for event, element in iterparse(source, events=("start", "end")):
            if event == "start":
                if element.tag in tags:
                    line, source.bytes_since_record = lines.number, 0
                ancestors.append(element)
                if len(ancestors) > MAX_XML_DEPTH:
                    raise _unusable(lines, f"elements nest more than {MAX_XML_DEPTH} deep")
                continue
            ancestors.pop()
            if element.tag in tags:
                yield line, element, ancestors
                if ancestors:
                    ancestors[-1].remove(element)
    except ParseError as error:
        raise _unusable(lines, f"the XML is cut short or broken here ({error})") from error
    except DefusedXmlException as error:
        raise _unusable(lines, f"the XML declares entities, which are not supported ({error})") from error
    except (LookupError, ValueError) as error:  # both from encodings that Python or expat does not support
        raise _unusable(lines, f"the XML declares an encoding that cannot be read ({error})") from error


def _unusable(lines: Lines, reason: str) -> BrokenFileError:
    return BrokenFileError(str(lines.path), lines.number, reason)
