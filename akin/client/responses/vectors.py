"""Vectors of papers and of their sentences."""

import base64
import struct
from dataclasses import dataclass, field

from akin.client.responses.lists import Described, named
from akin.client.responses.papers import AnswerWarning
from models.counts import counted


@dataclass(frozen=True, slots=True)
class EncoderSummary:
    """The encoder of the vectors; vectors of an encoder with another ``fingerprint`` are not comparable."""

    name: str
    fingerprint: str
    dim: int
    normalised: bool
    unit: str


@dataclass(frozen=True, slots=True)
class SentenceVector:
    """A sentence, ``abstract[start:end]``, and its vector in the context of the whole abstract."""

    start: int
    end: int
    facet: str | None
    vector: str = field(repr=False)

    @property
    def values(self) -> tuple[float, ...]:
        """The vector as numbers."""
        return _values(self.vector)


@dataclass(frozen=True, slots=True, repr=False)
class PaperVectors(Described):
    """The vectors of a paper: of its sentences, except the last ``dropped_sentences``, and of the whole.

    Vectors are base64 of little-endian float32: ``numpy.frombuffer(base64.b64decode(vector), "<f4")``.
    """

    id: str | None
    title: str
    abstract: str
    sentences: tuple[SentenceVector, ...]
    document: str
    dropped_sentences: int

    def line(self) -> str:
        """Return the id and title, and the number of vectors, on one line."""
        return f"{named(self.id, self.title)} ({counted(len(self.sentences) + 1, 'vector')})"

    @property
    def values(self) -> tuple[float, ...]:
        """The vector of the whole paper as numbers."""
        return _values(self.document)


@dataclass(frozen=True, slots=True, repr=False)
class PaperVectorsAnswer:
    """A paper's vectors and the generation they were read from."""

    encoder: EncoderSummary
    paper: PaperVectors
    generation: str

    def __repr__(self) -> str:
        vectors = counted(len(self.paper.sentences) + 1, "vector")
        return f"<{type(self).__name__}: {vectors} of {self.paper.id}, from {self.encoder.name}>"


@dataclass(frozen=True, slots=True, repr=False)
class Embedding:
    """The vectors of papers, in the given order."""

    encoder: EncoderSummary
    papers: tuple[PaperVectors, ...]
    warnings: tuple[AnswerWarning, ...]
    took_ms: float

    def __repr__(self) -> str:
        vectors = counted(sum(len(paper.sentences) + 1 for paper in self.papers), "vector")
        papers = counted(len(self.papers), "paper")
        return f"<{type(self).__name__}: {vectors} of {papers}, from {self.encoder.name}>"


def _values(vector: str) -> tuple[float, ...]:
    content = base64.b64decode(vector)
    return struct.unpack(f"<{len(content) // 4}f", content)
