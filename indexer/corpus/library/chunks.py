"""Reads a text file one entry at a time, if each entry begins on a new line: BibTeX, RIS and NBIB."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from indexer.corpus.source import Lines, decoded
from models.errors import BrokenFileError, InputError

# Ten times the longest abstract that is accepted; a parser gets no more at a time.
MAX_ENTRY_BYTES: Final = 1024 * 1024
# Parsers join the lines of a field one by one, which takes quadratic time.
MAX_ENTRY_LINES: Final = 10_000
_TOO_LONG: Final = (
    f"the entry has more than {MAX_ENTRY_BYTES:,} bytes or {MAX_ENTRY_LINES:,} lines; shorten it"
)
_LONG_LINE: Final = (
    f"the line has more than {MAX_ENTRY_BYTES:,} bytes, so no entry in it is read; begin each on a new line"
)
_LINE_END = re.compile(r"\r?\n")


def split_lines(text: str) -> list[str]:
    """Return the lines of an entry; unlike ``str.splitlines``, keep characters such as U+2028 in the text."""
    return _LINE_END.split(text)


def entry_chunks(
    lines: Lines, *, begins: "re.Pattern[bytes]", ends: Callable[[bytes], bool]
) -> Iterator[tuple[int, str | InputError, bool]]:
    """Yield ``(line, text, is_last)`` for each entry, from a line that ``begins`` matches to the next such.

    Text before the first entry is skipped. One entry is held at a time; an entry over the limits, or with
    bytes that are not text, becomes an InputError. If the file breaks off, the last entry is only yielded if
    ``ends`` accepts its last line that is not blank; then BrokenFileError is raised.
    """
    chunk: _Chunk | None = None
    while True:
        try:
            line = next(lines)
        except StopIteration:
            break
        except BrokenFileError:
            if chunk is not None and ends(chunk.last):
                yield chunk.line, chunk.content(), False
            raise
        except InputError as error:
            chunk = chunk or _Chunk(lines.number)
            chunk.error = error
            continue
        if begins.match(line):
            if chunk is not None:
                yield chunk.line, chunk.content(), False
            chunk = _Chunk(lines.number)
        if chunk is not None:
            chunk.add(line)
    if chunk is not None:
        yield chunk.line, chunk.content(), True


class _Chunk:
    """The lines of an entry that begins at ``line``; ``error`` is the reason if it cannot be used."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.last = b""
        self.error: InputError | None = None
        self._lines: list[bytes] = []
        self._bytes = 0

    def add(self, line: bytes) -> None:
        """Add a line; if the entry is over the limits, drop all lines and set ``error``."""
        self._bytes += len(line)
        is_over = self._bytes > MAX_ENTRY_BYTES or len(self._lines) == MAX_ENTRY_LINES
        if is_over and self.error is None:
            # A whole file may be on the line that begins with this entry.
            self.error = InputError(_LONG_LINE if self._bytes == len(line) else _TOO_LONG)
            self._lines.clear()
        if self.error is None:
            self._lines.append(line)
        self.last = line if line.strip() else self.last

    def content(self) -> str | InputError:
        """Return the text of the entry, or the reason why it cannot be used."""
        if self.error is not None:
            return self.error
        try:
            return decoded(b"".join(self._lines), "the entry")
        except InputError as error:
            return error
