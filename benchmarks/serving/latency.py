"""The latency of searches of a real collection: ``python -m benchmarks.serving.latency DATA``.

Searches by id, by a text (a title), and by a pasted title and abstract, one after another in this process,
for randomly drawn papers: p50, p95, p99. Also measures on how many of the first 20 papers the index and exact
search agree, and how many of the 200 nearest sentences the index finds. With ``--add 1000 --delete 100`` this
many papers are added and deleted, in a copy of the folder, and everything is measured again.

Prints a table in Markdown, that of docs/measured/measurements.md, and where the time of a search goes; writes
the figures to ``--json``.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import numpy as np
from rich.progress import track

from benchmarks.indexing.sizes_in_process import Stopwatch, add_singly
from benchmarks.relevance.collection import TOP, agreement, exact_engine, pasted, sampled
from benchmarks.suite import stages
from benchmarks.suite.report import stages_section
from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.files.data_folder import KEEP, DataFolder
from models.annotator import load_annotator
from models.types import Paper
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

_WARM_UP = 10
_NEAREST = 200
Figures = dict[str, float]


def percentiles(took_ms: Sequence[float]) -> Figures:
    """Return p50, p95 and p99."""
    return {f"p{q}": float(np.percentile(took_ms, q)) for q in (50, 95, 99)}


def times_ms(engine: SearchEngine, queries: Sequence[SearchQuery]) -> Figures:
    """Return the percentiles of searches run one after another, in ms."""
    for query in queries[:_WARM_UP]:
        engine.search(query)
    took = []
    for query in track(queries, "Searching", transient=True):
        started = time.perf_counter()
        engine.search(query)
        took.append(1000 * (time.perf_counter() - started))
    return percentiles(took)


def recall(engine: SearchEngine, exact: SearchEngine, papers: Sequence[Paper]) -> float:
    """Return the share of the sentences nearest to each paper's first one that the index finds."""
    snapshot, found = engine.snapshot, []
    allowed = np.repeat(snapshot.live, np.diff(snapshot.offsets))
    for paper in track(papers, "Nearest sentences", transient=True):
        rows, _ = snapshot.gather(np.array([snapshot.position(paper.id)]))
        query = rows[:1].astype(np.float32)
        own, best = (
            each.snapshot.index.search(query, _NEAREST, allowed=allowed).rows[0] for each in (engine, exact)
        )
        found.append(len(np.intersect1d(own, best)) / len(best))
    return float(np.mean(found))


def measured(data: Path, n_queries: int, seed: int) -> dict[str, Figures]:
    """Return all figures of a collection."""
    settings = Settings(data=data)
    engine, exact = open_engine(settings), exact_engine(settings)
    engine.warm_up()
    papers = sampled(engine, n_queries, seed)
    kinds: dict[str, Callable[[Paper], SearchQuery]] = {
        "by id": lambda paper: SearchQuery((Seed(paper.id),), limit=TOP),
        "by text": lambda paper: SearchQuery((Seed(text=paper.title),), limit=TOP),
        "pasted": pasted,
    }
    figures = {name: times_ms(engine, [query(paper) for paper in papers]) for name, query in kinds.items()}
    share, _, exact_ms = agreement(engine, exact, papers)
    figures["by id, exact search"] = percentiles(exact_ms)
    figures["found"] = {"of the first 20": share, "of 200 sentences": recall(engine, exact, papers)}
    figures["size"] = {
        "papers": float(len(engine.snapshot)),
        "segments": float(len(engine.snapshot.segments)),
    }
    return figures


def change(data: Path, n_added: int, n_deleted: int) -> Figures:
    """Add papers one by one, merging when due, then delete others; return the median seconds of each."""
    engine = open_engine(Settings(data=data))
    papers = sampled(engine, n_added + n_deleted, seed=1)
    annotator = load_annotator(engine.snapshot.manifest.encoder.name, device="cpu")
    new = (
        replace(paper, id=f"added-{number}", title=f"{paper.title}, again")
        for number, paper in enumerate(track(papers[:n_added], "Adding"))
    )
    adding, _, _ = add_singly(data, annotator, new)
    deleting = Stopwatch()
    with Catalog.open_existing(DataFolder(data).catalog) as catalog:
        for paper in track(papers[n_added:], "Deleting"):
            with deleting.measuring():
                delete_papers(data, [paper.id], catalog, keep=KEEP)
    return {
        name: each.medians["wall_s"]
        for name, each in (("an addition", adding), ("a deletion", deleting))
        if each.wall
    }


def table(figures: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the figures as a table in Markdown: before and after the changes, if there were any."""
    states = [figures[name] for name in ("as it is", "changed") if name in figures]
    lines = ["| ms | p50 | p95 | p99 |", "|---|---:|---:|---:|"]
    for kind in ("by id", "by text", "pasted", "by id, exact search"):
        cells = ["; ".join(f"{each[kind][part]:.1f}" for each in states) for part in ("p50", "p95", "p99")]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    for part in ("of the first 20", "of 200 sentences"):
        found = "; ".join(f"{each['found'][part]:.2%}" for each in states)
        lines.append(f"| found {part} | {found} | | |")
    for change, seconds in states[-1].get("seconds", {}).items():
        lines.append(f"| {change} | {1000 * seconds:.0f} | | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", type=int, default=0, help="papers to add one by one, in a copy")
    parser.add_argument("--delete", type=int, default=0, help="papers to delete one by one, in a copy")
    parser.add_argument("--json", type=Path, help="the file for the figures")
    given = parser.parse_args()
    figures = {"as it is": measured(given.data, given.queries, given.seed)}
    if given.add or given.delete:
        with TemporaryDirectory(dir=given.data.absolute().parent) as folder:
            copy = Path(copytree(given.data, Path(folder) / "data"))
            seconds = change(copy, given.add, given.delete)
            figures["changed"] = {**measured(copy, given.queries, given.seed), "seconds": seconds}
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(table(figures))
    engine = open_engine(Settings(data=given.data))
    parts = stages.rows(engine, sampled(engine, given.queries, given.seed))
    print("\n\n".join(stages_section(list(parts))))


if __name__ == "__main__":
    main()
