"""Damage to files, for tests of its detection."""

from collections.abc import Callable
from pathlib import Path


def flip(path: Path) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Cut the last five bytes of a file."""
    path.write_bytes(path.read_bytes()[:-5])


DAMAGE: dict[str, Callable[[Path], None]] = {"flipped": flip, "cut": cut, "gone": Path.unlink}
