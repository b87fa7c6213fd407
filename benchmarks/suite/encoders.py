"""What comparisons of encoders share: papers, medians, differences, and padded batches."""

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.suite.rows import in_turns
from indexer.corpus.read import read_corpus
from models.encoders.contextual import MAX_TOKENS
from models.encoders.pooling import Window
from models.encoders.transformer import Transformer
from models.types import Paper

NAIVE_BATCH = 32
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def read_papers(path: Path, count: int) -> list[Paper]:
    """Return the first ``count`` papers, split into sentences."""
    return list(islice(read_corpus(path), count))


def medians(
    actions: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the median seconds of each action; actions take turns."""
    spent = in_turns(actions, rounds=repeats, clock=clock, warm=False)
    return {label: statistics.median(times) for label, times in spent.items()}


def one_minus_cosine(exact: np.ndarray, rough: np.ndarray) -> np.ndarray:
    """Compute 1 - cosine for each row, (n_rows,)."""
    norms = np.linalg.norm(exact, axis=1) * np.linalg.norm(rough, axis=1)
    return 1 - (exact.astype(np.float64) * rough).sum(axis=1) / norms


def pool_naively(
    model: Transformer, sequences: Sequence[tuple[int, ...]], windows: Sequence[Sequence[Window]]
) -> None:
    """Pool batches in corpus order, each padded to its longest sequence."""
    kept = model.batch_tokens
    model.batch_tokens = NAIVE_BATCH * (MAX_TOKENS + 2)  # never exceeded: one padded batch
    for start in range(0, len(sequences), NAIVE_BATCH):
        model.pool(sequences[start : start + NAIVE_BATCH], windows[start : start + NAIVE_BATCH])
    model.batch_tokens = kept
