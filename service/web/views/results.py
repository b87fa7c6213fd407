"""What the page shows of a query and its answer: sentences to choose from, filters, and where to go on."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from models.facets import counted_as
from models.types import Facet, Paper
from service.api.schemas.base import PaperOut
from service.api.schemas.search import SearchOut
from service.search.query import Reason
from service.web.answered import Answered, sources
from service.web.asked import Asked
from service.web.links import Link, toggled
from service.web.views.cards import Card, make_cards, web_address
from service.web.views.timeline import TimelineView, draw_timeline

_FACETS: Final = (Facet.BACKGROUND, Facet.OBJECTIVE, Facet.METHOD, Facet.RESULT, Facet.OTHER)
_NO_SEED: Final = "None of the papers given can be used; beside each stands why."
EXPORTS: Final = {"BibTeX": "bib", "RIS": "ris", "CSV": "csv"}


@dataclass(frozen=True, slots=True)
class QuerySentence:
    """A sentence to choose; ``opens`` a run of one facet, ``read`` unless past the encoder's limit."""

    number: int
    text: str
    facet: Facet | None
    opens: bool
    liked: bool
    unliked: bool
    read: bool


@dataclass(frozen=True, slots=True)
class QueryView:
    """The paper or text that is asked with; ``facets`` and ``unlike`` are links that choose them."""

    title: str
    about: str
    out: str
    sentences: tuple[QuerySentence, ...]
    whole: Link
    facets: tuple[Link, ...]
    unlike: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class ResultsView:
    """A page of results and where to go on from it; ``detail`` says why there are none.

    ``total`` is how many papers all pages have together, where that is known.
    """

    cards: tuple[Card, ...]
    timeline: TimelineView
    first: int
    last: int
    detail: str
    total: int | None
    warnings: tuple[str, ...]
    took: str
    next: str
    start: str
    permalink: str
    exports: tuple[Link, ...]
    words: Link
    curl: str


def view_query(asked: Asked, paper: Paper | None, *, n_read: int | None = None) -> QueryView | None:
    """The sentences of the query with what ``asked`` chooses of them; ``n_read`` of them count at most."""
    if paper is None:
        return None
    facets = [facet for facet in _FACETS if any(each.facet is facet for each in paper.sentences)]
    if asked.text:  # the facets of what it is compared with, where it is asked with alone
        facets = [] if asked.of_many else list(_FACETS)
    out = PaperOut.model_validate(paper)
    return QueryView(
        title=paper.title,
        about=" · ".join(filter(None, (_first_authors(paper), paper.venue, str(paper.year or "")))),
        out=web_address(out),
        sentences=tuple(_query_sentences(asked, paper, n_read)),
        whole=Link(
            _whole(asked),
            asked.address(facets=(), sentences=()),
            on=not asked.facets and not asked.sentences,
        ),
        facets=tuple(_facet_link(asked, facet) for facet in facets),
        unlike=tuple(_unlike_link(asked, facet) for facet in facets),
    )


def _whole(asked: Asked) -> str:
    if asked.text:
        return "any sentence"
    return "the rest" if asked.unlike_facets or asked.unlike_sentences else "whole abstract"


def view_results(answered: Answered, base_url: str, *, keyed: bool) -> ResultsView:
    """The cards of ``answered`` and its links.

    For programs: ``base_url`` is the service's, which asks for a key if ``keyed``.
    """
    asked, out = answered.asked, answered.out
    cards = make_cards(
        out.results,
        asked,
        first_rank=answered.first_rank,
        n_chosen=n_chosen(answered),
        sources=sources(answered),
    )
    return ResultsView(
        cards=cards,
        timeline=draw_timeline(
            [result.paper for result in out.results],
            first_rank=answered.first_rank,
            link=lambda first, last: asked.address(year_from=first, year_to=last),
        ),
        first=answered.first_rank,
        last=answered.first_rank + len(cards) - 1,
        detail=_NO_SEED if out.reason is Reason.NO_SEED_RESOLVED else out.detail or "",
        total=out.total,
        warnings=tuple(each.message for each in out.warnings),
        took=f"{out.took_ms:,.0f} ms" if out.took_ms >= 1 else "under 1 ms",
        next=asked.address(cursor=out.next_cursor) if out.next_cursor else "",
        start=asked.address() if answered.first_rank > 1 else "",
        permalink=asked.address(),
        exports=tuple(
            Link(words, asked.address(f"/results.{ending}", cursor=asked.cursor))
            for words, ending in EXPORTS.items()
        ),
        words=Link(
            "Shared words count", asked.address(words=None if asked.words == 0 else 0.0), asked.words != 0
        ),
        curl=curl(asked, base_url, keyed=keyed),
    )


def filter_links(asked: Asked) -> tuple[Link, ...]:
    """What is asked of the results beside the query; each link takes one away."""
    links = []
    if asked.year_from is not None or asked.year_to is not None:
        years = f"{asked.year_from or '…'}–{asked.year_to or '…'}"
        links.append(Link(years, asked.address(year_from=None, year_to=None), on=True))
    links += [Link(name, asked.address(venues=toggled(asked.venues, name)), on=True) for name in asked.venues]
    links += [Link(name, asked.address(fields=toggled(asked.fields, name)), on=True) for name in asked.fields]
    return tuple(links)


def curl(asked: Asked, base_url: str, *, keyed: bool) -> str:
    """The same query as a command line; a key stands in it as a variable of the shell."""
    body = orjson.dumps(asked.body(), option=orjson.OPT_INDENT_2).decode("utf-8", "replace")
    url = shlex.quote(f"{base_url.rstrip('/')}{asked.path}")
    key = '  -H "Authorization: Bearer $AKIN_KEY" \\\n' if keyed else ""
    return f"curl {url} \\\n{key}  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def n_chosen(answered: Answered) -> int:
    """How many sentences of the paper asked with count."""
    out = answered.out
    if isinstance(out, SearchOut):
        return max(1, len(out.query.selected))
    own = [seed for seed in out.seeds if seed.seed == 0 and not seed.negative]
    return max(1, len(own[0].selected) if own else 1)


def n_read(answered: Answered) -> int | None:
    """How many sentences of the paper asked with the encoder read; ``None`` where that is not known."""
    out = answered.out
    if answered.paper is None:
        return None
    if isinstance(out, SearchOut):
        return len(answered.paper.sentences) - out.query.dropped_sentences
    dropped = [seed.dropped_sentences for seed in out.seeds if seed.seed == 0 and not seed.negative]
    return len(answered.paper.sentences) - dropped[0] if dropped else None


def _facet_link(asked: Asked, facet: Facet) -> Link:
    """Chooses ``facet``, which is then no longer to be unlike."""
    href = asked.address(
        facets=toggled(asked.facets, facet), sentences=(), unlike_facets=_apart(asked.unlike_facets, facet)
    )
    return Link(facet, href, on=facet in asked.facets)


def _unlike_link(asked: Asked, facet: Facet) -> Link:
    """The other way round."""
    href = asked.address(
        unlike_facets=toggled(asked.unlike_facets, facet),
        unlike_sentences=(),
        facets=_apart(asked.facets, facet),
    )
    return Link(facet, href, on=facet in asked.unlike_facets)


def _apart(chosen: tuple[Facet, ...], facet: Facet) -> tuple[Facet, ...]:
    """Those that share no sentence with ``facet``."""
    return tuple(each for each in chosen if not counted_as(each) & counted_as(facet))


def _query_sentences(asked: Asked, paper: Paper, n_read: int | None) -> Iterator[QuerySentence]:
    liked = {counted for facet in asked.facets for counted in counted_as(facet)}
    unliked = {counted for facet in asked.unlike_facets for counted in counted_as(facet)}
    before = None
    for number, sentence in enumerate(paper.sentences):
        yield QuerySentence(
            number=number,
            text=sentence.text,
            facet=sentence.facet,
            opens=sentence.facet is not before or number == 0,
            liked=number in asked.sentences or sentence.facet in liked,
            unliked=number in asked.unlike_sentences or sentence.facet in unliked,
            read=n_read is None or number < n_read,
        )
        before = sentence.facet


def _first_authors(paper: Paper) -> str:
    authors = paper.authors
    return f"{authors[0]} and others" if len(authors) > 2 else " and ".join(authors)
