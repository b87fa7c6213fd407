"""JSON of a request: how many values it holds is counted before one of them is made."""

import json
from typing import Any, Final

from models.errors import BodyTooLargeError

MAX_VALUES: Final = 500_000  # a batch of 10,000 pasted abstracts with 20 sentences each has 300,000
_PIECE_BYTES: Final = 64 * 1024


def parsed(content: bytes) -> Any:
    """The value that ``content`` stands for.

    Raises BodyTooLargeError for more than MAX_VALUES values in it, ValueError and RecursionError as ``json``.
    """
    if (n_values := most_values(content)) > MAX_VALUES:
        raise BodyTooLargeError(
            f"The body holds up to {n_values:,} values, and {MAX_VALUES:,} are taken; send it in parts."
        )
    return json.loads(content)


def most_values(content: bytes, *, piece_bytes: int = _PIECE_BYTES) -> int:
    """How many values and names of fields JSON holds at most: what begins or parts them outside of texts.

    It looks at ``piece_bytes`` (2 or more) in one go; between pieces other threads have their turn.
    """
    n_values, in_text, start = 1, False, 0
    while start < len(content):
        piece = content[start : start + piece_bytes]
        # A backslash and what it escapes stay together: an odd one at the end waits for the next piece.
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start + len(piece) < len(content):
            piece = piece[:-1]
        start += len(piece)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[in_text::2])
        n_values += sum(map(outside.count, (b",", b":", b"[", b"{")))
        in_text ^= len(parts) % 2 == 0
    return n_values
