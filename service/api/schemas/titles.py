"""``GET /v1/papers?title=`` and ``GET /v1/papers/suggest``: papers by their titles."""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from indexer.rows import MAX_TITLE_CHARS
from service.api.schemas.base import Strict
from service.api.schemas.sentences import PaperHeadOut
from service.search.reasons import Reason
from service.search.title_search import Suggestions, TitleAnswer

# More than anyone types before choosing.
_MAX_PREFIX_CHARS = 200
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")


def _whole_number(given: object) -> object:
    """A number in an address is a text; one that is written otherwise than in digits stays one."""
    return int(given) if isinstance(given, str) and _WHOLE_NUMBER.fullmatch(given) else given


# In this order: behind the validator the bounds would not be understood as those of a number.
Limit = Annotated[int, Field(ge=1, le=100), BeforeValidator(_whole_number)]


class TitleIn(Strict):
    """A title as someone remembers it."""

    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS)] = Field(
        description="As it is remembered: case, accents and punctuation do not matter, misspellings little."
    )
    limit: Limit = 10


class PrefixIn(Strict):
    """What someone has typed of a title."""

    prefix: Annotated[str, Field(min_length=1, max_length=_MAX_PREFIX_CHARS)] | None = Field(
        default=None,
        description="Beginnings of words of a title, in any order; where no title holds them all, the "
        "beginning of a title, mistyped. Without it this is the address of the paper whose id is `suggest`.",
    )
    limit: Limit = 10


class TitleMatchOut(BaseModel):
    """A paper by its title; ``similarity`` is 1 for the same words, at least 0.6."""

    paper: PaperHeadOut
    similarity: float


class TitlesOut(BaseModel):
    """Papers, the most alike title first; ``reason``, and ``detail`` in words, say why there are none."""

    results: list[TitleMatchOut]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: float

    @classmethod
    def of(cls, answer: TitleAnswer) -> "TitlesOut":
        """From the domain value."""
        results = [
            TitleMatchOut(
                paper=PaperHeadOut.model_validate(found.paper), similarity=round(found.similarity, 4)
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
    """Papers whose title begins with what was typed, then those that hold its words, shorter titles first.

    Where there are none: papers whose title opens most like it, the most alike first.
    """

    results: list[PaperHeadOut]
    generation: str
    reason: Reason | None
    detail: str | None
    took_ms: float

    @classmethod
    def of(cls, answer: Suggestions) -> "SuggestionsOut":
        """From the domain value."""
        return cls(
            results=[PaperHeadOut.model_validate(paper) for paper in answer.results],
            generation=answer.generation,
            reason=answer.reason,
            detail=answer.detail,
            took_ms=round(answer.took_ms, 3),
        )
