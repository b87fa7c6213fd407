"""Rows that are not in memory: the system is asked for all of them at once, not for one after the other.

A map reads what is touched, page by page, and far ahead of it: 1,000 papers of six kB, anywhere in a file of
300 MB, take 300 ms, in which all of it is read; asked for beforehand, 25.
"""

import mmap
import resource
from typing import Final

import numpy as np
from jaxtyping import Int64

# Linux counts for each thread; elsewhere what other threads wait for counts too, and more is asked for.
_WHO: Final = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def disk_reads() -> int:
    """How often this thread has waited for a page from a disk so far; a microsecond."""
    return resource.getrusage(_WHO).ru_majflt


def prefetch(rows: np.ndarray, numbers: Int64[np.ndarray, " n"]) -> int:
    """Has the pages of the rows with these ``numbers`` read, without waiting for them; returns their bytes.

    Of an array that is no map nothing is asked.
    """
    file = _map_of(rows)
    if file is None or not len(numbers):
        return 0
    start = rows.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    row_bytes = rows.strides[0]
    own = np.unique(numbers)
    first = (start + own * row_bytes) // mmap.PAGESIZE
    last = (start + (own + 1) * row_bytes - 1) // mmap.PAGESIZE
    begins = np.flatnonzero(np.concatenate([[True], first[1:] > last[:-1] + 1]))  # the runs of pages
    ends = np.concatenate([begins[1:] - 1, [len(own) - 1]])
    offsets = first[begins] * mmap.PAGESIZE
    sizes = np.minimum((last[ends] + 1) * mmap.PAGESIZE, len(file)) - offsets
    for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
        file.madvise(mmap.MADV_WILLNEED, offset, size)
    return int(sizes.sum())


def _map_of(rows: np.ndarray) -> mmap.mmap | None:
    """The map that an array is a view of."""
    base: object = rows
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, mmap.mmap) else None
