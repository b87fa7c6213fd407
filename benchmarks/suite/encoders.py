"""Encoder speed and precision compared, on the first papers of a corpus of title + abstract JSON lines."""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from benchmarks.suite.rows import in_turns
from indexer.corpus.read import read_corpus
from models.checkpoints.checkpoints import locate_checkpoint
from models.encoders.contextual import MAX_TOKENS
from models.encoders.hashing import HashingEncoder
from models.encoders.pooling import Window
from models.encoders.transformer import Transformer
from models.types import NUMBER_FORMATS, Paper, Precision

BUDGETS = (512, 1024, 2048, 4096, 8192)
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


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--papers", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--encoder", default="minilm", help="a contextual checkpoint: name or folder")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: seconds of all threads summed")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    papers = read_papers(arguments.corpus, arguments.papers)
    checkpoint = locate_checkpoint(arguments.encoder)

    loaded = {
        precision: Transformer(checkpoint, max_tokens=MAX_TOKENS, device="cpu", precision=precision)
        for precision in NUMBER_FORMATS
    }
    wordpieces = loaded[Precision.FLOAT32].wordpieces
    tokens = wordpieces.tokenise(papers)
    sequences = [paper.ids for paper in tokens]
    windows = [[(0, 1), *paper.sentences] for paper in tokens]

    def pooled(precision: Precision, batch_tokens: int, part: slice = slice(None)) -> list[np.ndarray]:
        loaded[precision].batch_tokens = batch_tokens
        return loaded[precision].pool(sequences[part], windows[part])

    actions: dict[str, Callable[[], object]] = {}
    for precision in NUMBER_FORMATS:
        actions[f"{precision}, corpus order, padded batches of {NAIVE_BATCH}"] = partial(
            pool_naively, loaded[precision], sequences, windows
        )
        for budget in BUDGETS:
            actions[f"{precision}, sorted, {budget} tokens a batch"] = partial(pooled, precision, budget)
    actions["tokenising alone"] = partial(wordpieces.tokenise, papers)
    actions["hashing"] = partial(HashingEncoder().encode, papers)
    spent = medians(actions, arguments.repeats, CLOCKS[arguments.clock])

    print(
        f"{len(papers)} papers of {np.mean([len(ids) for ids in sequences]):.0f} tokens on average, "
        f"{arguments.threads} thread(s), {arguments.clock} clock, median of {arguments.repeats}"
    )
    anchor = next(iter(spent.values()))
    print(f"{'':48}{'abstracts/s':>12}{'ratio':>8}")
    for label, seconds in spent.items():
        print(f"{label:48}{len(papers) / seconds:12.1f}{anchor / seconds:8.2f}")
    exact, rough = (
        np.concatenate([rows[1:] for (rows,) in pooled(precision, 2048)]) for precision in NUMBER_FORMATS
    )
    error = one_minus_cosine(exact, rough)
    print(f"bfloat16, {len(error)} sentences: 1 - cos mean {error.mean():.1e}, max {error.max():.1e}")


if __name__ == "__main__":
    main()
