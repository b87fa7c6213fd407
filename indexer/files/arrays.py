"""Reads ``.npy`` files, in one thread at a time."""

from pathlib import Path
from threading import Lock
from typing import Final, Literal

import numpy as np

# NumPy parses the header of a file with ``ast``; Python 3.11 may fail if two threads do so at once (its issue
# 106905): a SystemError about a recursion depth.
_PARSING: Final = Lock()


def load_array(path: Path, *, mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """Return the array of a file, memory-mapped with ``mmap_mode="r"``; raises as ``numpy.load`` does."""
    with _PARSING:
        array: np.ndarray = np.load(path, mmap_mode=mmap_mode)
    return array
