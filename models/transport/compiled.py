"""Compilation of the package's loops: numba, strict arithmetic, no GIL, cached on disk."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

_P = ParamSpec("_P")
_R = TypeVar("_R")
_REORDERED: Final = {"reassoc", "contract", "nsz"}


class _Index(IndexDataCacheFile):
    """The list of a loop's machine code on disk; empty if that is of another numba or of other sources."""

    def __len__(self) -> int:
        return len(self._load_index())  # type: ignore[no-untyped-call]


class _Cache(FunctionCache):
    """Machine code on disk, stale if the loop's own file or one of this folder has changed.

    A loop may call loops of this folder, whose machine code becomes a part of its own. numba compares the
    loop's own file alone, so after an update it would go on with old code of the others.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = self._impl.locator.get_source_stamp(), _stamp_of_folder()
        self._cache_file = self.index = _Index(self.cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]


@cache
def _stamp_of_folder() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files)


def is_on_disk(loops: Callable[..., object]) -> bool:
    """Return whether another process can load the machine code of compiled ``loops`` from disk.

    True also if no folder for machine code is writable, because to compile it earlier would not help.
    """
    cached = getattr(loops, "_cache", None)
    return not isinstance(cached, _Cache) or len(cached.index) > 0


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
    function: Callable[_P, _R], *, fastmath: bool | set[str], inline: Literal["never", "always"] = "never"
) -> Callable[_P, _R]:
    loops: Any = njit(nogil=True, error_model="numpy", fastmath=fastmath, inline=inline)(function)
    if hasattr(loops, "_cache"):  # with NUMBA_DISABLE_JIT it is the function itself
        with suppress(RuntimeError):  # numba raises this if no cache folder is writable
            loops._cache = _Cache(function)  # noqa: SLF001 - what njit(cache=True) sets
    return cast(Callable[_P, _R], loops)
