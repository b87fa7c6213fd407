"""``POST /v1/compare``: two papers side by side."""

from pydantic import BaseModel, Field

from models.types import Facet
from service.api.schemas.base import SentenceOut, Strict, TookMs, WarningOut
from service.api.schemas.search.query import QueryIn
from service.api.schemas.search.results import AlignmentOut, OmittedOut, WordsOut
from service.match.side_by_side import Side, SideBySide


class CompareIn(Strict):
    """Two papers, each from the collection, pasted, or a short text."""

    a: QueryIn
    b: QueryIn


class ComparedSentenceOut(SentenceOut):
    """A sentence, and the number of the ``nearest`` sentence of the other paper, at ``distance`` (L2).

    ``usual`` is the mean distance to the nearest sentence of other papers, over a sample of the collection;
    ``alone`` says whether the other paper is no nearer. All are null for sentences past the encoder's limit.
    """

    text: str
    nearest: int | None
    distance: float | None
    usual: float | None
    alone: bool | None


class SideOut(BaseModel):
    """One of two papers, and the other as a result of a search for this one, without specificity.

    ``score`` is minus the sum of weight x distance over ``alignments``, ``omitted`` and ``words``;
    ``affinity`` is 1 - (-score) / (mean of -score over a sample of the collection), the same as in a match
    with a profile that holds only the other paper. ``only_words`` are words that the other paper lacks.
    """

    id: str | None
    title: str
    sentences: list[ComparedSentenceOut]
    only_words: tuple[str, ...]
    score: float
    affinity: float
    alignments: list[AlignmentOut]
    omitted: list[OmittedOut]
    words: WordsOut
    converged: bool
    gap: float = Field(
        description="Upper bound on the distance of the plan's objective from its minimum, in units of "
        "distance; 0 for scorers without transport."
    )

    @classmethod
    def of(cls, side: Side) -> "SideOut":
        """Build from the domain value."""
        nearest = [*side.sentences, *[None] * side.dropped_sentences]
        return cls(
            id=side.paper.id or None,
            title=side.paper.title,
            sentences=[
                ComparedSentenceOut(
                    start=sentence.start,
                    end=sentence.end,
                    facet=sentence.facet,
                    text=sentence.text,
                    nearest=None if near is None else near.nearest,
                    distance=None if near is None else near.distance,
                    usual=None if near is None else near.usual,
                    alone=None if near is None else near.alone,
                )
                for sentence, near in zip(side.paper.sentences, nearest, strict=False)
            ],
            only_words=side.terms,
            score=side.other.score,
            affinity=side.affinity,
            alignments=[AlignmentOut.model_validate(each) for each in side.other.alignments],
            omitted=[OmittedOut.model_validate(each) for each in side.other.omitted],
            words=WordsOut.model_validate(side.other.words),
            converged=side.other.converged,
            gap=side.other.gap,
        )


class FacetShareOut(BaseModel):
    """The share of the match from ``a`` to ``b`` between two facets; null: sentences without a facet."""

    a: Facet | None
    b: Facet | None
    weight: float
    distance: float = Field(description="The mean distance of these sentences, by weight.")


class CompareOut(BaseModel):
    """Two papers compared both ways; ``query_sentence`` is a sentence of the side with the alignment."""

    a: SideOut
    b: SideOut
    facets: list[FacetShareOut]
    generation: str
    warnings: tuple[WarningOut, ...]
    took_ms: TookMs

    @classmethod
    def of(cls, compared: SideBySide) -> "CompareOut":
        """Build from the domain value."""
        return cls(
            a=SideOut.of(compared.a),
            b=SideOut.of(compared.b),
            facets=[
                FacetShareOut(a=each.a, b=each.b, weight=each.weight, distance=each.distance)
                for each in compared.facets
            ],
            generation=compared.generation,
            warnings=tuple(WarningOut.model_validate(each) for each in compared.warnings),
            took_ms=round(compared.took_ms, 3),
        )
