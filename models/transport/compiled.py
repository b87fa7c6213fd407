"""The one way this package compiles its loops: numba, strict arithmetic, no GIL, cached on disk."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile ``function`` on its first call; the machine code is kept on disk for the next process.

    Without fast-math, so that a result depends on the arguments alone: not on how a loop was vectorised,
    on where a pair stands in a batch, or on the thread that runs it.
    """
    return _compile(function, fastmath=False)


def compiled_reduction(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """As ``compiled``, and sums over an axis may be reordered when compiled, the same way for every call."""
    return _compile(function, fastmath={"reassoc", "contract", "nsz"})


def _compile(function: Callable[_P, _R], *, fastmath: bool | set[str]) -> Callable[_P, _R]:
    try:
        loops = njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    except RuntimeError:  # numba's way to say that no cache folder is writable
        loops = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    return cast(Callable[_P, _R], loops)
