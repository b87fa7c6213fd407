"""The elements of a JSON array, one at a time, with the line each begins on."""

import re
from collections.abc import Iterator
from typing import Final

from indexer.corpus.source import MAX_LINE_BYTES, Lines
from models.errors import BrokenFileError, InputError

# What is read at a time, at most; beside it one element is held.
_PIECE_BYTES: Final = 64 * 1024
# A page of the answers of OpenAlex, Semantic Scholar or Crossref, up to its list of objects.
_PAGE: Final = re.compile(
    rb'\{\s{0,20}(?:"(?:meta|total|offset|next|token|status)"\s{0,20}:[^\[\]]{0,1000})?'
    rb'"(?:results|data|items|recommendedPapers)"\s{0,20}:\s{0,20}(?=\[\s{0,200}\{)'
)
_MOST_BEFORE: Final = 4 * 1024  # bytes, in which a page begins
_OUTSIDE_STRINGS = re.compile(rb'["{}\[\],]')
_INSIDE_STRINGS = re.compile(rb'["\\]')


def array_elements(lines: Lines, piece_bytes: int = _PIECE_BYTES) -> Iterator[tuple[int, bytes | InputError]]:
    """Yield ``(line, text)`` for what stands between the commas of the array that ``lines`` hold.

    At most ``piece_bytes`` are read at a time. An element over MAX_LINE_BYTES is read past without being
    held, and becomes an InputError. Raises BrokenFileError where the array does not end, or something stands
    behind its end.
    """
    scanner = _Scanner()
    while piece := lines.read(piece_bytes):
        yield from scanner.feed(piece, lines.number)
        if scanner.rest.strip():
            raise BrokenFileError(str(lines.path), lines.number, "there is text after the end of the list")
    if not scanner.ended:
        raise BrokenFileError(str(lines.path), max(scanner.line, 1), "the list that begins here does not end")


def page_elements(lines: Lines, piece_bytes: int = _PIECE_BYTES) -> Iterator[tuple[int, bytes | InputError]]:
    """The same of the lists in one page of answers or several; what stands around them is passed over.

    Raises BrokenFileError where a list does not end.
    """
    scanner: _Scanner | None = None
    text = b""  # in which no page begins, or what is left of the last one
    while piece := lines.read(piece_bytes):
        text = text[-_MOST_BEFORE:] + piece
        while True:
            if scanner is None:
                if (page := _PAGE.search(text)) is None:
                    break
                scanner, text = _Scanner(), text[page.end() :]
            yield from scanner.feed(text, lines.number)
            if not scanner.ended:
                text = b""
                break
            text, scanner = scanner.rest, None
    if scanner is not None:
        raise BrokenFileError(str(lines.path), max(scanner.line, 1), "the list that begins here does not end")


def list_of_page(begin: bytes) -> bytes | None:
    """Of a file that begins so what stands from the list of a page on; ``None`` where it is no page."""
    begin = begin.lstrip()
    page = _PAGE.match(begin)
    return None if page is None else begin[page.end() :]


class _Scanner:
    """Where one is in an array: how deep, in a string or not, and what of an element was read so far."""

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""  # what of the last piece stands behind the end
        self.line = 0  # where the element that is read begins
        self._depth = 0
        self._in_string = False
        self._skip = 0  # bytes of the next piece that a backslash at the end of the last one escapes
        self._held = bytearray()
        self._too_long = False

    def feed(self, piece: bytes, line: int) -> Iterator[tuple[int, bytes | InputError]]:
        """Yield the elements that end in ``piece``, which is of one line."""
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
