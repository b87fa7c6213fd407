"""The cost of adding papers, and whether a grown collection answers like one built at once.

``python -m benchmarks.indexing.growth CORPUS.jsonl.gz [--papers 20000 --added 1000 --encoder hashing]``
"""

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from indexer.collection.build import build
from indexer.collection.merging import compact
from indexer.encoding.arguments import BuildArguments
from indexer.files.data_folder import KEEP
from indexer.index.backends.exact import ExactIndex
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.annotator import Annotator, load_annotator
from service.search.candidates import find_candidates
from service.search.engine import SearchEngine
from service.search.query import SearchQuery, Seed

SMALL_ADDS = 50
TOP = 20
N_QUERIES = 100


class Collections:
    """Data folders in ``root``, filled from JSON lines."""

    def __init__(self, root: Path, encoder: str) -> None:
        self.root = root
        self.encoder = encoder
        self.annotator = load_annotator(encoder, device="cpu")

    def feed(self, name: str, lines: Sequence[str], *, backend: str) -> float:
        """Index lines into the folder ``name``; return the seconds it took."""
        corpus = self.root / "corpus.jsonl"
        corpus.write_text("".join(lines), encoding="utf-8")
        arguments = BuildArguments(encoder=self.encoder, backend=backend, device="cpu")
        return build(
            [corpus], self.root / name, self.annotator, arguments=arguments, on_progress=lambda *_: None
        ).took_s

    def open(self, name: str) -> Snapshot:
        """Open the snapshot of the folder ``name``."""
        return open_snapshot(self.root / name)


def answers(snapshot: Snapshot, ids: Sequence[str], annotator: Annotator) -> list[list[tuple[str, float]]]:
    """Return the first results of each query, with scores."""
    engine = SearchEngine(snapshot, lambda: annotator, n_candidates=200)
    found = [engine.search(SearchQuery((Seed(paper_id),), limit=TOP)).results for paper_id in ids]
    return [[(ranked.paper.id, ranked.score) for ranked in results] for results in found]


def recall_and_ms(snapshot: Snapshot, ids: Sequence[str]) -> tuple[float, float]:
    """Return the share of the true nearest 200 papers that the index finds, and its median milliseconds."""
    exact = ExactIndex(snapshot.gather(np.arange(len(snapshot.live)))[0])
    own, shares, took = snapshot.index, [], []
    for paper_id in ids:
        vectors = snapshot.vectors(snapshot.position(paper_id))
        started = time.perf_counter()
        found = find_candidates(snapshot, vectors, n_papers=200, allowed=snapshot.live)
        took.append(1000 * (time.perf_counter() - started))
        snapshot.index = exact
        true = find_candidates(snapshot, vectors, n_papers=200, allowed=snapshot.live)
        snapshot.index = own
        shares.append(len({c.position for c in found} & {c.position for c in true}) / len(true))
    return statistics.mean(shares), statistics.median(took)


def sample(snapshot: Snapshot) -> list[str]:
    """Draw the ids of some papers."""
    drawn = np.random.default_rng(0).choice(snapshot.positions, N_QUERIES, replace=False)
    return [snapshot.paper(int(position)).id for position in drawn]


def at_once(all_of: Collections, lines: Sequence[str], n_first: int, table: Table) -> None:
    """Add many papers in one go: the cost, and whether the answers equal those of a new collection."""
    n_more = len(lines) - n_first
    table.add_row(
        f"index {n_first:,} papers", f"{all_of.feed('grown', lines[:n_first], backend='exact'):.1f} s"
    )
    alone_s = all_of.feed("alone", lines[n_first:], backend="exact")
    table.add_row(f"index {n_more:,} papers alone", f"{alone_s:.1f} s")
    table.add_row(f"add {n_more:,} papers", f"{all_of.feed('grown', lines[n_first:], backend='exact'):.1f} s")
    table.add_row("index all anew", f"{all_of.feed('anew', lines, backend='exact'):.1f} s")
    grown, anew = all_of.open("grown"), all_of.open("anew")
    ids = sample(anew)
    pairs = list(
        zip(answers(grown, ids, all_of.annotator), answers(anew, ids, all_of.annotator), strict=True)
    )
    same = sum({key for key, _ in one} == {key for key, _ in other} for one, other in pairs)
    gap = max(abs(dict(one).get(key, score) - score) for one, other in pairs for key, score in other)
    table.add_row(f"same first {TOP} as anew, exact", f"{same} of {N_QUERIES}, scores within {gap:.1e}")


def bit_by_bit(all_of: Collections, lines: Sequence[str], n_first: int, table: Table) -> None:
    """Add the same papers in many small steps, compact, and compare with a collection built at once."""
    all_of.feed("fed", lines[:n_first], backend="auto")
    step = (len(lines) - n_first) // SMALL_ADDS
    took = [
        all_of.feed("fed", lines[start : start + step], backend="auto")
        for start in range(n_first, len(lines), step)
    ]
    table.add_row(f"add {step} papers, {SMALL_ADDS} times: median", f"{statistics.median(took):.2f} s")
    fed = all_of.open("fed")
    ids = sample(fed)
    rows = [(f"after {SMALL_ADDS} adds, {len(fed.segments)} segments", *recall_and_ms(fed, ids))]
    started = time.perf_counter()
    compact(all_of.root / "fed", fed, device="cpu", keep=KEEP)
    table.add_row("compact", f"{time.perf_counter() - started:.1f} s")
    rows.append(("compacted", *recall_and_ms(all_of.open("fed"), ids)))
    all_of.feed("fresh", lines, backend="auto")
    fresh = all_of.open("fresh")
    rows.append((f"built at once ({fresh.manifest.backends})", *recall_and_ms(fresh, ids)))
    for name, recall, ms in rows:
        table.add_row(f"{name}: recall@200, candidates, median", f"{recall:.2%}, {ms:.1f} ms")


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--papers", type=int, default=20_000)
    parser.add_argument("--added", type=int, default=1_000)
    parser.add_argument("--encoder", default="hashing")
    given = parser.parse_args()
    with gzip.open(given.corpus, "rt", encoding="utf-8") as stream:
        lines = list(islice(stream, given.papers + given.added))
    table = Table("what", "figure", title=f"{given.papers:,} papers, {given.added:,} more, {given.encoder}")
    for part in (at_once, bit_by_bit):
        with tempfile.TemporaryDirectory() as folder:
            part(Collections(Path(folder), given.encoder), lines, given.papers, table)
    Console().print(table)


if __name__ == "__main__":
    main()
