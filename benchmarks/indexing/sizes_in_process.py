"""The measurements of ``benchmarks.indexing.sizes`` for which there is no shell command.

``python -m benchmarks.indexing.sizes_in_process {nothing,open,start,queries,singles} DATA [PAPERS.jsonl]``

Prints one JSON object; its times exclude loading Python and the packages.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from indexer.catalog.catalog import Catalog
from indexer.collection.changes import publish_pending
from indexer.collection.merging import TIERS, merge
from indexer.corpus.read import read_corpus
from indexer.files.data_folder import KEEP, DataFolder
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator, load_annotator
from models.types import Paper, ignore_progress
from service.collection.generations import open_engine
from service.search.query import SearchQuery, Seed
from service.settings import Settings

_QUERIES, _WARM_UP = 200, 20
Figures = dict[str, Any]


class Stopwatch:
    """Wall and processor times of a repeated action."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Time the body of the ``with`` statement."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)

    @property
    def medians(self) -> Figures:
        """The median of each time, and the wall time that one in a hundred exceeds."""
        slowest = sorted(self.wall)[int(0.99 * len(self.wall))]
        return {
            "wall_s": statistics.median(self.wall),
            "processor_s": statistics.median(self.processor),
            "p99_wall_s": slowest,
        }


def opened(data: Path) -> Figures:
    """Open the collection as commands do: files compared before are not read again."""
    watch = Stopwatch()
    with watch.measuring():
        snapshot = open_snapshot(data, reread=False)
    n_vectors = sum(segment.entry.n_rows for segment in snapshot.segments)
    counts = {"papers": len(snapshot), "vectors": n_vectors, "segments": len(snapshot.segments)}
    return {**watch.medians, **counts}


def started(data: Path) -> Figures:
    """Open the collection as the service does: compare every file, load indexes, answer one query."""
    watch = Stopwatch()
    with watch.measuring():
        open_engine(Settings(data=data)).warm_up()
    return watch.medians


def queried(data: Path) -> Figures:
    """Search for papers akin to some of the first segment, one after another."""
    engine, watch = open_engine(Settings(data=data)), Stopwatch()
    engine.warm_up()
    snapshot = engine.snapshot
    own = snapshot.kept(0)
    drawn = np.random.default_rng(0).choice(own, _WARM_UP + _QUERIES)
    queries = [SearchQuery((Seed(snapshot.paper(position).id),), limit=20) for position in drawn.tolist()]
    for query in queries[:_WARM_UP]:
        engine.search(query)
    for query in queries[_WARM_UP:]:
        with watch.measuring():
            engine.search(query)
    return {**watch.medians, "segments": len(snapshot.segments)}


def add_singly(data: Path, annotator: Annotator, papers: Iterable[Paper]) -> tuple[Stopwatch, Stopwatch, int]:
    """Add papers one by one, merging when due, as the service does.

    Returns the times of adding and of merging, and the largest number of segments.
    """
    snapshot = open_snapshot(data, reread=False)
    adding, merging = Stopwatch(), Stopwatch()
    shown, most = 0, 0
    with Catalog.open_existing(DataFolder(data).catalog) as catalog:
        for paper in papers:
            with adding.measuring():
                catalog.add([paper])
                shown = publish_pending(
                    data,
                    annotator,
                    catalog,
                    on_progress=ignore_progress,
                    keep=KEEP,
                    base=snapshot,
                    since=shown,
                ).change
                snapshot = open_snapshot(data, beside=snapshot)
            if TIERS.due(snapshot) is not None:
                with merging.measuring():
                    merge(data, snapshot, keep=KEEP)
                    snapshot = open_snapshot(data, beside=snapshot)
            most = max(most, len(snapshot.segments))
    return adding, merging, most


def added_singly(data: Path, corpus: Path) -> Figures:
    """Add the papers of a corpus one by one."""
    annotator = load_annotator("hashing", device="cpu")
    adding, merging, most = add_singly(data, annotator, read_corpus(corpus))
    return {
        **adding.medians,
        "merging_wall_s": sum(merging.wall),
        "longest_merge_wall_s": max(merging.wall, default=0.0),
        "segments": len(open_snapshot(data, reread=False).segments),
        "most_segments": most,
    }


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["nothing", "open", "start", "singles", "queries"])
    parser.add_argument("data", type=Path)
    parser.add_argument("papers", type=Path, nargs="?")
    given = parser.parse_args()
    if given.what == "singles":
        done = added_singly(given.data, given.papers)
    else:
        do = {"nothing": lambda _: {}, "open": opened, "start": started, "queries": queried}
        done = do[given.what](given.data)
    print(json.dumps(done))


if __name__ == "__main__":
    main()
