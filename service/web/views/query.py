"""The view of a query: its sentences, facets and filters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from models.facets import matching_facets
from models.text.sentences import split_sentences
from models.types import Facet, Paper
from service.api.schemas.base import PaperOut
from service.web.address.links import Link, toggled
from service.web.address.page_query import MAX_PASTED, PageQuery
from service.web.views.results.cards import in_short, web_address

_FACETS: Final = (Facet.BACKGROUND, Facet.OBJECTIVE, Facet.METHOD, Facet.RESULT, Facet.OTHER)
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class QuerySentence:
    """A sentence to choose; ``opens``: it starts a run of one facet, ``read``: within the encoder's limit."""

    number: int
    text: str
    facet: Facet | None
    opens: bool
    liked: bool
    unliked: bool
    read: bool


@dataclass(frozen=True, slots=True)
class QueryView:
    """The query's paper or text; ``facets`` and ``unlike`` are links that choose facets.

    ``as_abstract`` links to a search with a text of several sentences as an abstract.
    """

    title: str
    about: str
    out: str
    sentences: tuple[QuerySentence, ...]
    whole: Link
    facets: tuple[Link, ...]
    unlike: tuple[Link, ...]
    as_abstract: Link | None


def view_query(page_query: PageQuery, paper: Paper | None, *, n_read: int | None = None) -> QueryView | None:
    """Return the query's sentences and which ``page_query`` chooses; only the first ``n_read`` count."""
    if paper is None:
        return None
    facets = [facet for facet in _FACETS if any(each.facet is facet for each in paper.sentences)]
    if page_query.text:  # a text's facets are those of the sentences it is compared with
        facets = list(_FACETS)
    out = PaperOut.model_validate(paper)
    return QueryView(
        title=paper.title,
        about=in_short(paper),
        out=web_address(out),
        sentences=tuple(_query_sentences(page_query, paper, n_read)),
        whole=Link(
            _whole(page_query),
            page_query.address(facets=(), sentences=()),
            on=not page_query.facets and not page_query.sentences,
        ),
        facets=tuple(_facet_link(page_query, facet) for facet in facets),
        unlike=tuple(_unlike_link(page_query, facet) for facet in facets),
        as_abstract=_as_abstract(page_query),
    )


def _as_abstract(page_query: PageQuery) -> Link | None:
    """Return a link that splits a text into sentences, or ``None`` if it is too long or has only one."""
    if len(page_query.text) > MAX_PASTED or len(split_sentences(page_query.text)) < _SEVERAL:
        return None
    pasted = page_query.address(text="", abstract=page_query.text, facets=())
    return Link("Treat this as an abstract and choose sentences", pasted)


def _whole(page_query: PageQuery) -> str:
    if page_query.text:
        return "any sentence"
    return "everything else" if page_query.unlike_facets or page_query.unlike_sentences else "whole abstract"


def _facet_link(page_query: PageQuery, facet: Facet) -> Link:
    """Return a link that toggles ``facet``, and removes it from the facets to be unlike."""
    href = page_query.address(
        facets=toggled(page_query.facets, facet),
        sentences=(),
        unlike_facets=_apart(page_query.unlike_facets, facet),
    )
    return Link(facet, href, on=facet in page_query.facets)


def _unlike_link(page_query: PageQuery, facet: Facet) -> Link:
    """Return a link that toggles ``facet`` to be unlike, and removes it from the chosen facets."""
    href = page_query.address(
        unlike_facets=toggled(page_query.unlike_facets, facet),
        unlike_sentences=(),
        facets=_apart(page_query.facets, facet),
    )
    return Link(facet, href, on=facet in page_query.unlike_facets)


def _apart(chosen: tuple[Facet, ...], facet: Facet) -> tuple[Facet, ...]:
    """Return the facets of ``chosen`` that share no sentence with ``facet``."""
    return tuple(each for each in chosen if not matching_facets(each) & matching_facets(facet))


def _query_sentences(page_query: PageQuery, paper: Paper, n_read: int | None) -> Iterator[QuerySentence]:
    liked = {match for facet in page_query.facets for match in matching_facets(facet)}
    unliked = {match for facet in page_query.unlike_facets for match in matching_facets(facet)}
    before = None
    for number, sentence in enumerate(paper.sentences):
        yield QuerySentence(
            number=number,
            text=sentence.text,
            facet=sentence.facet,
            opens=sentence.facet is not before or number == 0,
            liked=number in page_query.sentences or sentence.facet in liked,
            unliked=number in page_query.unlike_sentences or sentence.facet in unliked,
            read=n_read is None or number < n_read,
        )
        before = sentence.facet
