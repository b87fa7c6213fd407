"""Encoder speed and precision side by side, on the first papers of a corpus of title + abstract JSON lines.

python benchmarks/encoders.py ../shared/data/corpus.jsonl.gz --papers 400 --threads 1
"""

import argparse
import gzip
import json
import statistics
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from models.encoder import Encoder, load_encoder
from models.encoders.hashing import HashingEncoder
from models.encoders.transformer import Transformer
from models.encoders.wordpieces import PaperTokens
from models.sentences import split_sentences
from models.types import Paper, Precision

BUDGETS = (1024, 2048, 4096, 8192)
NAIVE_BATCH = 32


def read_papers(path: Path, count: int) -> list[Paper]:
    """The first ``count`` papers, split into sentences."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in islice(lines, count)]
    return [
        Paper(record["id"], record["title"], record["abstract"], split_sentences(record["abstract"]))
        for record in records
    ]


def seconds(action, repeats: int) -> float:
    """Median wall time of ``action``."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def naive_batches(transformer: Transformer, tokens: list[PaperTokens]) -> None:
    """The anchor: papers in corpus order, padded batches of 32."""
    for start in range(0, len(tokens), NAIVE_BATCH):
        batch = tokens[start : start + NAIVE_BATCH]
        transformer._forward(
            transformer.device,
            [paper.ids for paper in batch],
            [[(0, 1), *paper.sentences] for paper in batch],
        )


def sentence_rows(encoder: Encoder, papers: list[Paper]) -> np.ndarray:
    """All sentence vectors end to end."""
    return np.concatenate([own.sentences for own in encoder.encode(papers)])


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--papers", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--encoder", default="minilm")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    papers = read_papers(arguments.corpus, arguments.papers)
    transformers = {
        precision: load_encoder(arguments.encoder, device="cpu", precision=precision)._transformer
        for precision in Precision
    }
    tokens = transformers[Precision.FLOAT32].wordpieces.tokenise(papers)
    sequences = [paper.ids for paper in tokens]
    windows = [[(0, 1), *paper.sentences] for paper in tokens]
    print(
        f"{len(papers)} papers, {np.mean([len(ids) for ids in sequences]):.0f} tokens each on average, "
        f"{arguments.threads} thread(s), median of {arguments.repeats}"
    )
    rows: list[tuple[str, float]] = []
    for precision, transformer in transformers.items():
        anchor = seconds(lambda t=transformer: naive_batches(t, tokens), arguments.repeats)
        rows.append((f"{precision}, corpus order, padded batches of {NAIVE_BATCH}", anchor))
        for budget in BUDGETS:
            transformer.batch_tokens = budget
            spent = seconds(lambda t=transformer: t.pool(sequences, windows), arguments.repeats)
            rows.append((f"{precision}, sorted, {budget} tokens a batch", spent))
    tokenising = seconds(
        lambda: transformers[Precision.FLOAT32].wordpieces.tokenise(papers), arguments.repeats
    )
    rows.append(("tokenising alone", tokenising))
    rows.append(("hashing", seconds(lambda: HashingEncoder().encode(papers), arguments.repeats)))
    first = rows[0][1]
    print(f"{'':52}{'abstracts/s':>12}{'ratio':>8}")
    for label, spent in rows:
        print(f"{label:52}{len(papers) / spent:12.1f}{first / spent:8.2f}")

    exact, rough = (
        sentence_rows(load_encoder(arguments.encoder, device="cpu", precision=precision), papers)
        for precision in Precision
    )
    cosines = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)
    print(
        f"bfloat16 against float32 over {len(exact)} sentences: 1 - cos mean {np.mean(1 - cosines):.1e}, "
        f"max {np.max(1 - cosines):.1e}"
    )


if __name__ == "__main__":
    main()
