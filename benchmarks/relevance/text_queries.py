"""What words add to vectors for short texts: BM25 compared, summed, and choosing for single match.

python -m benchmarks.relevance.text_queries SCIFACT_FOLDER [--cache FOLDER]

The service's own way, tf-idf added to transport: `akin evaluate beir FOLDER --system minilm:ot:words`.
"""

import argparse
from pathlib import Path

import numpy as np

from evaluation.baselines.lexical import Bm25, paper_text, words
from evaluation.collection import Collection
from evaluation.measurement import load_collection
from evaluation.measures import per_query
from evaluation.run import Run
from evaluation.statistics.bootstrap import difference, interval
from evaluation.systems.dense import score_pool
from evaluation.systems.system import DENSE
from evaluation.systems.vectors import VectorSource, encode_collection
from models.encoder import load_encoder

MEASURE = "nDCG@10"
VECTORS, WORDS = "single match", "BM25"
_DEPTH = 100


def normalised(scores: np.ndarray) -> np.ndarray:
    """Scale the scores of each query to mean 0 and standard deviation 1 over all papers."""
    spread = scores.std(axis=1, keepdims=True)
    normal: np.ndarray = (scores - scores.mean(axis=1, keepdims=True)) / spread
    return normal


def ranks(scores: np.ndarray) -> np.ndarray:
    """Return the rank, from 1, of each paper for each query (rows)."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.argsort(order, axis=1, kind="stable") + 1


def systems(vectors: np.ndarray, lexical: np.ndarray) -> dict[str, np.ndarray]:
    """Return the scores of every system, (n_queries, n_papers) each."""
    total = normalised(vectors) + normalised(lexical)
    found = {
        VECTORS: vectors,
        WORDS: lexical,
        "sum of both, normalised": total,
        "reciprocal rank fusion, 60": 1 / (60 + ranks(vectors)) + 1 / (60 + ranks(lexical)),
    }
    for depth in (10, 50, 200):
        found[f"BM25 chooses {depth}, vectors rank"] = np.where(ranks(lexical) <= depth, vectors, -np.inf)
    for depth in (10, 30):
        found[f"the sum chooses {depth}, vectors rank"] = np.where(ranks(total) <= depth, vectors, -np.inf)
    return found


def as_run(name: str, collection: Collection, scores: np.ndarray) -> Run:
    """Return a run with the best papers of each query."""
    ids = list(collection.papers)
    ranked = {}
    for query, row in zip(collection.queries, scores, strict=True):
        best = np.argsort(-row, kind="stable")[:_DEPTH]
        ranked[query.id] = {ids[i]: float(row[i]) for i in best if row[i] > -np.inf}
    return Run(name, ranked)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    collection = load_collection("beir", arguments.folder)
    source = VectorSource(
        load_encoder(arguments.encoder), cache=arguments.cache, on_progress=lambda stage, done, total: None
    )
    vectors, everything = (
        encode_collection(collection, source, alone=False),
        np.arange(len(collection.papers)),
    )
    lexical = Bm25([words(paper_text(paper)) for paper in collection.papers.values()])
    scored = systems(
        np.stack([score_pool(DENSE["single"], vectors, q, everything) for q in collection.queries]),
        np.stack([lexical.scores(words(paper_text(query.paper))) for query in collection.queries]),
    )
    values = {
        name: per_query(collection, as_run(name, collection, scores), (MEASURE,))[MEASURE]
        for name, scores in scored.items()
    }
    clusters = {query.id: query.cluster for query in collection.queries}
    print(f"{len(clusters)} queries, {len(everything):,} papers, {MEASURE}, minus {VECTORS}, minus {WORDS}")
    for name, value in values.items():
        compared = (
            interval(value, clusters),
            *(difference(value, values[to], clusters) for to in (VECTORS, WORDS)),
        )
        print(f"{name:36}", *(f"{each.value:6.1f} [{each.low:.1f}, {each.high:.1f}]" for each in compared))


if __name__ == "__main__":
    main()
