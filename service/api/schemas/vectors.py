"""``POST /v1/embed`` and ``GET /v1/papers/{id}/vectors``: the vectors that searches compare."""

import base64
from enum import StrEnum
from typing import Annotated

import numpy as np
from jaxtyping import Float32
from pydantic import BaseModel, Field

from models.types import EncoderSpec, Unit
from service.api.schemas.base import SentenceOut, Strict, TookMs, WarningOut
from service.api.schemas.search.query import PastedIn
from service.resolve.embedding import Embedding, PaperVectors

MAX_EMBEDDED = 32

# Numbers, or the bytes of float32 numbers, little-endian, in base64.
Vector = list[float] | str


class VectorEncoding(StrEnum):
    """How vectors are written."""

    FLOAT = "float"
    BASE64 = "base64"


class EmbedIn(Strict):
    """Papers to embed, of at most 1,000 sentences together, with or without titles; nothing is stored."""

    papers: Annotated[list[PastedIn], Field(fail_fast=True, min_length=1, max_length=MAX_EMBEDDED)]
    encoding: Annotated[VectorEncoding, Field(strict=False)] = Field(
        default=VectorEncoding.FLOAT,
        description="Vectors as lists of numbers, or as base64 of little-endian float32, which is a quarter "
        "as long.",
    )


class EncoderOut(BaseModel):
    """The encoder of the vectors; they cannot be compared with those of another ``fingerprint``."""

    name: str
    fingerprint: str
    dim: int
    normalised: bool
    unit: Unit

    @classmethod
    def of(cls, spec: EncoderSpec) -> "EncoderOut":
        """Build from the domain value."""
        return cls(
            name=spec.name,
            fingerprint=spec.fingerprint,
            dim=spec.dim,
            normalised=spec.normalised,
            unit=spec.unit,
        )


class SentenceVectorOut(SentenceOut):
    """A sentence, ``abstract[start:end]``, and its vector in the context of the whole abstract."""

    vector: Vector


class PaperVectorsOut(BaseModel):
    """The vectors of a paper: of its sentences, except the last ``dropped_sentences``, and of the whole.

    If the encoder has one vector per paper, there are no sentences. ``start`` and ``end`` of sentences are
    positions in ``abstract``.
    """

    id: str | None
    title: str
    abstract: str
    sentences: list[SentenceVectorOut]
    document: Vector
    dropped_sentences: int

    @classmethod
    def of(cls, vectors: PaperVectors, encoding: VectorEncoding) -> "PaperVectorsOut":
        """Build from the domain value."""
        paper = vectors.paper
        return cls(
            id=paper.id or None,
            title=paper.title,
            abstract=paper.abstract,
            sentences=[
                SentenceVectorOut(
                    start=sentence.start,
                    end=sentence.end,
                    facet=sentence.facet,
                    vector=_written(row, encoding),
                )
                for sentence, row in zip(paper.sentences, vectors.sentences, strict=False)
            ],
            document=_written(vectors.document, encoding),
            dropped_sentences=vectors.dropped_sentences,
        )


class PaperVectorsAnswerOut(BaseModel):
    """A paper's vectors and the generation they were read from."""

    encoder: EncoderOut
    paper: PaperVectorsOut
    generation: str


class EmbedOut(BaseModel):
    """The vectors of papers, in the order given."""

    encoder: EncoderOut
    papers: list[PaperVectorsOut]
    warnings: tuple[WarningOut, ...]
    took_ms: TookMs

    @classmethod
    def of(cls, embedding: Embedding, encoding: VectorEncoding) -> "EmbedOut":
        """Build from the domain value."""
        warnings = dict.fromkeys(each for paper in embedding.papers for each in paper.warnings)
        return cls(
            encoder=EncoderOut.of(embedding.encoder),
            papers=[PaperVectorsOut.of(each, encoding) for each in embedding.papers],
            warnings=tuple(WarningOut.model_validate(each) for each in warnings),
            took_ms=round(embedding.took_ms, 3),
        )


def _written(vector: Float32[np.ndarray, " dim"], encoding: VectorEncoding) -> Vector:
    if encoding is VectorEncoding.FLOAT:
        numbers: list[float] = vector.astype(np.float64).tolist()
        return numbers
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
