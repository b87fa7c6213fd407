"""The consoles that commands print to; a file or pipe gets lines of any width."""

from typing import Final

from rich.console import Console, ConsoleDimensions

_AS_WIDE_AS_IT_IS: Final = 10_000  # columns


class _AsWideAsNeeded(Console):
    """Breaks lines on a terminal, or where COLUMNS says so, and nowhere else: programs read whole lines."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(highlight=False, stderr=stderr)
        # COLUMNS counts as it is when something is printed, not as it was when a command was first loaded.
        self._width = self._height = None

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        """Columns and lines."""
        size = super().size
        if self.is_terminal or self._environ.get("COLUMNS"):
            return size
        return ConsoleDimensions(_AS_WIDE_AS_IT_IS, size.height)


stdout: Final = _AsWideAsNeeded()
stderr: Final = _AsWideAsNeeded(stderr=True)
