"""The consoles that commands print to; lines in a file or pipe may have any width."""

import sys
from typing import Final

from rich.console import Console, ConsoleDimensions

from models.errors import InputError

_AS_WIDE_AS_IT_IS: Final = 10_000  # columns


class _AsWideAsNeeded(Console):
    """A console that wraps lines only on a terminal or if COLUMNS is set: programs read whole lines."""

    def __init__(self, *, stderr: bool = False) -> None:
        # Names and titles may have brackets and colons: text is never read as markup or emoji codes.
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr)
        # Read COLUMNS when something is printed, not when this module is imported.
        self._width = self._height = None

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        """The number of columns and lines."""
        size = super().size
        if self.is_terminal or self._environ.get("COLUMNS"):
            return size
        return ConsoleDimensions(_AS_WIDE_AS_IT_IS, size.height)


def read_input() -> bytes:
    """Return what standard input holds; raises InputError if the program was started without any."""
    if sys.stdin is None:
        raise InputError("Standard input is closed; give a file instead of `-`.")
    return sys.stdin.buffer.read()


stdout: Final = _AsWideAsNeeded()
stderr: Final = _AsWideAsNeeded(stderr=True)
