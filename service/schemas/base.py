"""What all shapes are built on, and the papers and sentences that every answer holds."""

from pydantic import BaseModel, ConfigDict

from models.types import Facet


class Strict(BaseModel):
    """A request: nothing unknown, nothing converted, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Out(BaseModel):
    """Built straight from the domain value of the same shape."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class SentenceOut(Out):
    """A sentence of an abstract: ``abstract[start:end]``, counted in Unicode characters."""

    start: int
    end: int
    facet: Facet | None


class PaperOut(Out):
    """A paper of the collection."""

    id: str
    title: str
    abstract: str
    sentences: tuple[SentenceOut, ...]
    year: int | None
    venue: str | None
    authors: tuple[str, ...]
    url: str | None
    doi: str | None
    fields: tuple[str, ...]


class PaperAnswerOut(BaseModel):
    """A paper and the generation it was read from."""

    paper: PaperOut
    generation: str
