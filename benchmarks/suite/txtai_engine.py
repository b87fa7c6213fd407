"""A comparable engine, txtai, over the vectors of Akin's encoder: its speed, and its rankings of CSFCube.

``PYTHONPATH=build/peers python -m benchmarks.suite.txtai_engine FOLDER`` writes ``docs/measured/txtai.json``,
and the tables made of it in ``docs/explanation/beside.md``. FOLDER holds CSFCube.

txtai stores one vector per paper, of title and abstract; in its hybrid form BM25 is half of the score. ``make
bench`` installs it into ``build/peers``.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from evaluation.collection import Collection
from evaluation.measurement import Request, measure
from evaluation.run import Run
from evaluation.statistics.bootstrap import resamples_for
from evaluation.statistics.summary import ALL, Figures, SystemComparison, compare, summarise
from evaluation.suite.listing import DEFAULT, Part
from evaluation.suite.page import fill
from evaluation.suite.running import run_suite
from evaluation.tasks.ranking import corrected
from evaluation.tasks.task import TaskOptions
from models.encoder import Encoder, load_encoder
from models.types import Paper, ignore_progress

_ROOT: Final = Path(__file__).parents[2]
FIGURES: Final = _ROOT / "docs" / "measured" / "txtai.json"
_PAGE: Final = _ROOT / "docs" / "explanation" / "beside.md"
# The service's default, with the facets that it predicts and with the collection's labels.
_OURS: Final = ("{encoder}:ot:focus:tagged:words", DEFAULT)
_N_MEASURES: Final = 2


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


def rankings(collection: Collection, encoder: Encoder) -> list[Run]:
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


@dataclass(frozen=True, slots=True)
class BesideTxtai:
    """The service's default and txtai on CSFCube, and their differences, paired by query."""

    def measure(self, path: Path, options: TaskOptions) -> Figures:
        """Measure the first two measures, over all facets and folds."""
        ours = tuple(name.format(encoder=options.encoder) for name in _OURS)
        request = Request(systems=ours, cache=options.cache, device=options.device)
        found = measure("csfcube", path, request, on_progress=options.on_progress)
        collection = replace(found.collection, measures=found.collection.measures[:_N_MEASURES])
        theirs = rankings(collection, load_encoder(options.encoder, device=options.device))
        runs = [*(run for run in found.runs if run.system in ours), *theirs]
        pairs = [(own, other) for own in runs[: len(ours)] for other in theirs]
        compared = [
            SystemComparison(own.system, other.system, each)
            for own, other in pairs
            for each in compare(collection, own, other, facet=ALL, n_resamples=resamples_for(len(pairs)))
        ]
        rows = [row for row in summarise(collection, runs) if (row.facet, row.fold) == (ALL, ALL)]
        n_papers, n_queries = len(collection.papers), len(collection.queries)
        return Figures(n_papers, n_queries, tuple(rows), corrected(compared), collection.notes)


def main() -> None:
    """Measure, write the file, and fill the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    options = TaskOptions("minilm", None, "cpu", None, ignore_progress)
    command = "python -m benchmarks.suite.txtai_engine FOLDER"
    parts = {"txtai": Part("txtai on CSFCube, with the vectors of Akin's encoder", "", BesideTxtai())}
    if left := run_suite(given.folder, FIGURES, options, command=command, parts=parts).left:
        parser.error(left["txtai"])
    fill((_PAGE,), FIGURES)


if __name__ == "__main__":
    main()
