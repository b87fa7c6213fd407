"""The aspect of a query: which sentences count, and how far they are turned away from the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from models.errors import SentenceSelectionError
from models.types import Facet, Paper, Unit

# Measured: docs/why.md, "Chosen sentences are turned away from the rest".
DEFAULT_FOCUS = 0.3
# A method is the same in another field; what a result means depends on what it is a result about.
_FACET_FOCUS = {Facet.METHOD: 0.4, Facet.RESULT: 0.0}


@dataclass(frozen=True, slots=True)
class Aspect:
    """The respect in which papers should be akin; without ``sentences`` and ``facet`` the whole abstract.

    ``sentences`` are numbers in the whole abstract. ``focus`` (0 to 1) is the share of the other sentences'
    mean that is taken from each chosen vector: 0 is ASPIRE's own aspect query (semantics 3.5), ``None`` what
    suits the facet.
    """

    sentences: tuple[int, ...] | None = None
    facet: Facet | None = None
    focus: float | None = None

    @property
    def turn(self) -> float:
        """The focus that applies."""
        if self.focus is not None:
            return self.focus
        return DEFAULT_FOCUS if self.facet is None else _FACET_FOCUS.get(self.facet, DEFAULT_FOCUS)


def select_sentences(aspect: Aspect, paper: Paper, *, n_vectors: int, unit: Unit) -> tuple[int, ...]:
    """The numbers of the sentences of ``paper`` that count, ascending; past ``n_vectors`` there is none.

    Empty when no sentence has the facet. Raises SentenceSelectionError.
    """
    if aspect.sentences is None and aspect.facet is None:
        return tuple(range(n_vectors if unit is Unit.SENTENCE else len(paper.sentences)))
    if unit is Unit.DOCUMENT:
        raise SentenceSelectionError(
            "This collection holds one vector for each paper, so neither sentences nor a facet can be "
            "chosen; leave them out, or index with a sentence encoder."
        )
    if aspect.facet is not None:
        return _of_facet(paper, aspect.facet, n_vectors)
    return _of_numbers(paper, aspect.sentences or (), n_vectors)


def focused(
    vectors: Float32[np.ndarray, "n_sentence dim"], selected: Sequence[int], *, focus: float
) -> Float32[np.ndarray, "n_query dim"]:
    """The ``selected`` vectors, turned away from the mean of the others by ``focus``, their norms kept.

    In context every sentence vector carries the paper's topic; what the chosen ones say beyond it is what the
    other sentences do not share.
    """
    chosen = vectors[list(selected)]
    others = np.delete(vectors, list(selected), axis=0)
    if focus == 0 or len(others) == 0:
        return np.ascontiguousarray(chosen)
    turned = chosen - focus * others.mean(axis=0)
    norms = np.linalg.norm(turned, axis=1, keepdims=True)
    # A chosen sentence that repeats the others leaves nothing to turn to; it stays as it is.
    scale = np.divide(
        np.linalg.norm(chosen, axis=1, keepdims=True), norms, where=norms > 0, out=np.zeros_like(norms)
    )
    return np.ascontiguousarray(np.where(norms > 0, turned * scale, chosen))


def _of_numbers(paper: Paper, numbers: Sequence[int], n_vectors: int) -> tuple[int, ...]:
    chosen = tuple(sorted(set(numbers)))
    n_sentences = len(paper.sentences)
    if not chosen or chosen[0] < 0 or chosen[-1] >= n_sentences:
        raise SentenceSelectionError(
            f"Chosen sentences {list(chosen)[:20]}; the abstract has {n_sentences}, "
            f"numbered 0 to {n_sentences - 1}."
        )
    kept = tuple(number for number in chosen if number < n_vectors)
    if not kept:
        raise SentenceSelectionError(
            f"Chosen sentences {list(chosen)[:20]} all lie past the encoder's token limit; "
            f"it reads the first {n_vectors} of this abstract."
        )
    return kept


def _of_facet(paper: Paper, facet: Facet, n_vectors: int) -> tuple[int, ...]:
    """The sentences of a facet; stated aims count as background (CSFCube, semantics 3.5)."""
    if all(sentence.facet is None for sentence in paper.sentences):
        raise SentenceSelectionError(
            "The query paper's sentences carry no facet labels; choose sentences by number instead."
        )
    wanted = {Facet.BACKGROUND, Facet.OBJECTIVE} if facet is Facet.BACKGROUND else {facet}
    return tuple(i for i, sentence in enumerate(paper.sentences[:n_vectors]) if sentence.facet in wanted)
