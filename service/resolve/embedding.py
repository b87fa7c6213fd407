"""Embedding: the vectors of papers by the encoder of a collection."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from indexer.corpus.rows import MAX_SENTENCES
from models.encoder import Encoder
from models.errors import InputError
from models.types import EncoderSpec, Paper, Unit
from service.answer_warnings import AnswerWarning
from service.context import check_deadline, stage
from service.resolve.pasted import read_pasted


@dataclass(frozen=True, slots=True)
class PaperVectors:
    """A paper's vectors: those of its first sentences, in order, and that of the whole with its title.

    ``sentences`` has shape (n_kept, dim), without rows if the encoder has one vector per paper; ``document``
    has shape (dim,). The last ``dropped_sentences`` are past the encoder's limit.
    """

    paper: Paper
    sentences: Float32[np.ndarray, "n_kept dim"]
    document: Float32[np.ndarray, " dim"]
    dropped_sentences: int
    warnings: tuple[AnswerWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Embedding:
    """Papers embedded by one encoder, in the order given; ``took_ms`` is wall time in milliseconds."""

    encoder: EncoderSpec
    papers: tuple[PaperVectors, ...]
    took_ms: float


def embed(encoder: Encoder, papers: Sequence[Paper]) -> Embedding:
    """Return the vectors of ``papers``, not looked up in a collection.

    Raises DeadlineError, and InputError for more than ``MAX_SENTENCES`` together: an answer with more would
    take hundreds of megabytes, and nothing else would be answered while it is written.
    """
    started = time.perf_counter()
    read = [read_pasted(given) for given in papers]
    n_sentences = sum(len(paper.sentences) for paper, _ in read)
    if n_sentences > MAX_SENTENCES:
        raise InputError(
            f"The papers have {n_sentences:,} sentences together; expected at most {MAX_SENTENCES:,} in a "
            "request. Send fewer papers at once."
        )
    embedded = []
    for paper, warnings in read:
        check_deadline()
        embedded.append(vectors_of(encoder, paper, warnings))
    return Embedding(encoder.spec, tuple(embedded), (time.perf_counter() - started) * 1000)


def vectors_of(encoder: Encoder, paper: Paper, warnings: tuple[AnswerWarning, ...] = ()) -> PaperVectors:
    """Return the vectors of one paper, which must already be split into sentences."""
    with stage("encode"):
        (encoded,) = encoder.encode([paper])
    by_sentence = encoder.spec.unit is Unit.SENTENCE
    return PaperVectors(
        paper,
        encoded.sentences if by_sentence else encoded.sentences[:0],
        encoded.document,
        encoded.dropped_sentences,
        warnings,
    )
