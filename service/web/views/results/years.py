"""Ranges of years for drawings, long enough that there are only a few of them."""

from typing import Final

_LENGTHS: Final = (1, 2, 5, 10, 20, 50, 100, 1_000, 10_000)


def stretch_length(first: int, last: int, *, most: int) -> int:
    """Return the years per range so that at most ``most`` ranges cover ``first`` to ``last``."""
    return next(n for n in _LENGTHS if last // n - first // n < most)


def stretch_in_words(start: int, length: int) -> str:
    """Return the years of a range as text."""
    return str(start) if length == 1 else f"{start}–{start + length - 1}"
