"""Compilation of the package's loops: numba, strict arithmetic, no GIL, cached on disk."""

from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar, cast

from numba import njit

_P = ParamSpec("_P")
_R = TypeVar("_R")
_REORDERED: Final = {"reassoc", "contract", "nsz"}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile ``function`` on its first call; the machine code is cached on disk for later processes.

    Without fast-math, so that a result depends only on the arguments: not on how a loop was vectorised, on
    the place of a pair in a batch, or on the thread that runs it.
    """
    return _compile(function, fastmath=False)


def compiled_reduction(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same as ``compiled``, but the compiler may reorder sums, in the same way for every call."""
    return _compile(function, fastmath=_REORDERED)


def inlined_reduction(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same as ``compiled_reduction``, as a part of each loop that calls it instead of a call."""
    return _compile(function, fastmath=_REORDERED, inline="always")


def _compile(
    function: Callable[_P, _R], *, fastmath: bool | set[str], inline: str = "never"
) -> Callable[_P, _R]:
    compile_loops = partial(njit, nogil=True, error_model="numpy", fastmath=fastmath, inline=inline)
    try:
        loops = compile_loops(cache=True)(function)
    except RuntimeError:  # numba raises this if no cache folder is writable
        loops = compile_loops()(function)
    return cast(Callable[_P, _R], loops)
