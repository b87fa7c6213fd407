"""The links of a page, and titles cut to fit into them."""

from dataclasses import dataclass
from typing import Final, TypeVar

_Item = TypeVar("_Item")
# Characters of a title in a line.
_MAX_TITLE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Link:
    """A link with its words and address; if ``on``, its change is in effect, and the link undoes it."""

    words: str
    href: str
    on: bool = False


def toggled(chosen: tuple[_Item, ...], item: _Item) -> tuple[_Item, ...]:
    """Return ``chosen`` without ``item`` if it has it, else with it at the end."""
    return tuple(each for each in chosen if each != item) if item in chosen else (*chosen, item)


def short(title: str, most: int = _MAX_TITLE_CHARS) -> str:
    """Return ``title``, cut after a word if it is longer than ``most`` characters."""
    if len(title) <= most:
        return title
    kept = title[:most].rsplit(" ", 1)[0] if " " in title[:most] else title[:most]
    return f"{kept.rstrip(' ,;:.')} …"
