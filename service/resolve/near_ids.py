"""Suggestions of ids that are similar to an unknown one."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from jaxtyping import Int8, Int32, Int64, UInt8

from models.transport.compiled import compiled

# The most edits between similar ids; one less for a short id.
_MAX_EDITS = 2
_SHORT_BYTES = 6
# An id with another prefix ("10.1/x" for "doi:10.1/x") must share at least this many bytes.
_SHARED_BYTES = 4


def near_ids(ids: pa.ChunkedArray, wanted: str, *, limit: int) -> list[int]:
    """Return the positions of the ids nearest to ``wanted``, nearest first; at most ``limit``, often none.

    Near ids are at most two edits away (one for a short id), ignoring case. An id that is the end of
    ``wanted``, or ends with it, after a ``:``, ``/`` or ``.``, counts as one edit away. All ids are read: 5
    to 18 ms for 100,000.
    """
    pattern = np.frombuffer(wanted.strip().encode("utf-8", "replace").lower(), np.uint8)
    most = _MAX_EDITS if len(pattern) >= _SHORT_BYTES else _MAX_EDITS - 1
    edits = np.empty(len(ids), np.int8)
    start = 0
    for texts, offsets in _packed(ids):
        end = start + len(offsets) - 1
        _count_edits(texts, offsets, pattern, most, edits[start:end])
        start = end
    near = np.flatnonzero(edits <= most)
    nearest: Int64[np.ndarray, " n"] = near[np.argsort(edits[near], kind="stable")][:limit]
    return [int(position) for position in nearest]


def _packed(ids: pa.ChunkedArray) -> Iterator[tuple[UInt8[np.ndarray, " n_bytes"], Int32[np.ndarray, " n"]]]:
    """Yield, for each chunk, the UTF-8 bytes of its ids, end to end, and the ids' offsets (one more)."""
    for chunk in ids.chunks:
        _, offsets, texts = chunk.buffers()
        bounds = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        packed = np.frombuffer(texts, np.uint8)
        for array in (packed, bounds):  # like arrays of a file: the loops are compiled only for these
            array.setflags(write=False)
        yield packed, bounds


@compiled
def _count_edits(
    texts: UInt8[np.ndarray, " n_bytes"],
    offsets: Int32[np.ndarray, " n_plus_1"],
    wanted: UInt8[np.ndarray, " n_wanted"],
    most: int,
    edits: Int8[np.ndarray, " n"],
) -> None:
    """Write each id's Levenshtein distance from ``wanted``, in bytes, to ``edits``; at most ``most + 1``."""
    n_wanted = len(wanted)
    row = np.empty(n_wanted + 1, np.int64)
    for number in range(len(edits)):
        text = texts[offsets[number] : offsets[number + 1]]
        edits[number] = most + 1
        if _one_ends_the_other(text, wanted):
            edits[number] = 1
        if abs(len(text) - n_wanted) > most:
            continue
        for j in range(n_wanted + 1):
            row[j] = j
        for i in range(len(text)):
            # Cells farther than ``most`` from the diagonal have more edits.
            first = max(i - most, 0)
            diagonal = row[first]
            least = row[first] = i + 1 if first == 0 else most + 1
            for j in range(first, min(i + most + 1, n_wanted)):
                changed = diagonal + (_lower(text[i]) != wanted[j])
                diagonal = row[j + 1]
                row[j + 1] = min(changed, diagonal + 1, row[j] + 1)
                least = min(least, row[j + 1])
            if least > most:
                break
        else:
            edits[number] = min(edits[number], row[n_wanted])


@compiled
def _one_ends_the_other(a: UInt8[np.ndarray, " n"], b: UInt8[np.ndarray, " m"]) -> bool:
    """Return whether the longer text ends with the shorter one, after a mark that ends a prefix."""
    n_shared = min(len(a), len(b))
    if n_shared < _SHARED_BYTES or len(a) == len(b):
        return False
    for back in range(1, n_shared + 1):
        if _lower(a[len(a) - back]) != _lower(b[len(b) - back]):
            return False
    mark: int = a[len(a) - n_shared - 1] if len(a) > n_shared else b[len(b) - n_shared - 1]
    return mark in (58, 47, 46)  # : / .


@compiled
def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte
