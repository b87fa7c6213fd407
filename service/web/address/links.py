"""Links of a page."""

from dataclasses import dataclass
from typing import TypeVar

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Link:
    """Words and where they lead; ``on`` where that is so already, and the link takes it back."""

    words: str
    href: str
    on: bool = False


def toggled(chosen: tuple[_Item, ...], item: _Item) -> tuple[_Item, ...]:
    """``chosen`` with ``item``, or without it where it was chosen."""
    return tuple(each for each in chosen if each != item) if item in chosen else (*chosen, item)
