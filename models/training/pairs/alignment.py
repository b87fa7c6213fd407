"""Alignment of co-cited papers: the sentence of each that the citing sentences are about.

ASPIRE; semantics 3.11.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float32

from models.encoder import PAPERS_PER_CALL, Encoder
from models.training.examples import Example
from models.training.pairs.citing import short_text
from models.types import Paper, ProgressFn

Rows = Float32[np.ndarray, "_ dim"]


def align(
    examples: Sequence[Example], texts: Mapping[str, Paper], encoder: Encoder, *, on_progress: ProgressFn
) -> list[Example]:
    """Return the examples with ``aligned``: each paper's sentence nearest to any context, by dot product.

    Query and positive are aligned independently, as in ASPIRE. Examples without contexts stay unchanged.
    """
    contexts = {context for example in examples for context in example.contexts}
    papers = {name: texts[name] for e in examples if e.contexts for name in (e.query, e.positive)}
    vectors = _encoded([short_text(context, context) for context in sorted(contexts)], encoder, on_progress)
    rows = _encoded([replace(paper, id=name) for name, paper in sorted(papers.items())], encoder, on_progress)
    aligned = []
    for example in examples:
        if not example.contexts:
            aligned.append(example)
            continue
        context_rows = np.concatenate([vectors[context] for context in example.contexts])
        pair = _nearest(rows[example.query], context_rows), _nearest(rows[example.positive], context_rows)
        aligned.append(replace(example, aligned=pair))
    return aligned


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
