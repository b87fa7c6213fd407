"""The view of a library: entries that the collection has, and those it lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.web.address.further import Further
from service.web.address.given import MAX_FURTHER_PAPERS, MAX_NAME_CHARS
from service.web.address.links import Link
from service.web.address.page_query import MAX_PASTED, PageQuery
from service.web.library import Library, MissingEntry
from service.web.views.results.cards import in_short


@dataclass(frozen=True, slots=True)
class OwnPaper:
    """A paper of the library that the collection has; ``chosen`` if it is new and an address has room."""

    id: str
    title: str
    about: str
    chosen: bool
    start: str


# Total characters of addresses with abstracts; later addresses have the title alone.
_MAX_LINKED: Final = 300_000


@dataclass(frozen=True, slots=True)
class MissingPaper:
    """A paper of the library that the collection lacks, with a link to similar papers."""

    line: int
    words: Link


@dataclass(frozen=True, slots=True)
class LibraryView:
    """A library called ``name``; ``kept`` are the parameters of the query that its papers are added to.

    ``n_chosen`` of its papers are chosen and ``most`` can be; ``n_more`` of the ``n_lacking`` missing ones
    are not listed.
    """

    name: str
    papers: tuple[OwnPaper, ...]
    n_chosen: int
    most: int
    lacking: tuple[MissingPaper, ...]
    n_lacking: int
    n_more: int
    is_cut: bool
    kept: tuple[tuple[str, str], ...]


def view_library(page_query: PageQuery, library: Library, name: str) -> LibraryView:
    """Return the view of ``library``, with the papers chosen that fit into the query ``page_query``."""
    named = [each.name for each in (*page_query.like, *page_query.not_like)]
    left, chars = MAX_FURTHER_PAPERS - len(named), MAX_NAME_CHARS // 2 - sum(map(len, named))
    papers = []
    for paper in library.papers:
        chars -= len(paper.id)
        chosen = left > 0 and chars >= 0 and paper.id not in named and paper.id != page_query.paper
        left -= chosen
        facets = {sentence.facet for sentence in paper.sentences}
        papers.append(
            OwnPaper(
                paper.id,
                paper.title or paper.id,
                in_short(paper),
                chosen,
                page_query.start_from(Further(paper.id), facets).address(),
            )
        )
    return LibraryView(
        name=name,
        papers=tuple(papers),
        n_chosen=sum(paper.chosen for paper in papers),
        most=MAX_FURTHER_PAPERS - len(named),
        lacking=tuple(_lacking(library.missing, page_query.beside)),
        n_lacking=library.n_missing,
        n_more=library.n_missing - len(library.missing),
        is_cut=library.is_cut,
        kept=tuple(page_query.parameters()),
    )


def _lacking(missing: Sequence[MissingEntry], beside: PageQuery) -> Iterator[MissingPaper]:
    """Yield the missing papers with links that search for them with the filters of ``beside``."""
    left = _MAX_LINKED
    for each in missing:
        page_query = replace(beside, text=each.title)
        if 0 < len(each.abstract) <= MAX_PASTED:
            page_query = replace(beside, title=each.title, abstract=each.abstract)
        href = page_query.address() if page_query.has_seeds else ""
        left -= len(href) if page_query.abstract else 0
        if page_query.abstract and left < 0:
            href = replace(beside, text=each.title).address() if each.title else ""
        yield MissingPaper(each.line, Link(each.words, href))
