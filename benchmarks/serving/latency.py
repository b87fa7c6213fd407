"""The speed of searches of a real collection: ``python -m benchmarks.serving.latency DATA``.

Searches by id, by a text (a title), and by a pasted title and abstract, one after another in this process,
for randomly drawn papers: p50, p95, p99. Also measures on how many of the first 20 papers the index and exact
search agree, and how many of the 200 sentences nearest to any of a paper's the index finds. With
``--tune 0.97`` all this is measured again in a copy of the folder that `akin tune` tuned to this recall; with
``--add 1000 --delete 100`` in one to which so many papers were added and from which so many were deleted, one
by one.

Prints the tables in Markdown, with the goals P4 to P8; ``--json FILE`` writes the figures, and the page next
to that file. ``--indexing`` is the output of ``benchmarks.indexing.encoder_share`` for this collection.
``--about`` says what papers these are. ``--page FILE`` only writes the page again.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.progress import track

from benchmarks.indexing.sizes_in_process import Stopwatch, add_singly
from benchmarks.relevance.collection import TOP, agreement, exact_engine, pasted, sampled
from benchmarks.serving.latency_page import page
from benchmarks.suite import collections, stages, storage
from benchmarks.suite.backends import FlatAlone, faiss_threads
from benchmarks.suite.rows import OURS, Row, beside, in_turns, machine
from indexer.catalog.catalog import Catalog
from indexer.collection.delete import delete_papers
from indexer.collection.maintenance.tuning import tune
from indexer.files.data_folder import KEEP, DataFolder
from models.types import Paper
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

_WARM_UP = 10
_NEAREST = 200
_FOR_MORE = "the goals are for 2,000,000 rows"
_LOOKED_UP = 20  # papers: FAISS Flat takes seconds for each
_K = 100  # rows of a look-up of one paper's sentences: the goals P4 are for so many
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
    """Return the share of the sentences of other papers nearest to any of a paper's that the index finds."""
    snapshot, found = engine.snapshot, []
    for paper in track(papers, "Nearest sentences", transient=True):
        position = snapshot.position(paper.id)
        allowed = np.repeat(snapshot.live, np.diff(snapshot.offsets))
        allowed[snapshot.offsets[position] : snapshot.offsets[position + 1]] = False
        vectors = snapshot.gather(np.array([position]))[0].astype(np.float32)
        own, best = (
            each.snapshot.index.search(vectors, _NEAREST, together=True, allowed=allowed).rows[0]
            for each in (engine, exact)
        )
        found.append(len(np.intersect1d(own, best)) / len(best))
    return float(np.mean(found))


def measured(data: Path, n_queries: int, seed: int) -> dict[str, Figures]:
    """Return the percentiles and shares of a collection."""
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
    figures["size"] = {"papers": len(engine.snapshot), "segments": len(engine.snapshot.segments)}
    return figures


def change(data: Path, n_added: int, n_deleted: int) -> Figures:
    """Add papers one by one, merging when due, then delete others; return the median seconds of each."""
    engine = open_engine(Settings(data=data))
    papers = sampled(engine, n_added + n_deleted, seed=1)
    new = (
        replace(paper, id=f"added-{number}", title=f"{paper.title}, again")
        for number, paper in enumerate(track(papers[:n_added], "Adding"))
    )
    adding, _, _ = add_singly(data, engine.annotator, new)
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


def goals(data: Path, indexing: dict[str, Any] | None, n_queries: int, seed: int) -> Iterator[Row]:
    """Yield the rows of the goals P4 to P8 over a collection, and where the time of its searches goes."""
    engine = open_engine(Settings(data=data))
    engine.warm_up()
    papers = sampled(engine, n_queries, seed)
    with faiss_threads(1):
        yield from look_ups(engine, papers[:_LOOKED_UP])
        yield from collections.queries(engine, papers)
    if indexing is not None:
        yield from of_indexing(engine, indexing)
    yield from storage.on_disk(engine, data)
    yield from storage.in_memory(engine, data)
    yield from stages.rows(engine, papers)


def look_ups(engine: SearchEngine, papers: Sequence[Paper], how: str = "") -> Iterator[Row]:
    """Compare look-ups of all sentences of a paper with FAISS's comparison of every row, in processor time.

    Processor time is that of one thread, although segments are searched side by side.
    """
    snapshot = engine.snapshot
    flat = FlatAlone.build(snapshot.gather(np.arange(len(snapshot.live)))[0])
    spent: dict[str, list[float]] = {OURS: [], "FAISS Flat": []}
    found = []
    for paper in track(papers, "Nearest sentences of papers", transient=True):
        vectors = snapshot.gather(np.array([snapshot.position(paper.id)]))[0].astype(np.float32)
        actions = {
            OURS: partial(snapshot.index.search, vectors, _K),
            "FAISS Flat": partial(flat.search, vectors, _K),
        }
        for name, seconds in in_turns(actions, rounds=1, clock=time.process_time, warm=False).items():
            spent[name] += seconds
        pairs = zip(snapshot.index.search(vectors, _K).rows, flat.search(vectors, _K).rows, strict=True)
        found += [len(np.intersect1d(own, nearest)) / _K for own, nearest in pairs]
    what = f"candidates of a paper among {snapshot.n_rows:,} rows{how}, processor time"
    yield beside(spent, "FAISS Flat", goal="P4", what=what, least=80, note=_FOR_MORE)
    yield Row("P4", f"{what}, recall@{_K}", "share", float(np.mean(found)), least=0.97)
    yield Row("P4", what, "ms", 1000 * float(np.median(spent[OURS])), most=6.5)


def of_indexing(engine: SearchEngine, indexing: dict[str, Any]) -> Iterator[Row]:
    """Compare `akin index` with the calls of its encoder, and building its indexes with all of it.

    Raises ValueError for figures of another collection, or of a part of this one.
    """
    n_papers, seconds = indexing["papers"], indexing["seconds"]
    if indexing["status"] or n_papers != len(engine.snapshot):
        raise ValueError(f"The figures of indexing are of {n_papers:,} papers, or of a run that failed.")
    yield Row(
        "P7",
        f"index {n_papers:,} papers",
        "ms a paper",
        1000 * seconds / n_papers,
        "the encoder's calls alone",
        1000 * indexing["encoder_seconds"] / n_papers,
        indexing["encoder_share"],
        least=0.9,
        note=f"{seconds:,.0f} s in all, {indexing['processor_seconds']:,.0f} s of processor time; "
        f"{indexing['peak_mib']:,} MiB at most, mapped files included",
    )
    if "index_seconds" in indexing:
        what = f"of indexing {n_papers:,} papers, building the indexes"
        yield Row("P7", what, "share", indexing["index_seconds"] / seconds, most=0.05)


@contextmanager
def _copy(data: Path) -> Iterator[Path]:
    """Yield a copy of a collection's folder, and remove it."""
    with TemporaryDirectory(dir=data.absolute().parent) as folder:
        yield Path(copytree(data, Path(folder) / "data"))


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", type=int, default=0, help="papers to add one by one, in a copy")
    parser.add_argument("--delete", type=int, default=0, help="papers to delete one by one, in a copy")
    parser.add_argument("--about", default="", help="what papers these are, in a sentence")
    parser.add_argument("--tune", type=float, help="the recall to tune a copy to")
    parser.add_argument("--indexing", type=Path, help="the output of benchmarks.indexing.encoder_share")
    parser.add_argument("--json", type=Path, help="the file for the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of this file of figures")
    return parser


def main() -> None:
    """Measure, print the tables, and write the figures and their page."""
    parser = _parser()
    given = parser.parse_args()
    if given.page is not None:
        _write_page(given.page)
        return
    if given.data is None:
        parser.error("DATA is missing: a folder that `akin index` made")
    indexing = json.loads(given.indexing.read_text(encoding="utf-8")) if given.indexing else None
    manifest = open_engine(Settings(data=given.data)).snapshot.manifest
    options = ("queries", "seed", "add", "delete", "tune")
    figures: dict[str, Any] = {
        "machine": machine(),
        "about": given.about,
        "encoder": manifest.encoder.name,
        "precision": manifest.arguments["precision"],
        "options": {name: getattr(given, name) for name in options},
    }
    states = {"as indexed": measured(given.data, given.queries, given.seed)}
    rows = list(goals(given.data, indexing, given.queries, given.seed))
    if given.tune is not None:
        with _copy(given.data) as copy:
            chosen = tune(copy, recall=given.tune, keep=KEEP).chosen
            if chosen is not None:
                figures["effort"], how = chosen.effort, f"tuned to {given.tune:.0%}"
                states[how] = measured(copy, given.queries, given.seed)
                engine = open_engine(Settings(data=copy))
                papers = sampled(engine, given.queries, given.seed)
                with faiss_threads(1):
                    rows += look_ups(engine, papers[:_LOOKED_UP], f", {how}")
                    rows += collections.queries(engine, papers, f", {how}")
    if given.add or given.delete:
        with _copy(given.data) as copy:
            figures["seconds"] = change(copy, given.add, given.delete)
            states["changed"] = measured(copy, given.queries, given.seed)
    figures |= {"states": states, "rows": [asdict(row) for row in rows]}
    print(page(figures))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        _write_page(given.json)


def _write_page(file: Path) -> None:
    figures = json.loads(file.read_text(encoding="utf-8"))
    file.with_suffix(".md").write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
