"""Papers to what a snapshot keeps of them besides their text, in bounded batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float16, Int8

from models.annotator import Annotator
from models.encoder import PAPERS_PER_CALL
from models.errors import EncoderError
from models.facets import FACETS, NO_FACET
from models.types import PackedVectors, Paper, Sentence


@dataclass(frozen=True, slots=True)
class EmbeddedPapers:
    """The vectors and facets of papers, end to end in their order.

    ``facets`` are positions in FACETS, one a sentence, also for those past the encoder's token limit.
    ``functions`` has a row for each of ``vectors.rows``; ``None`` without an encoder of functions.
    """

    vectors: PackedVectors
    facets: Int8[np.ndarray, " n_sentences"]
    functions: Float16[np.ndarray, "n_rows dim_functions"] | None


def embed(
    papers: Sequence[Paper], annotator: Annotator, *, dtype: str, on_progress: Callable[[int], None]
) -> EmbeddedPapers:
    """What ``annotator`` makes of ``papers``; sentence vectors as ``dtype`` (``float16`` or ``float32``).

    ``on_progress`` gets the number of papers done since its last call. Raises EncoderError when a vector is
    not finite in ``dtype``.
    """
    rows: list[np.ndarray] = []
    functions: list[np.ndarray] = []
    facets: list[int] = []
    for start in range(0, len(papers), PAPERS_PER_CALL):
        batch = papers[start : start + PAPERS_PER_CALL]
        for annotated in annotator.annotate(batch):
            rows.append(_rounded(annotated.encoded.sentences, dtype, annotated.paper))
            facets += [_code(sentence) for sentence in annotated.paper.sentences]
            if annotated.functions is not None:
                functions.append(_rounded(annotated.functions, "float16", annotated.paper))
        on_progress(len(batch))
    offsets = np.zeros(len(papers) + 1, dtype=np.int64)
    np.cumsum([len(own) for own in rows], out=offsets[1:])
    return EmbeddedPapers(
        PackedVectors(np.concatenate(rows), offsets),
        np.array(facets, dtype=np.int8),
        np.concatenate(functions) if functions else None,
    )


def _code(sentence: Sentence) -> int:
    return NO_FACET if sentence.facet is None else FACETS.index(sentence.facet)


def _rounded(vectors: np.ndarray, dtype: str, paper: Paper) -> np.ndarray:
    # What overflows is refused below; numpy would only warn.
    with np.errstate(over="ignore"):
        rounded = vectors.astype(dtype)
    if not np.isfinite(rounded).all():
        raise EncoderError(
            f"Paper {paper.id!r} got a vector that {dtype} cannot hold; index with --dtype float32, "
            "or check the encoder's weights"
        )
    return rounded
