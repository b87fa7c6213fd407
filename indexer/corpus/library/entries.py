"""The identifiers and title by which a library entry is looked up in a collection."""

import re
from dataclasses import dataclass

from indexer.corpus.library.names import name_of
from indexer.corpus.rows import RawPaper, clean

# Beside what ``name_of`` knows: an address, a number with the name of the service that gave it, or the 40
# digits of Semantic Scholar.
_OF_A_SERVICE = re.compile(
    r"(?:https?://|(?:corpusid|mag|pmcid|url):\s{0,5})\S|[0-9a-f]{40}\s{0,5}$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A paper as its file gives it, the names that others know it by, the best first, and its title.

    A paper is looked for by its names, and then by its title. There may be none of either.
    """

    paper: RawPaper
    names: tuple[str, ...]
    title: str


def entry_of(paper: RawPaper, *, keyed: bool) -> Entry:
    """An entry; where it is ``keyed``, its id may be a key that somebody made up.

    Such a key names a paper only where there is no title: ``smith2020`` is another paper in each library.
    """
    title = clean(paper.title) if isinstance(paper.title, str) else ""
    given = [
        each for each in (paper.doi, paper.lookup, paper.id, paper.url) if isinstance(each, str) and each
    ]
    names = [each for each in given if not (keyed and title and not _is_known(each))]
    return Entry(paper, tuple(dict.fromkeys(names)), title)


def _is_known(name: str) -> bool:
    """Whether a service gave this name to a paper."""
    return name_of(name) is not None or _OF_A_SERVICE.match(name.strip()) is not None
