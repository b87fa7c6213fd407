"""The view of papers listed without a query."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.api.schemas.base import PaperOut
from service.web.address.further import Further
from service.web.paper_listing import PaperListing
from service.web.views.results.cards import PaperLinks, links_names, paper_links, web_address


@dataclass(frozen=True, slots=True)
class ListedPaper:
    """A paper of the list; ``start`` links to a search for similar papers with the same filters."""

    id: str
    title: str
    about: PaperLinks
    opening: str
    start: str
    out: str


@dataclass(frozen=True, slots=True)
class BrowseView:
    """A page of the list with links to its neighbours; ``detail`` says why it is empty, if that is known."""

    papers: tuple[ListedPaper, ...]
    total: int
    first: int
    last: int
    previous: str
    next: str
    detail: str


def view_browsed(browsed: PaperListing) -> BrowseView:
    """Return the papers of ``browsed`` and its links."""
    page_query, papers = browsed.page_query, tuple(_papers(browsed))
    return BrowseView(
        papers=papers,
        total=browsed.total,
        first=browsed.first,
        last=browsed.first + len(papers) - 1,
        previous=page_query.address(cursor=browsed.previous_cursor) if browsed.previous_cursor else "",
        next=page_query.address(cursor=browsed.next_cursor) if browsed.next_cursor else "",
        detail=browsed.detail,
    )


def _papers(browsed: PaperListing) -> Iterator[ListedPaper]:
    linked = links_names(browsed.page_query)
    for paper in browsed.papers:
        out = PaperOut.model_validate(paper)
        yield ListedPaper(
            id=paper.id,
            title=paper.title or "Without a title",
            about=paper_links(browsed.page_query, out, linked=linked),
            opening=paper.sentences[0].text if paper.sentences else "",
            start=browsed.page_query.start_from(Further(paper.id), ()).address(),
            out=web_address(out),
        )
