"""Parses the JSON of a request after counting its values."""

import json
import re
from collections.abc import Iterator
from json import detect_encoding
from typing import Any, Final

from models.errors import BodyTooLargeError, InputError

MAX_VALUES: Final = 500_000  # a batch of 10,000 pasted abstracts with 20 sentences each has 300,000
MAX_NUMBER_CHARS: Final = 40  # of one number; the longest that a program writes by itself has 24
MAX_NUMBERS_CHARS: Final = 2_000_000  # of all numbers: other threads wait while numbers are parsed
_OF_NUMBERS: Final = b"0123456789.+-eE"
_LONG_NUMBER: Final = re.compile(rb"[0-9.eE+-]{%d}" % (MAX_NUMBER_CHARS + 1))
_PIECE_BYTES: Final = 64 * 1024
_UTF_8: Final = {"utf-8", "utf-8-sig"}


def parsed(content: bytes) -> Any:
    """Return the value of the JSON ``content``.

    Raises UnicodeError for anything but UTF-8, BodyTooLargeError for more than MAX_VALUES values or
    MAX_NUMBERS_CHARS in all numbers, InputError for a number of more than MAX_NUMBER_CHARS, ValueError and
    RecursionError like ``json``.
    """
    if detect_encoding(content) not in _UTF_8:  # the values are counted in bytes of UTF-8
        raise UnicodeError
    n_values, n_number_chars = measured(content)
    for n_given, most, what in (
        (n_values, MAX_VALUES, "values"),
        (n_number_chars, MAX_NUMBERS_CHARS, "characters of numbers"),
    ):
        if n_given > most:
            raise BodyTooLargeError(
                f"The body may hold {most:,} {what}, but has up to {n_given:,}; send it in parts."
            )
    return json.loads(content)


def measured(content: bytes, *, piece_bytes: int = _PIECE_BYTES) -> tuple[int, int]:
    """Return an upper bound on the values and field names in JSON, and the characters of its numbers.

    Characters that begin or separate values outside of strings are counted, ``piece_bytes`` (2 or more) at a
    time; between pieces other threads can run. Raises InputError for a number of more than MAX_NUMBER_CHARS.
    """
    n_values, n_number_chars = 1, 0
    for outside in _outside_texts(content, piece_bytes):
        if _LONG_NUMBER.search(outside):
            raise InputError(f"A number in the body has more than {MAX_NUMBER_CHARS} characters.")
        n_values += sum(map(outside.count, (b",", b":", b"[", b"{")))
        n_number_chars += len(outside) - len(outside.translate(None, _OF_NUMBERS))
    return n_values, n_number_chars


def _outside_texts(content: bytes, piece_bytes: int) -> Iterator[bytes]:
    """Yield the JSON outside of strings, piece by piece: the delimiters of values, and numbers."""
    in_text, start = False, 0
    while start < len(content):
        piece = content[start : start + piece_bytes]
        # Keep a backslash with the character it escapes: an odd one at the end goes to the next piece.
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start + len(piece) < len(content):
            piece = piece[:-1]
        start += len(piece)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[in_text::2])
        in_text ^= len(parts) % 2 == 0
