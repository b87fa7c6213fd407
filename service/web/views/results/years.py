"""Years as they are drawn: in stretches of as many as leave few enough of them."""

from typing import Final

_LENGTHS: Final = (1, 2, 5, 10, 20, 50, 100, 1_000, 10_000)


def stretch_length(first: int, last: int, *, most: int) -> int:
    """How many years a stretch has, so that at most ``most`` reach from ``first`` to ``last``."""
    return next(n for n in _LENGTHS if last // n - first // n < most)


def stretch_in_words(start: int, length: int) -> str:
    """The years of a stretch."""
    return str(start) if length == 1 else f"{start}–{start + length - 1}"
