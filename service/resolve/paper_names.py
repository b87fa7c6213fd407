"""The papers of a collection by name: id, DOI, arXiv id, address or title."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from indexer.snapshot.snapshot import Snapshot
from models.errors import PaperNotFoundError, QueryError
from service.context import check_deadline
from service.resolve.identifiers import Identifiers, Names, names_of
from service.resolve.near_ids import near_ids
from service.resolve.titles import Titles

NOT_HERE: Final = "No paper of this collection has this title, DOI or id"
# A shorter name is compared with whole titles alone, as too many contain it.
_MIN_PART_CHARS: Final = 8
# Titles that are looked up between two checks of the deadline.
_TITLES_AT_ONCE: Final = 1_000


class PaperNames:
    """Finds the papers of one snapshot by their names; safe to share between threads.

    Titles, DOIs and addresses are read when first needed.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def identifiers(self) -> Identifiers:
        """The papers by their names in other services."""
        return Identifiers(self._snapshot)

    @cached_property
    def titles(self) -> Titles:
        """The titles of the collection."""
        return Titles.of(self._snapshot)

    def position(self, name: str) -> int:
        """Return the position of the paper with this id, DOI, arXiv id, address or title.

        Case and punctuation of a title do not matter; if several papers have the title, the first is
        returned. Raises PaperNotFoundError.
        """
        position = self.identifiers.position(name)
        if position is None and _may_be_title(name):
            position = self.titles.named(name)
        if position is None:
            n_papers, papers = len(self._snapshot), self._snapshot.positions
            example = f", the first is {self._snapshot.paper(int(papers[0])).id!r}" if n_papers else ""
            raise PaperNotFoundError(
                f"{NOT_HERE}; it holds {n_papers:,} papers{example}. Give its title and abstract instead."
            )
        return position

    def positions(self, names: Sequence[str]) -> list[int | None]:
        """Return the positions of the papers with these names, as ``position`` does; ``None`` if unknown.

        Titles are looked up together, in a hundredth of the time. Raises DeadlineError.
        """
        found = []
        for name in names:
            check_deadline()
            found.append(self.identifiers.position(name))
        titles = [
            number for number, place in enumerate(found) if place is None and _may_be_title(names[number])
        ]
        for first in range(0, len(titles), _TITLES_AT_ONCE):
            check_deadline()
            some = titles[first : first + _TITLES_AT_ONCE]
            named = self.titles.all_named([names[number] for number in some])
            for number, place in zip(some, named, strict=True):
                found[number] = place
        return [
            self._snapshot.find(name) if place is None else place
            for name, place in zip(names, found, strict=True)
        ]

    def near(self, name: str, *, limit: int) -> list[int]:
        """Return at most ``limit`` papers that an unknown ``name`` may mean: by id or else by title.

        All ids are read, and then all titles. Raises DeadlineError.
        """
        check_deadline()
        near = near_ids(self._snapshot.column("id"), name, limit=limit)
        if near := [position for position in near if self._snapshot.live[position]]:
            return near
        find = self.titles.like if len(name.strip()) < _MIN_PART_CHARS else self.titles.find
        try:
            return [match.position for match in find(name, limit=limit)]
        except QueryError:  # a name without a letter or digit
            return []

    def same_title(self, title: str) -> list[int]:
        """Return the positions of all papers whose title has the same words."""
        return self.titles.same(title)


def _may_be_title(name: str) -> bool:
    """Return whether a name that is no id may be a title: a DOI, an address or similar is not."""
    return " " in name or names_of(name) == Names()
