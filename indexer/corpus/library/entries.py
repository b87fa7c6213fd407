"""The names and title by which a library entry is looked up in a collection."""

import re
from dataclasses import dataclass

from indexer.corpus.library.names import name_of
from indexer.corpus.rows import RawPaper, clean

# Names in addition to those of ``name_of``: an address, a number with the name of its service, or the 40 hex
# digits of Semantic Scholar.
_OF_A_SERVICE = re.compile(
    r"(?:https?://|(?:corpusid|mag|pmcid|url):\s{0,5})\S|[0-9a-f]{40}\s{0,5}$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A paper as its file states it, with the names to look it up by, best first, and its title.

    A paper is looked up by its names, then by its title; either may be empty.
    """

    paper: RawPaper
    names: tuple[str, ...]
    title: str


def entry_of(paper: RawPaper, *, keyed: bool) -> Entry:
    """Return the entry of a paper; if it is ``keyed``, its id may be a key that somebody made up.

    Such a key only counts as a name if there is no title: ``smith2020`` is another paper in each library.
    """
    title = clean(paper.title) if isinstance(paper.title, str) else ""
    given = [
        each for each in (paper.doi, paper.lookup, paper.id, paper.url) if isinstance(each, str) and each
    ]
    names = [each for each in given if not (keyed and title and not _is_known(each))]
    return Entry(paper, tuple(dict.fromkeys(names)), title)


def _is_known(name: str) -> bool:
    """Return whether ``name`` has the form of a name that a service gives to papers."""
    return name_of(name) is not None or _OF_A_SERVICE.match(name.strip()) is not None
