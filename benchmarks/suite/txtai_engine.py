"""A comparable engine, txtai, over the vectors of Akin's encoder: its speed, and its rankings.

``PYTHONPATH=build/peers python -m benchmarks.suite.txtai_engine csfcube FOLDER --runs RUNS``

txtai stores one vector per paper, of title and abstract; in its hybrid form BM25 is half of the score. ``akin
evaluate runs RUNS/*.run --set csfcube --path FOLDER`` measures the runs, also with those that ``akin evaluate
csfcube FOLDER --runs RUNS`` writes. ``make bench`` installs txtai into ``build/peers``.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.collection import SETS, Collection
from evaluation.measurement import load_collection
from evaluation.run import Run, write_trec
from models.encoder import Encoder, load_encoder
from models.types import Paper


class TxtaiEngine:
    """A txtai index over ``papers``; ``vectors`` maps the text of each (``text_of``) to its vector."""

    def __init__(self, papers: Iterable[Paper], vectors: dict[str, np.ndarray], *, hybrid: bool) -> None:
        from txtai import Embeddings  # noqa: PLC0415 - a peer

        def known(texts: Sequence[str]) -> np.ndarray:
            return np.stack([vectors[text] for text in texts])

        self.vectors = vectors
        self._index: Any = Embeddings(method="external", transform=known, hybrid=hybrid)
        self._index.index((paper.id, text_of(paper), None) for paper in papers)

    def search(self, paper: Paper, limit: int, encoder: Encoder | None = None) -> list[tuple[str, float]]:
        """Return the nearest papers with their scores; ``encoder`` encodes a paper that has no vector yet."""
        if encoder is not None:
            self.vectors.update(encoded([paper], encoder))
        found: list[tuple[str, float]] = self._index.search(text_of(paper), limit)
        return found


def text_of(paper: Paper) -> str:
    """Return the text of a paper that txtai receives."""
    return f"{paper.title}. {paper.abstract}"


def encoded(papers: Sequence[Paper], encoder: Encoder) -> dict[str, np.ndarray]:
    """Return the papers' document vectors, by text."""
    texts = map(text_of, papers)
    return {text: each.document for text, each in zip(texts, encoder.encode(papers), strict=True)}


def runs(collection: Collection, encoder: Encoder) -> list[Run]:
    """Return txtai's rankings of each query's pool, by vectors alone and with BM25."""
    papers = [*collection.papers.values()]
    vectors = encoded([*papers, *(query.paper for query in collection.queries)], encoder)
    found = []
    for hybrid in (False, True):
        neighbour = TxtaiEngine(papers, vectors, hybrid=hybrid)
        scores = {}
        for query in collection.queries:
            pool = frozenset(query.pool or collection.papers) - {query.paper.id, *query.excluded}
            ranked = neighbour.search(query.paper, len(papers))
            scores[query.id] = {paper_id: score for paper_id, score in ranked if paper_id in pool}
        found.append(Run(f"txtai{'-hybrid' * hybrid}", scores))
    return found


def main() -> None:
    """Write both runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    for run in runs(load_collection(given.set, given.path), load_encoder(given.encoder, device="cpu")):
        write_trec(run, given.runs / f"{run.system}.run")


if __name__ == "__main__":
    main()
