"""Checks that need a real, large collection: ``python -m benchmarks.relevance.collection DATA``.

For each sampled paper: pasted, it finds itself first; by id, never; one chosen sentence changes the ranking;
alignments sum to the score; the snapshot's backend and ``exact`` agree on the top 20. Also prints the times
of both kinds of search.
"""

import argparse
import statistics
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from indexer.index.backends.exact import ExactIndex
from models.types import Paper
from service.collection.generations import open_engine
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery, Seed
from service.settings import Settings

TOP = 20


def ids(answer: SearchAnswer) -> list[str]:
    """Return the ids of an answer's papers, in order."""
    return [result.paper.id for result in answer.results]


def largest_gap(answer: SearchAnswer) -> float:
    """Return the largest difference between a score of the answer and the sum of its explanation."""
    return max(
        abs(
            result.score
            + sum(a.weight * a.distance for a in (*result.alignments, *result.omitted, result.words))
        )
        for result in answer.results
    )


def pasted(paper: Paper) -> SearchQuery:
    """Return a query with the paper as if it were pasted."""
    return SearchQuery((Seed(paper=Paper("", paper.title, paper.abstract, paper.sentences)),), limit=TOP)


def exact_engine(settings: Settings) -> SearchEngine:
    """Open an engine over a collection that compares every sentence."""
    engine = open_engine(settings)
    rows, _ = engine.snapshot.gather(np.arange(len(engine.snapshot.live)))
    engine.snapshot.index = ExactIndex(rows)
    return engine


def sampled(engine: SearchEngine, n: int, seed: int) -> list[Paper]:
    """Draw ``n`` papers of a collection at random."""
    drawn = np.random.default_rng(seed).choice(engine.snapshot.positions, n, replace=False)
    return [engine.snapshot.paper(int(position)) for position in drawn]


def agreement(
    engine: SearchEngine, exact: SearchEngine, papers: list[Paper]
) -> tuple[float, list[float], list[float]]:
    """Return the mean share of the exact top 20 that the backend finds, and the times of both, in ms."""
    shares, own_ms, exact_ms = [], [], []
    for paper in track(papers, "Comparing backends"):
        query = SearchQuery((Seed(paper.id),), limit=TOP)
        own, full = engine.search(query), exact.search(query)
        shares.append(len(set(ids(own)) & set(ids(full))) / len(ids(full)))
        own_ms.append(own.took_ms)
        exact_ms.append(full.took_ms)
    return statistics.mean(shares), own_ms, exact_ms


def main() -> None:
    """Run the checks and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--pasted", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    settings = Settings(data=arguments.data)
    engine, exact = open_engine(settings), exact_engine(settings)
    engine.warm_up()
    papers = sampled(engine, arguments.queries, arguments.seed)
    share, own_ms, exact_ms = agreement(engine, exact, papers)
    first = changed = never = 0
    gaps, pasted_ms = [], []
    for paper in track(papers[: arguments.pasted], "Pasting papers"):
        answer = engine.search(pasted(paper))
        pasted_ms.append(answer.took_ms)
        gaps.append(largest_gap(answer))
        first += ids(answer)[0] == paper.id
        whole = ids(engine.search(SearchQuery((Seed(paper.id),), limit=TOP)))
        one = ids(engine.search(SearchQuery((Seed(paper.id, aspect=Aspect(sentences=(0,))),), limit=TOP)))
        never += paper.id not in whole and paper.id not in one
        changed += whole != one
    table = Table(
        "what", "figure", title=f"{len(engine.snapshot):,} papers, generation {engine.snapshot.generation}"
    )
    backend = engine.snapshot.manifest.backends
    n_pasted = min(arguments.pasted, len(papers))
    table.add_row(f"{backend} and exact agree on the top {TOP} ({len(papers)} queries)", f"{share:.2%}")
    table.add_row("pasted paper finds itself first", f"{first} of {n_pasted}")
    table.add_row("paper by id never finds itself", f"{never} of {n_pasted}")
    table.add_row("one chosen sentence changes the ranking", f"{changed} of {n_pasted}")
    table.add_row("largest gap between score and alignments", f"{max(gaps):.1e}")
    for name, times in ((f"by id, {backend}", own_ms), ("by id, exact", exact_ms), ("pasted", pasted_ms)):
        table.add_row(f"{name}: median / p95 ms", f"{np.median(times):.1f} / {np.percentile(times, 95):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
