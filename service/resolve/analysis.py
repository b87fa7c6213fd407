"""Analysis of a pasted abstract: the facet of each sentence."""

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from models.annotator import Annotator
from models.types import Paper
from service.answer_warnings import AnswerWarning
from service.context import stage
from service.resolve.pasted import read_pasted


@dataclass(frozen=True, slots=True)
class Analysis:
    """A paper with the facet of each sentence and the probabilities behind it, columns as in ``FACETS``.

    The encoder did not read the last ``dropped_sentences``; the tagger judged them by words and place alone.
    ``tagger`` is the tagger's name; ``took_ms`` is wall time in milliseconds.
    """

    paper: Paper
    probabilities: Float32[np.ndarray, "n_sentence n_facets"]
    dropped_sentences: int
    tagger: str
    warnings: tuple[AnswerWarning, ...]
    took_ms: float


def analyze(annotator: Annotator, paper: Paper) -> Analysis:
    """Tag the sentences of ``paper``, which is not looked up in a collection."""
    started = time.perf_counter()
    paper, warnings = read_pasted(paper)
    with stage("encode"):
        (annotated,) = annotator.annotate([paper])
    return Analysis(
        paper=annotated.paper,
        probabilities=annotated.probabilities,
        dropped_sentences=annotated.encoded.dropped_sentences,
        tagger=annotator.tagger.spec.name,
        warnings=warnings,
        took_ms=(time.perf_counter() - started) * 1000,
    )
