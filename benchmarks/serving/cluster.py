"""A query on a Ray cluster compared with the same in process: python -m benchmarks.serving.cluster DATA

Searches by id for papers of the collection, in turn in process and on the cluster, and compares the answers.
The cluster is local, so its shards share the cores with the query, unless --ray names another.
"""

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from models.annotator import Annotator
from models.types import Facet
from service.cluster.shards import Shards
from service.cluster.snapshot import ShardedSnapshot
from service.search.aspect import Aspect
from service.search.engine import SearchEngine
from service.search.query import SearchAnswer, SearchQuery, Seed

BACKGROUND = Aspect(facets=(Facet.BACKGROUND,))
KINDS = {
    "whole abstract": lambda paper: SearchQuery((Seed(paper),)),
    "facet background": lambda paper: SearchQuery((Seed(paper, aspect=BACKGROUND),)),
    "100 results": lambda paper: SearchQuery((Seed(paper),), limit=100),
}


def no_models() -> Annotator:
    """Fail if called: papers of the collection need no encoder."""
    raise AssertionError("nothing is encoded here")


def timed(engine: SearchEngine, query: SearchQuery) -> tuple[float, SearchAnswer]:
    """Return the milliseconds, and the answer without its own time."""
    started = time.perf_counter()
    answer = engine.search(query)
    return (time.perf_counter() - started) * 1000, replace(answer, took_ms=0.0)


def described(manifest: Manifest) -> str:
    """Describe the size of the collection."""
    backends = ", ".join(dict.fromkeys(entry.backend for entry in manifest.segments))
    return (
        f"{manifest.n_papers:,} papers, {manifest.n_rows:,} vectors of {manifest.encoder.name} in "
        f"{len(manifest.segments)} segments ({backends})"
    )


def main() -> None:
    """Run the queries, and print a line for each kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--ray", default="local")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--queries", type=int, default=50)
    given = parser.parse_args()
    here = SearchEngine(open_snapshot(given.data), no_models, n_candidates=200)
    shards = Shards(given.ray, given.data, n_shards=given.shards)
    there = SearchEngine(ShardedSnapshot(open_snapshot(given.data), shards), no_models, n_candidates=200)
    snapshot = here.snapshot
    print(f"{described(snapshot.manifest)}; {given.shards} shards")
    papers = [
        snapshot.paper(int(each)).id for each in snapshot.positions[:: max(1, len(snapshot) // given.queries)]
    ]
    for name, query_of in KINDS.items():
        for engine in (here, there):  # loads scales and compiles machine code
            engine.search(query_of(papers[0]))
        times: list[tuple[float, float]] = []
        for paper in papers[: given.queries]:
            (own_ms, own), (other_ms, other) = (timed(engine, query_of(paper)) for engine in (here, there))
            assert repr(own) == repr(other), paper
            times.append((own_ms, other_ms))
        medians = [statistics.median(each) for each in zip(*times, strict=True)]
        p95 = [statistics.quantiles(each, n=20)[-1] for each in zip(*times, strict=True)]
        print(
            f"{name:<18} in process {medians[0]:6.1f} ms (p95 {p95[0]:6.1f}), on the cluster "
            f"{medians[1]:6.1f} (p95 {p95[1]:6.1f}), {medians[1] / medians[0]:.2f} times; {len(times)} equal"
        )
    shards.close()


if __name__ == "__main__":
    main()
