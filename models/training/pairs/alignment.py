"""Alignment of co-cited papers: which sentence of each is about what they share.

ASPIRE; semantics 3.11.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
from jaxtyping import Float32

from models.encoder import PAPERS_PER_CALL, Encoder
from models.training.examples import Example
from models.training.pairs.citing import short_text
from models.types import Paper, ProgressFn, Unit

Rows = Float32[np.ndarray, "_ dim"]


class AlignBy(StrEnum):
    """What aligns the sentences of two co-cited papers: the sentences that cite them, or the abstracts."""

    CONTEXTS = "contexts"
    ABSTRACTS = "abstracts"


def align(
    examples: Sequence[Example],
    texts: Mapping[str, Paper],
    encoder: Encoder,
    *,
    by: AlignBy = AlignBy.CONTEXTS,
    on_progress: ProgressFn,
) -> list[Example]:
    """Return the examples with ``aligned``: a sentence of the query and one of the positive.

    By contexts, these are the sentence of each that is nearest to any context, by dot product, query and
    positive independently, as in ASPIRE; examples without contexts stay unchanged. By abstracts, they are the
    nearest pair (AbsAspire). An encoder of documents, such as CoSentBert, encodes each sentence alone.
    """
    by_contexts = by is AlignBy.CONTEXTS
    given = [example for example in examples if example.contexts or not by_contexts]
    contexts = {text for example in given for text in example.contexts if by_contexts}
    papers = {name: texts[name] for example in given for name in (example.query, example.positive)}
    vectors = _encoded([short_text(context, context) for context in sorted(contexts)], encoder, on_progress)
    of_papers = _one_by_one if encoder.spec.unit is Unit.DOCUMENT else _encoded
    rows = of_papers(
        [replace(paper, id=name) for name, paper in sorted(papers.items())], encoder, on_progress
    )

    def pair(example: Example) -> tuple[int, int]:
        of_query, of_positive = rows[example.query], rows[example.positive]
        if not by_contexts:
            query, positive = np.unravel_index(
                (of_query @ of_positive.T).argmax(), (len(of_query), len(of_positive))
            )
            return int(query), int(positive)
        context_rows = np.concatenate([vectors[context] for context in example.contexts])
        return _nearest(of_query, context_rows), _nearest(of_positive, context_rows)

    return [
        replace(example, aligned=pair(example)) if example.contexts or not by_contexts else example
        for example in examples
    ]


def _nearest(sentences: Rows, contexts: Rows) -> int:
    """Return the number of the sentence with the largest dot product with any context."""
    return int((sentences @ contexts.T).max(axis=1).argmax())


def _encoded(papers: Sequence[Paper], encoder: Encoder, on_progress: ProgressFn) -> dict[str, Rows]:
    """Return the sentence vectors of each text, by its id."""
    vectors: dict[str, Rows] = {}
    for start in range(0, len(papers), PAPERS_PER_CALL):
        block = papers[start : start + PAPERS_PER_CALL]
        encoded = encoder.encode(block)
        vectors |= {paper.id: own.sentences for paper, own in zip(block, encoded, strict=True)}
        on_progress("aligning", start + len(block), len(papers))
    return vectors


def _one_by_one(papers: Sequence[Paper], encoder: Encoder, on_progress: ProgressFn) -> dict[str, Rows]:
    """Return the vectors of the sentences of each text, each sentence encoded alone, by the text's id."""
    alone = {
        paper.id: [short_text(f"{paper.id} {i}", each.text) for i, each in enumerate(paper.sentences)]
        for paper in papers
    }
    vectors = _encoded([each for own in alone.values() for each in own], encoder, on_progress)
    return {name: np.concatenate([vectors[each.id] for each in own]) for name, own in alone.items()}
