"""Links of a page."""

from dataclasses import dataclass
from typing import Final, TypeVar

_Item = TypeVar("_Item")
# Characters of a title in a line.
_LONGEST_TITLE: Final = 60


@dataclass(frozen=True, slots=True)
class Link:
    """Words and where they lead; ``on`` where that is so already, and the link takes it back."""

    words: str
    href: str
    on: bool = False


def toggled(chosen: tuple[_Item, ...], item: _Item) -> tuple[_Item, ...]:
    """``chosen`` with ``item``, or without it where it was chosen."""
    return tuple(each for each in chosen if each != item) if item in chosen else (*chosen, item)


def short(title: str, most: int = _LONGEST_TITLE) -> str:
    """``title``, cut behind a word where it is longer than ``most`` characters."""
    if len(title) <= most:
        return title
    kept = title[:most].rsplit(" ", 1)[0] if " " in title[:most] else title[:most]
    return f"{kept.rstrip(' ,;:.')} …"
