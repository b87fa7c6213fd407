"""The cards of results: sentences with their weights, matches, and links."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from models.types import Paper
from service.api.schemas.base import PaperOut
from service.api.schemas.search.filters import MAX_NAME_CHARS
from service.api.schemas.search.recommendations import SeedAlignmentOut, SeedOmittedOut
from service.api.schemas.search.results import ResultOut, StrengthOut
from service.web.address.further import Further, present_facets
from service.web.address.links import Link
from service.web.address.page_query import PageQuery
from service.web.views.results.alignment import AlignmentView, Source, draw_alignment, share_in_words
from service.web.views.results.sentences import (
    MAX_WORDS,
    CardSentence,
    card_sentences,
    pieces,
    shared_stems,
    shown_at_once,
)
from service.web.views.results.sides import address_of

_MAX_AUTHORS: Final = 6
# The longest address linked from every name, in characters: those of a pasted text would add up to megabytes.
_MAX_LINK_CHARS: Final = 1_000
# The addresses of papers by the prefix of their ids.
_ARCHIVES: Final = {
    "arxiv": "https://arxiv.org/abs/",
    "acl": "https://aclanthology.org/",
    "pmid": "https://pubmed.ncbi.nlm.nih.gov/",
    "doi": "https://doi.org/",
}
# Characters of a DOI that are not escaped in an address.
_SAFE_IN_DOI: Final = "/:;()._-"


@dataclass(frozen=True, slots=True)
class PaperLinks:
    """The authors, venue and year of a paper; each name links to the same search limited to its papers.

    ``n_more`` authors are not listed. Links without an address are plain text.
    """

    authors: tuple[Link, ...]
    n_more: int
    venue: Link | None
    year: int | None


@dataclass(frozen=True, slots=True)
class CardWord:
    """A word that query and result share; ``share`` is its part of the weight of all, as text."""

    term: str
    share: str
    unlike: bool


@dataclass(frozen=True, slots=True)
class SeedShare:
    """One of several seeds that a result matches, and its share of the match, as text."""

    title: str
    share: str
    negative: bool


@dataclass(frozen=True, slots=True)
class Card:
    """The card of one result; addresses are empty if there is none.

    ``heading`` is the title in pieces, each with whether it is a shared word that counts.
    ``lead`` names the authors in short.
    ``sentences`` are those shown at once, ``whole`` all sentences if there are more. ``bar`` is 20 to 100
    within its page: 100 is the closest. ``strength`` is a word, ``nearer_than`` a sentence that explains it.
    ``alignment`` is set for an opened card, ``why`` opens it; ``beside`` compares it with the query's paper.
    """

    rank: int
    id: str
    title: str
    heading: tuple[tuple[str, bool], ...]
    about: PaperLinks
    lead: str
    year: int | None
    score: str
    strength: str
    nearer_than: str
    bar: int
    sentences: tuple[CardSentence, ...]
    whole: tuple[CardSentence, ...]
    words: tuple[CardWord, ...]
    seed_shares: tuple[SeedShare, ...]
    alignment: AlignmentView | None
    why: str
    beside: str
    out: str
    start: str
    more: str
    less: str


def make_cards(
    results: Sequence[ResultOut],
    page_query: PageQuery,
    *,
    ranks: Sequence[int],
    n_chosen: int,
    sources: Sequence[Source],
) -> tuple[Card, ...]:
    """Return the cards of a page, found for ``sources``; ``n_chosen`` sentences of the first source count."""
    scores, linked = [result.score for result in results], links_names(page_query)
    return tuple(
        _card(
            result,
            page_query,
            rank,
            about=paper_links(page_query, result.paper, linked=linked),
            bar=_bar(result.score, scores),
            n_chosen=n_chosen,
            sources=sources,
        )
        for rank, result in zip(ranks, results, strict=True)
    )


def web_address(paper: PaperOut) -> str:
    """Return a paper's web address by its DOI, its corpus, or its id; only http(s), "" if there is none."""
    if paper.doi:
        doi = paper.doi.lower().removeprefix("https://doi.org/").removeprefix("doi:")
        return _archive_address(f"doi:{doi}") if doi.startswith("10.") else ""
    url = paper.url or ""
    return url if url.lower().startswith(("https://", "http://")) else _archive_address(paper.id)


def _archive_address(paper_id: str) -> str:
    """Return the address of an id of arXiv, the ACL Anthology or PubMed, or of a DOI; "" for other ids."""
    archive, _, name = paper_id.partition(":")
    return f"{_ARCHIVES[archive]}{quote(name, safe=_SAFE_IN_DOI)}" if name and archive in _ARCHIVES else ""


def _card(
    result: ResultOut,
    page_query: PageQuery,
    rank: int,
    *,
    about: PaperLinks,
    bar: int,
    n_chosen: int,
    sources: Sequence[Source],
) -> Card:
    paper = result.paper
    facets = {sentence.facet for sentence in paper.sentences}
    further = Further(paper.id, present_facets(page_query.facets, facets))
    sentences = card_sentences(result, n_chosen)
    shown = shown_at_once(sentences)
    return Card(
        rank=rank,
        id=paper.id,
        title=paper.title or "Without a title",
        heading=tuple(pieces(paper.title, shared_stems(result))) or (("Without a title", False),),
        about=about,
        lead=first_authors(paper.authors),
        year=paper.year,
        score=f"{result.score:.3f}".replace("-", "−"),
        strength=result.strength.label if result.strength else "",
        nearer_than=_nearer_than(result.strength) if result.strength else "",
        bar=bar,
        sentences=shown,
        whole=sentences if len(shown) < len(sentences) else (),
        words=tuple(
            CardWord(each.term, share_in_words(abs(each.share)), unlike=each.share < 0)
            for each in result.words.terms[:MAX_WORDS]
        ),
        seed_shares=tuple(_seed_shares(result, sources)) if len(sources) > 1 else (),
        # Only drawn for an opened card: drawings are many times larger than the rest of a card.
        alignment=draw_alignment(result, sources) if rank == page_query.opened else None,
        why=f"{page_query.address(cursor=page_query.cursor, opened=rank)}#result-{rank}",
        beside=_beside(page_query, paper.id),
        out=web_address(paper),
        start=page_query.start_from(Further(paper.id), facets).address(),
        more=page_query.address(like=(*page_query.like, further)),
        less=page_query.address(not_like=(*page_query.not_like, further)),
    )


def _beside(page_query: PageQuery, paper_id: str) -> str:
    """Return the address that compares a result with the query's paper, "" if the query has none."""
    if page_query.paper:
        return address_of(page_query.paper, paper_id)
    pasted = {"title": page_query.title, "abstract": page_query.abstract}
    return f"/compare?{urlencode({**pasted, 'b': paper_id})}" if page_query.abstract else ""


def _nearer_than(strength: StrengthOut) -> str:
    return f"Closer than {strength.nearer_than:.0%} of the papers here are to their closest paper."


def _bar(score: float, scores: Sequence[float]) -> int:
    best, worst = max(scores), min(scores)
    # If all scores are equal, all bars are full; the last bar of a page is still visible.
    return 100 if best == worst else round(100 - 80 * (best - score) / (best - worst))


def _seed_shares(result: ResultOut, sources: Sequence[Source]) -> Iterator[SeedShare]:
    """Yield the seeds that make up the match, heaviest first."""
    titles = {(source.negative, source.seed): source.title for source in sources}
    weights: defaultdict[tuple[bool, int], float] = defaultdict(float)
    for each in (*result.alignments, *result.omitted):
        if isinstance(each, SeedAlignmentOut | SeedOmittedOut) and each.seed is not None:
            weights[each.negative, each.seed] += each.weight
    for key, weight in sorted(weights.items(), key=lambda item: -item[1]):
        yield SeedShare(titles.get(key, "another paper"), share_in_words(weight), key[0])


def links_names(page_query: PageQuery) -> bool:
    """Return whether names are links on a page of ``page_query``: not if its address is long."""
    return len(page_query.address()) <= _MAX_LINK_CHARS


def paper_links(page_query: PageQuery, paper: PaperOut, *, linked: bool) -> PaperLinks:
    """Return the links of ``paper`` to filter the search ``page_query``; ``linked`` as ``links_names`` says.

    A name too long for a filter has no address.
    """

    def link(name: str, **filters: tuple[str, ...]) -> Link:
        return Link(name, page_query.address(**filters) if linked and len(name) <= MAX_NAME_CHARS else "")

    return PaperLinks(
        authors=tuple(link(name, authors=(name,)) for name in paper.authors[:_MAX_AUTHORS]),
        n_more=max(0, len(paper.authors) - _MAX_AUTHORS),
        venue=link(paper.venue, venues=(paper.venue,)) if paper.venue else None,
        year=paper.year,
    )


def in_short(paper: Paper | PaperOut) -> str:
    """Return a paper's authors, venue and year in short; "" if none of these is known."""
    known = (first_authors(paper.authors), _apart(paper.venue or ""), str(paper.year or ""))
    return " · ".join(filter(None, known))


def first_authors(authors: Sequence[str]) -> str:
    """Return the authors in short: both of two, or the first "and others"."""
    shown = list(map(_apart, authors[:2]))
    return f"{shown[0]} and others" if len(authors) > 2 else " and ".join(shown)


def _apart(name: str) -> str:
    """Return a name in marks that keep its direction of writing from its neighbours, if it may need them."""
    return name if name.isascii() else f"\u2068{name}\u2069"
