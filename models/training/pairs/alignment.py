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
from models.types import Paper, ProgressFn, Unit

Rows = Float32[np.ndarray, "_ dim"]


def align(
    examples: Sequence[Example], texts: Mapping[str, Paper], encoder: Encoder, *, on_progress: ProgressFn
) -> list[Example]:
    """Return the examples with ``aligned``: each paper's sentence nearest to any context, by dot product.

    Query and positive are aligned independently, as in ASPIRE. Examples without contexts stay unchanged. An
    encoder of documents, such as CoSentBert, encodes each sentence alone.
    """
    contexts = {context for example in examples for context in example.contexts}
    papers = {name: texts[name] for e in examples if e.contexts for name in (e.query, e.positive)}
    vectors = _encoded([short_text(context, context) for context in sorted(contexts)], encoder, on_progress)
    of_papers = _one_by_one if encoder.spec.unit is Unit.DOCUMENT else _encoded
    rows = of_papers(
        [replace(paper, id=name) for name, paper in sorted(papers.items())], encoder, on_progress
    )
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


def _one_by_one(papers: Sequence[Paper], encoder: Encoder, on_progress: ProgressFn) -> dict[str, Rows]:
    """Return the vectors of the sentences of each text, each sentence encoded alone, by the text's id."""
    alone = {
        paper.id: [short_text(f"{paper.id} {i}", each.text) for i, each in enumerate(paper.sentences)]
        for paper in papers
    }
    vectors = _encoded([each for own in alone.values() for each in own], encoder, on_progress)
    return {name: np.concatenate([vectors[each.id] for each in own]) for name, own in alone.items()}
