"""The encoder on a device: every number format, with batches of a token budget."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.on_device.rows import Row, Sizes, seconds
from benchmarks.suite.encoders import one_minus_cosine
from indexer.corpus.read import read_corpus
from models.checkpoints.checkpoints import locate_checkpoint
from models.encoders.contextual import MAX_TOKENS
from models.encoders.transformer import Transformer
from models.types import NUMBER_FORMATS, Precision
from tests.support.builds import many_papers, write_corpus

# Allowed 1 - cosine to the processor's float32 vectors.
ALLOWED = {Precision.FLOAT32: 1e-5, Precision.BFLOAT16: 1e-3}


def rows(device: str, sizes: Sizes) -> Iterator[Row]:
    """Encode abstracts of the demo corpus with ``minilm``."""
    with tempfile.TemporaryDirectory() as folder:
        papers = list(read_corpus(write_corpus(Path(folder) / "papers.jsonl", many_papers(sizes.abstracts))))
    checkpoint = locate_checkpoint("minilm")
    plain = Transformer(checkpoint, max_tokens=MAX_TOKENS, device="cpu")
    tokens = plain.wordpieces.tokenise(papers)
    sequences, windows = [paper.ids for paper in tokens], [[(0, 1), *paper.sentences] for paper in tokens]
    checked = slice(0, sizes.checked_abstracts)
    on_cpu = len(sequences[checked]) / seconds(partial(plain.pool, sequences[checked], windows[checked]), 1)
    expected = _vectors(plain, sequences[checked], windows[checked])
    for precision in NUMBER_FORMATS:
        encoder = Transformer(checkpoint, max_tokens=MAX_TOKENS, device=device, precision=precision)
        found = _vectors(encoder, sequences[checked], windows[checked])
        error = one_minus_cosine(expected, found).max()
        for budget in (encoder.batch_tokens, 4 * encoder.batch_tokens):
            encoder.batch_tokens = budget
            took_s = seconds(partial(encoder.pool, sequences, windows), 2)
            yield Row(
                f"encode, {precision}, {budget:,} tokens a batch",
                "abstracts/s",
                len(sequences) / took_s,
                on_cpu,
                float(error),
                ALLOWED[precision],
                note="error: 1 - cosine",
            )


def _vectors(
    encoder: Transformer, sequences: list[tuple[int, ...]], windows: list[list[tuple[int, int]]]
) -> np.ndarray:
    """Return the sentence vectors, (n_rows, dim) float64."""
    pooled = encoder.pool(sequences, windows)
    return np.concatenate([states[0, 1:] for states in pooled]).astype(np.float64)
