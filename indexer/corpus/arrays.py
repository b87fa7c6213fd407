"""Reads the elements of a JSON array one at a time, each with the line it begins on."""

import re
from collections.abc import Iterator
from typing import Final

from indexer.corpus.source import MAX_LINE_BYTES, Lines
from models.errors import BrokenFileError, InputError

# The most that is read at a time; one element is held in addition.
_PIECE_BYTES: Final = 64 * 1024
# A page of results from OpenAlex, Semantic Scholar or Crossref: its list of objects, and the text before it.
_LIST: Final = re.compile(rb'"(?:results|data|items|recommendedPapers)"\s{0,20}:\s{0,20}(?=\[\s{0,200}\{)')
_BEFORE: Final = re.compile(
    rb'\{\s{0,20}(?:"(?:meta|total|offset|next|token|status)"\s{0,20}:.*)?\Z', re.DOTALL
)
_MAX_BYTES_BEFORE: Final = 1024  # bytes; the beginning of a page, up to its list, is shorter
_MAX_LIST_BYTES: Final = 300  # bytes that _LIST looks at
_OUTSIDE_STRINGS = re.compile(rb'["{}\[\],]')
_INSIDE_STRINGS = re.compile(rb'["\\]')


def array_elements(lines: Lines, piece_bytes: int = _PIECE_BYTES) -> Iterator[tuple[int, bytes | InputError]]:
    """Yield ``(line, text)`` for each element of the array in ``lines``, its text not yet parsed.

    At most ``piece_bytes`` are read at a time. An element over MAX_LINE_BYTES is skipped without being held,
    and yielded as an InputError. Raises BrokenFileError if the array does not end, or if text follows its
    end.
    """
    scanner = _Scanner()
    while piece := lines.read(piece_bytes):
        yield from scanner.feed(piece, lines.number)
        if scanner.rest.strip():
            raise BrokenFileError(str(lines.path), lines.number, "there is text after the end of the list")
    if not scanner.ended:
        raise BrokenFileError(str(lines.path), max(scanner.line, 1), "the list that begins here does not end")


def page_elements(lines: Lines, piece_bytes: int = _PIECE_BYTES) -> Iterator[tuple[int, bytes | InputError]]:
    """Yield the elements of the lists in one or more pages, as ``array_elements`` does; skip the text around.

    Raises BrokenFileError if a list does not end.
    """
    scanner: _Scanner | None = None
    text = b""  # the text read outside of lists, in which the next page may begin
    while piece := lines.read(piece_bytes):
        kept = text[-_MAX_BYTES_BEFORE - _MAX_LIST_BYTES :]
        text, begin = kept + piece, max(len(kept) - _MAX_LIST_BYTES, 0)
        while True:
            if scanner is None:
                if (at := _list_in(text, begin)) is None:
                    break
                scanner, text, begin = _Scanner(), text[at:], 0
            yield from scanner.feed(text, lines.number)
            if not scanner.ended:
                text = b""
                break
            text, scanner = scanner.rest, None
    if scanner is not None:
        raise BrokenFileError(str(lines.path), max(scanner.line, 1), "the list that begins here does not end")


def list_of_page(begin: bytes) -> bytes | None:
    """Return the part of ``begin`` that starts at the list of a page, or ``None`` if it is not a page."""
    begin = begin.lstrip()
    found = _LIST.search(begin, 0, _MAX_BYTES_BEFORE + _MAX_LIST_BYTES)
    if found is None:
        return None
    before = _text_before(found)
    is_page = len(before) == found.start() and _BEFORE.match(before)
    return begin[found.end() :] if is_page else None


def _list_in(text: bytes, begin: int) -> int | None:
    """Return the position in ``text``, from ``begin`` on, of the first list of a page, or ``None``."""
    pages = (found.end() for found in _LIST.finditer(text, begin) if _BEFORE.search(_text_before(found)))
    return next(pages, None)


def _text_before(found: "re.Match[bytes]") -> bytes:
    """Return the text between a list and the last bracket before it, at most _MAX_BYTES_BEFORE bytes.

    These texts do not overlap, so the time of searching them all is linear.
    """
    text = found.string[max(found.start() - _MAX_BYTES_BEFORE, 0) : found.start()]
    return text[max(text.rfind(b"["), text.rfind(b"]")) + 1 :]


class _Scanner:
    """The position in an array: the depth, in a string or not, and the part of an element read so far."""

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""  # the part of the last piece after the end of the array
        self.line = 0  # where the current element begins
        self._depth = 0
        self._in_string = False
        self._skip = 0  # bytes of the next piece that a backslash at the end of this one escapes
        self._held = bytearray()
        self._too_long = False

    def feed(self, piece: bytes, line: int) -> Iterator[tuple[int, bytes | InputError]]:
        """Yield the elements that end in ``piece``, which is part of line ``line``."""
        if self.ended:
            self.rest = piece
            return
        position, begin = self._skip, 0
        while mark := (_INSIDE_STRINGS if self._in_string else _OUTSIDE_STRINGS).search(piece, position):
            position = mark.end()
            sign = mark[0]
            if sign == b"\\":
                position += 1
            elif sign == b'"':
                self._in_string = not self._in_string
            elif sign == b"," and self._depth == 1:
                yield from self._end(piece[begin : mark.start()], line)
                begin = position
            elif sign in b"{[":
                self._depth += 1
                begin = position if self._depth == 1 else begin
            elif sign in b"}]":
                self._depth -= 1
                if not self._depth:
                    yield from self._end(piece[begin : mark.start()], line)
                    self.ended, self.rest = True, piece[position:]
                    return
        self._skip = max(position - len(piece), 0)
        self._hold(piece[begin:], line)

    def _hold(self, text: bytes, line: int) -> None:
        if not self._held and not self._too_long:
            text = text.lstrip()
            self.line = line
        if len(self._held) + len(text) > MAX_LINE_BYTES:
            self._too_long = True
            self._held.clear()
        if not self._too_long:
            self._held += text

    def _end(self, text: bytes, line: int) -> Iterator[tuple[int, bytes | InputError]]:
        self._hold(text, line)
        if self._too_long:
            yield self.line, InputError(f"the entry is longer than {MAX_LINE_BYTES:,} bytes; shorten it")
        elif self._held:
            yield self.line, bytes(self._held.rstrip())
        self._held.clear()
        self._too_long = False
