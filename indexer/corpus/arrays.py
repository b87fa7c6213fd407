"""The elements of a JSON array, one at a time, with the line each begins on."""

import re
from collections.abc import Iterator
from typing import Final

from indexer.corpus.source import MAX_LINE_BYTES, Lines
from models.errors import BrokenFileError, InputError

# What is read at a time, at most; beside it one element is held.
_PIECE_BYTES: Final = 64 * 1024
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
