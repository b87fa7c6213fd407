"""A collection of over a thousand small papers, many with equal abstracts, for tests of long lists."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from models.encoder import Encoder
from tests.support.builds import build_quietly, write_corpus

N_PAPERS = 1_250
_WORDS = ["flood", "river", "graph", "causal", "model", "forecast", "satellite", "protein", "folding"]


def _papers(seed: int, n_papers: int) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(seed)
    for i in range(n_papers):
        sentences = [" ".join(rng.choice(_WORDS, 2)) + "." for _ in range(rng.integers(1, 4))]
        # All papers share the last sentence, and a few hundred have equal abstracts, so their scores tie.
        yield {
            "id": f"many/{i}",
            "title": f"Paper {i}",
            "abstract": [*sentences, "All rights reserved."],
            "year": 1990 + i % 30,
            "authors": [f"Author {i % 7}", "Ann Lee"] if i % 2 else ["Bo Li"],
        }


def build_many(data: Path, encoder: Encoder, *, seed: int = 0, n_papers: int = N_PAPERS) -> Path:
    """Index the collection into ``data`` and return ``data``."""
    build_quietly(write_corpus(data.with_suffix(".jsonl"), list(_papers(seed, n_papers))), data, encoder)
    return data
