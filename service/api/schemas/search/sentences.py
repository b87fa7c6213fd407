"""``POST /v1/sentences/search`` and ``POST /v1/analyze``."""

from typing import Annotated

import numpy as np
from jaxtyping import Float32
from pydantic import BaseModel, Field, Tag

from models.facets import FACETS
from models.text.sentences import MAX_SENTENCE_CHARS
from models.types import Facet, Paper
from service.api.schemas.base import (
    NOT_BLANK,
    WHOLE,
    WITH_TEXT,
    Facets,
    Out,
    PaperName,
    SentenceOut,
    Strict,
    TookMs,
    WarningOut,
    facet_tuple,
    kind_of,
    of_answer,
    tag,
)
from service.api.schemas.search.filters import FiltersIn
from service.resolve.analysis import Analysis
from service.search.query import Reason
from service.search.sentences import FoundSentence, Likeness, SentenceAnswer, SentenceQuery

# Probabilities are given to four digits; more would be noise.
_PARTS = 10_000

_Sentence = Annotated[str, Field(max_length=MAX_SENTENCE_CHARS, json_schema_extra=WITH_TEXT), NOT_BLANK]


class SentenceTextIn(Strict):
    """A text, taken as one sentence without context."""

    text: _Sentence


class IndexedSentenceIn(Strict):
    """Sentence number ``sentence``, from 0, of a paper of the collection."""

    paper_id: PaperName
    sentence: Annotated[int, Field(ge=0), WHOLE]


SentenceQueryIn = Annotated[
    Annotated[SentenceTextIn, Tag(tag("text"))] | Annotated[IndexedSentenceIn, Tag(tag("paper_id"))],
    kind_of("text", "paper_id", problem="give either text, or paper_id and sentence"),
]


class SentenceSearchIn(Strict):
    """A search for sentences: the one to start from, how they should be like it, and what to return."""

    query: SentenceQueryIn
    by: Annotated[Likeness, Field(strict=False)] = Field(
        default=Likeness.MEANING, description="Compare by meaning, or by rhetorical function."
    )
    facet: Facets | None = Field(
        default=None, description="Only sentences of this facet, or of these; background covers objective."
    )
    filters: FiltersIn = FiltersIn()
    limit: Annotated[int, Field(ge=1, le=100), WHOLE] = 10

    def to_query(self) -> SentenceQuery:
        """Return the domain value."""
        return SentenceQuery(
            **self.query.model_dump(),
            by=self.by,
            facets=facet_tuple(self.facet),
            filters=self.filters.to_filters(),
            limit=self.limit,
        )


class PaperSummaryOut(Out):
    """A paper without its abstract, which is at ``/v1/papers/{id}``."""

    id: str
    title: str
    year: int | None
    venue: str | None
    authors: tuple[str, ...]
    url: str | None
    doi: str | None


class FoundSentenceOut(BaseModel):
    """One sentence, ``abstract[start:end]`` of its paper, and its L2 distance from the query sentence."""

    paper: PaperSummaryOut
    sentence: int
    text: str
    start: int
    end: int
    facet: Facet | None
    distance: float

    @classmethod
    def of(cls, found: FoundSentence) -> "FoundSentenceOut":
        """Build from the domain value."""
        sentence = found.paper.sentences[found.sentence]
        return cls(
            paper=PaperSummaryOut.model_validate(found.paper),
            sentence=found.sentence,
            text=sentence.text,
            start=sentence.start,
            end=sentence.end,
            facet=sentence.facet,
            distance=found.distance,
        )


class SentenceQueryOut(BaseModel):
    """How the query was read; a text has no paper."""

    paper_id: str | None
    title: str | None
    sentence: int | None
    text: str
    facet: Facet | None
    by: Likeness

    @classmethod
    def of(cls, paper: Paper, sentence: int, *, by: Likeness) -> "SentenceQueryOut":
        """Build from sentence number ``sentence`` of ``paper``."""
        chosen, indexed = paper.sentences[sentence], bool(paper.id)
        return cls(
            paper_id=paper.id if indexed else None,
            title=paper.title if indexed else None,
            sentence=sentence if indexed else None,
            text=chosen.text,
            facet=chosen.facet,
            by=by,
        )


class SentenceSearchOut(BaseModel):
    """Sentences, nearest first, each wording once; if none, ``reason``, and ``detail`` in words, say why."""

    query: SentenceQueryOut
    results: list[FoundSentenceOut]
    generation: str
    reason: Reason | None
    detail: str | None
    warnings: tuple[WarningOut, ...]
    coverage: float = Field(description="The share of the collection's papers that was searched.", ge=0, le=1)
    took_ms: TookMs

    @classmethod
    def of(cls, answer: SentenceAnswer) -> "SentenceSearchOut":
        """Build from the domain value."""
        return cls(
            query=SentenceQueryOut.of(answer.query, answer.sentence, by=answer.by),
            results=[FoundSentenceOut.of(found) for found in answer.results],
            **of_answer(answer),
        )


class AnalyzedSentenceOut(SentenceOut):
    """A sentence, ``abstract[start:end]``, its facet, and the probabilities of all facets, which sum to 1."""

    text: str
    probabilities: dict[Facet, float]


class AnalyzeOut(BaseModel):
    """The sentences of an abstract; the encoder did not read the last ``dropped_sentences`` of them."""

    title: str
    abstract: str
    sentences: list[AnalyzedSentenceOut]
    dropped_sentences: int
    tagger: str
    warnings: tuple[WarningOut, ...]
    took_ms: TookMs

    @classmethod
    def of(cls, analysis: Analysis) -> "AnalyzeOut":
        """Build from the domain value."""
        paper = analysis.paper
        return cls(
            title=paper.title,
            abstract=paper.abstract,
            sentences=[
                AnalyzedSentenceOut(
                    start=sentence.start,
                    end=sentence.end,
                    facet=sentence.facet,
                    text=sentence.text,
                    probabilities=_rounded(row),
                )
                for sentence, row in zip(paper.sentences, analysis.probabilities, strict=True)
            ],
            dropped_sentences=analysis.dropped_sentences,
            tagger=analysis.tagger,
            warnings=tuple(WarningOut.model_validate(each) for each in analysis.warnings),
            took_ms=round(analysis.took_ms, 3),
        )


def _rounded(probabilities: Float32[np.ndarray, " n_facets"]) -> dict[Facet, float]:
    """Round to four digits that still sum to 1: the rest of rounding down goes to the largest remainders."""
    exact = probabilities.astype(np.float64) / probabilities.sum(dtype=np.float64) * _PARTS
    parts = np.floor(exact)
    left = round(_PARTS - parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:left]] += 1
    return dict(zip(FACETS, (parts / _PARTS).tolist(), strict=True))
