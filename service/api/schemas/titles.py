"""``GET /v1/papers?title=`` and ``GET /v1/papers/suggest``: papers by their titles."""

from typing import Annotated

from pydantic import BaseModel, Field

from service.api.schemas.base import Limit, Strict, TookMs
from service.api.schemas.search.sentences import PaperSummaryOut
from service.search.lookup import Suggestions, TitleAnswer
from service.search.query import Reason

# More than anyone types before choosing.
_MAX_PREFIX_CHARS = 200


class PrefixIn(Strict):
    """The part of a title that was typed so far."""

    prefix: Annotated[str, Field(min_length=1, max_length=_MAX_PREFIX_CHARS)] | None = Field(
        default=None,
        description="Beginnings of words of a title, in any order; if no title contains them all, the "
        "beginning of a title with typing errors. Without it, this is the address of the paper with id "
        "`suggest`.",
    )
    limit: Limit = 10


class TitleMatchOut(BaseModel):
    """A paper found by its title; ``similarity`` is 1 for the same words, 0 for no shared letter."""

    paper: PaperSummaryOut
    similarity: float


class TitlesOut(BaseModel):
    """Papers: nearly the same titles first, then those that contain the words, then other similar ones.

    ``reason``, and ``detail`` in words, say why there are none.
    """

    results: list[TitleMatchOut]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: TookMs

    @classmethod
    def of(cls, answer: TitleAnswer) -> "TitlesOut":
        """Build from the domain value."""
        results = [
            TitleMatchOut(
                paper=PaperSummaryOut.model_validate(found.paper), similarity=round(found.similarity, 4)
            )
            for found in answer.results
        ]
        return cls(
            results=results,
            generation=answer.generation,
            reason=answer.reason,
            detail=answer.detail,
            took_ms=round(answer.took_ms, 3),
        )


class SuggestionsOut(BaseModel):
    """Papers whose title begins with what was typed, then those with its words; shorter titles first.

    If there are none: papers whose title begins most similarly, the most similar first.
    """

    results: list[PaperSummaryOut]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: TookMs

    @classmethod
    def of(cls, answer: Suggestions) -> "SuggestionsOut":
        """Build from the domain value."""
        return cls(
            results=[PaperSummaryOut.model_validate(paper) for paper in answer.results],
            generation=answer.generation,
            reason=answer.reason,
            detail=answer.detail,
            took_ms=round(answer.took_ms, 3),
        )
