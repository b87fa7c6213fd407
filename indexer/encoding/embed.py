"""Encoding of papers into vectors and facets, in bounded batches."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float16, Int8

from models.annotator import AnnotatedPaper, Annotator
from models.encoder import PAPERS_PER_CALL
from models.errors import AkinError, EncoderError, WeightsError
from models.facets import FACETS, NO_FACET
from models.types import PackedVectors, Paper, Sentence


@dataclass(frozen=True, slots=True)
class EmbeddedPapers:
    """The vectors and facets of papers, concatenated in their order, without the ``refused`` papers.

    ``facets`` are positions in FACETS, or NO_FACET, one per sentence, also for sentences beyond the encoder's
    token limit. ``functions`` has a row for each of ``vectors.rows``; ``None`` without an encoder of
    functions. ``refused`` has the reason for each paper that could not be encoded, by position in the input.
    """

    vectors: PackedVectors
    facets: Int8[np.ndarray, " n_sentences"]
    functions: Float16[np.ndarray, "n_rows dim_functions"] | None
    refused: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Embedded:
    """The vectors and facets of one paper."""

    rows: np.ndarray
    facets: list[int]
    functions: np.ndarray | None


def embed(
    papers: Sequence[Paper], annotator: Annotator, *, dtype: str, on_progress: Callable[[int], None]
) -> EmbeddedPapers:
    """Encode ``papers`` with ``annotator``; sentence vectors as ``dtype`` (``float16`` or ``float32``).

    ``on_progress`` gets the number of papers done since its last call. A paper that cannot be encoded alone,
    or has a vector that is not finite in ``dtype``, is refused, whatever the class of the encoder's error.
    Raises EncoderError if a plain paper cannot be encoded either, so that the papers are not to blame. Errors
    that no paper causes are passed on: MemoryError, OSError, and Akin's own except EncoderError.
    """
    done: list[_Embedded] = []
    refused: dict[int, str] = {}
    for start in range(0, len(papers), PAPERS_PER_CALL):
        batch = papers[start : start + PAPERS_PER_CALL]
        for place, outcome in enumerate(_each(batch, annotator, dtype), start):
            if isinstance(outcome, str):
                refused[place] = outcome
            else:
                done.append(outcome)
        on_progress(len(batch))
    offsets = np.zeros(len(done) + 1, dtype=np.int64)
    np.cumsum([len(one.rows) for one in done], out=offsets[1:])
    nothing = np.empty((0, annotator.encoder.spec.dim), dtype=dtype)
    functions = [one.functions for one in done if one.functions is not None]
    return EmbeddedPapers(
        PackedVectors(np.concatenate([one.rows for one in done] or [nothing]), offsets),
        np.array([code for one in done for code in one.facets], dtype=np.int8),
        np.concatenate(functions) if functions else None,
        refused,
    )


def _each(batch: Sequence[Paper], annotator: Annotator, dtype: str) -> list[_Embedded | str]:
    """Return for each paper its vectors and facets, or the reason why it cannot be encoded.

    Raises WeightsError, and EncoderError if a plain paper cannot be encoded either.
    """
    try:
        return [*_embedded(batch, annotator, dtype)]
    except WeightsError:
        raise
    except EncoderError as error:
        expect_working(annotator, dtype, error)
        outcomes = _halved(batch, annotator, dtype, error)
        expect_working(annotator, dtype, error)  # again: the encoder may have broken meanwhile
        return outcomes


def _halved(
    batch: Sequence[Paper], annotator: Annotator, dtype: str, error: EncoderError
) -> list[_Embedded | str]:
    """The same as ``_each`` for papers that together gave ``error``: halve them, down to single papers."""
    if len(batch) == 1:
        return [str(error)]
    outcomes: list[_Embedded | str] = []
    for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
        try:
            outcomes += _embedded(half, annotator, dtype)
        except EncoderError as own:
            outcomes += _halved(half, annotator, dtype, own)
    return outcomes


def expect_working(annotator: Annotator, dtype: str, error: EncoderError) -> None:
    """Raise ``error`` if a plain paper cannot be encoded: then the papers did not cause the error."""
    text = f"We study how papers are found ({secrets.token_hex(4)})."  # a new text, which no cache holds
    probe = Paper("probe", "A probe", text, (Sentence(text, 0, len(text)),))
    try:
        _embedded([probe], annotator, dtype)
    except EncoderError:
        raise error from None


def _embedded(papers: Sequence[Paper], annotator: Annotator, dtype: str) -> list[_Embedded]:
    try:
        return [_of_one(annotated, dtype) for annotated in annotator.annotate(papers)]
    except (AkinError, MemoryError, OSError):
        raise
    except Exception as error:  # encoders of third parties may raise anything
        raise EncoderError(f"The encoder failed with {type(error).__name__}: {error}") from error


def _of_one(annotated: AnnotatedPaper, dtype: str) -> _Embedded:
    paper, functions = annotated.paper, annotated.functions
    return _Embedded(
        _rounded(annotated.encoded.sentences, dtype, paper),
        [NO_FACET if each.facet is None else FACETS.index(each.facet) for each in paper.sentences],
        None if functions is None else _rounded(functions, "float16", paper),
    )


def _rounded(vectors: np.ndarray, dtype: str, paper: Paper) -> np.ndarray:
    if not np.isfinite(vectors).all():
        raise EncoderError(f"Paper {paper.id!r} got a vector that is not finite; check the encoder's weights")
    # Values that overflow are refused below; numpy would only warn.
    with np.errstate(over="ignore"):
        rounded = vectors.astype(dtype)
    if not np.isfinite(rounded).all():
        raise EncoderError(
            f"Paper {paper.id!r} got a vector that {dtype} cannot hold; index with --dtype float32"
        )
    return rounded
