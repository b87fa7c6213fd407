"""The view of two papers side by side."""

from dataclasses import dataclass
from urllib.parse import urlencode

from models.types import Facet, Sentence
from service.api.schemas.search.results import ResultOut
from service.match.side_by_side import Side, SideBySide
from service.web.views.results.alignment import AlignmentView, Source, draw_alignment, share_in_words

# The most pairs of facets that are listed.
_MAX_FACETS = 6


@dataclass(frozen=True, slots=True)
class SideSentence:
    """A sentence; ``nearest`` is the number (from 1) of the other paper's nearest sentence, 0 if unknown.

    ``alone``: the other paper is no nearer to it than papers usually are.
    """

    label: int
    text: str
    facet: Facet | None
    nearest: int
    distance: str
    alone: bool


@dataclass(frozen=True, slots=True)
class SideView:
    """One paper; ``name`` is A or B, ``only`` are the words that the other paper lacks.

    ``start`` links to a search for similar papers; it is empty for a pasted paper.
    """

    name: str
    other: str
    id: str
    title: str
    start: str
    affinity: str
    sentences: tuple[SideSentence, ...]
    only: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FacetPair:
    """The share of the match between two facets, as text."""

    a: Facet | None
    b: Facet | None
    share: str
    distance: str


@dataclass(frozen=True, slots=True)
class SidesView:
    """Both papers, the words they share, and the match by facets and by sentences."""

    sides: tuple[SideView, SideView]
    shared: tuple[str, ...]
    facets: tuple[FacetPair, ...]
    alignment: AlignmentView
    turned: str


def view_sides(compared: SideBySide) -> SidesView:
    """Return the view of two papers; the match is that from a to b."""
    a, b = compared.a.paper, compared.b.paper
    result = ResultOut.model_validate(compared.a.other)
    source = Source(
        a.title, tuple(Sentence(each.text, each.start, each.end, each.facet) for each in a.sentences)
    )
    return SidesView(
        (_side("A", "B", compared.a), _side("B", "A", compared.b)),
        tuple(each.term for each in compared.a.other.words.terms),
        tuple(
            FacetPair(each.a, each.b, share_in_words(each.weight), f"{each.distance:.2f}")
            for each in compared.facets[:_MAX_FACETS]
        ),
        draw_alignment(result, [source]),
        address_of(b.id, a.id) if a.id else "",
    )


def address_of(a: str, b: str) -> str:
    """Return the address that shows two papers side by side."""
    return f"/compare?{urlencode({'a': a, 'b': b})}"


def _side(name: str, other: str, side: Side) -> SideView:
    sentences = []
    for number, sentence in enumerate(side.paper.sentences):
        near = side.sentences[number] if number < len(side.sentences) else None
        sentences.append(
            SideSentence(
                number + 1,
                sentence.text,
                sentence.facet,
                near.nearest + 1 if near else 0,
                f"{near.distance:.2f}" if near else "",
                near is not None and near.alone,
            )
        )
    return SideView(
        name,
        other,
        side.paper.id,
        side.paper.title or "Without a title",
        f"/?{urlencode({'paper': side.paper.id})}" if side.paper.id else "",
        f"{side.affinity:.2f}".replace("-", "−"),
        tuple(sentences),
        side.terms,
    )
