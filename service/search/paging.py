"""Pages: one ranked list, the same however it is cut into pages after the first and however far it is read.

The list is made of stretches of ``depth`` papers: the nearest by single match, re-ranked among themselves,
then the next nearest, re-ranked, and so on. So no page changes what an earlier one showed, and a page deep in
the list costs no more re-ranking than the first. Within a stretch scores descend; from one to the next they
may rise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# Papers in a list, at most: what a person never reads to the end, and a bound on the work of one page.
LONGEST_LIST = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page begins: after ``offset`` papers of the list that has stretches of ``depth``.

    ``depth`` 0 leaves its choice to the first page; all further pages keep it.
    """

    offset: int = 0
    depth: int = 0


FIRST_PAGE = Page()


@dataclass(frozen=True, slots=True)
class Stretch:
    """What of one stretch is on a page: ``limit`` papers after the first ``skip``.

    The stretch itself holds the candidates ``start`` to ``stop`` of the list.
    """

    start: int
    stop: int
    skip: int
    limit: int


def stretches(page: Page, stop: int) -> Iterator[Stretch]:
    """The stretches that hold the papers ``page.offset`` up to ``stop``, in order."""
    for start in range(page.offset // page.depth * page.depth, stop, page.depth):
        first, last = max(page.offset, start), min(stop, start + page.depth)
        yield Stretch(start, start + page.depth, first - start, last - first)
