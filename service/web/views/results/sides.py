"""Two papers side by side as they are shown."""

from dataclasses import dataclass
from urllib.parse import urlencode

from models.types import Facet, Sentence
from service.api.schemas.search.results import ResultOut
from service.match.side_by_side import Side, SideBySide
from service.web.views.results.alignment import AlignmentView, Source, draw_alignment, share_in_words

# Pairs of facets that are listed.
_MOST_FACETS = 6


@dataclass(frozen=True, slots=True)
class SideSentence:
    """A sentence: ``nearest`` is the number (from 1) of the nearest of the other paper, 0 where none is told.

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
    """One paper: ``name`` is A or B, ``start`` leads to what is akin to it, ``only`` are its words alone.

    A pasted paper has no ``start``.
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
    """How much of the match lies between two facets, in words."""

    a: Facet | None
    b: Facet | None
    share: str
    distance: str


@dataclass(frozen=True, slots=True)
class SidesView:
    """Both papers, the words they share, the match by facet and by sentences."""

    sides: tuple[SideView, SideView]
    shared: tuple[str, ...]
    facets: tuple[FacetPair, ...]
    alignment: AlignmentView
    turned: str


def view_sides(compared: SideBySide) -> SidesView:
    """Two papers as they are shown; the match is that from a to b."""
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
            for each in compared.facets[:_MOST_FACETS]
        ),
        draw_alignment(result, [source]),
        address_of(b.id, a.id) if a.id else "",
    )


def address_of(a: str, b: str) -> str:
    """Where two papers stand side by side."""
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
