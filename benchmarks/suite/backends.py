"""Index backends on the same rows, goal P4: ``python -m benchmarks.suite.backends [VECTORS.npy]``.

Without a file it uses clustered unit vectors; their recall says little about real sentences (real vectors
cluster far less). One thread. Latency is the median of calls of 8 query sentences; the backends take turns,
so that other load on the machine affects all alike; compare the ratios.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest.mock import patch

import faiss
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.suite.rows import OURS, WHOLE, Row, beside, in_turns, seconds_of, share
from indexer.collection.maintenance.tuning import tried_efforts
from indexer.index.backends import faiss_codes
from indexer.index.backends.faiss_codes import ADD_ROWS, FaissCodesIndex, scan_is_cheaper
from indexer.index.backends.nearest import rescored
from indexer.index.vector_index import BACKENDS, VectorIndex, build_index
from models.types import Hits

SENTENCES, CALLS, K = 8, 100, 100
TUNED, TRIED_CALLS = 0.97, 30  # the recall requested from `akin tune`, and the number of calls that it tries
_GOAL_ROWS = 2_000_000  # the goals are for this many rows


@dataclass(frozen=True, slots=True)
class FlatAlone:
    """FAISS's comparison of every row, in float32, and nothing else."""

    index: faiss.IndexFlatL2

    @classmethod
    def build(cls, rows: np.ndarray) -> "FlatAlone":
        """Return the index of the rows, which it copies."""
        index = faiss.IndexFlatL2(rows.shape[1])
        for start in range(0, len(rows), ADD_ROWS):
            index.add(np.asarray(rows[start : start + ADD_ROWS], np.float32))
        return cls(index)

    def search(self, queries: np.ndarray, k: int) -> Hits:
        """Return the nearest ``k`` rows of each query."""
        squared, numbers = self.index.search(queries, k)
        return Hits(numbers, -squared)


@dataclass
class Entry:
    """One backend under test: latencies in milliseconds, file size in bytes per row."""

    name: str
    index: VectorIndex | FlatAlone
    build_s: float
    file_bytes: float
    latencies_ms: list[float] = field(default_factory=list)
    found: list[np.ndarray] = field(default_factory=list)


def synthetic(n: int, dim: int) -> np.ndarray:
    """Return float16 unit vectors around 1,000 centres."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((1000, dim), dtype=np.float32)
    vectors = centres[rng.integers(0, 1000, n)] + rng.standard_normal((n, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16)


def built(rows: np.ndarray, names: list[str]) -> list[Entry]:
    """Build every backend."""
    entries = []
    for name in names:
        start = time.perf_counter()
        index = build_index(rows, name, device="cpu")
        build_s = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            index.save(Path(folder) / "index.bin")
            n_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())
        index.search(np.asarray(rows[:SENTENCES], np.float32), K)  # the first call compiles
        entries.append(Entry(name, index, build_s, n_bytes / len(rows)))
    return entries


def answer(entries: list[Entry], queries: np.ndarray) -> None:
    """Time all entries on the same calls in turn."""
    for first in range(0, len(queries), SENTENCES):
        for entry in entries:
            start = time.perf_counter()
            hits = entry.index.search(queries[first : first + SENTENCES], K)
            entry.latencies_ms.append(1000 * (time.perf_counter() - start))
            entry.found.append(hits.rows)


def tuned(entries: list[Entry], rows: np.ndarray, queries: np.ndarray) -> tuple[float, list[Entry]]:
    """Return the effort that `akin tune` chooses on some queries, and entries timed on the others."""
    n_tried = SENTENCES * TRIED_CALLS
    indexes = [entry.index for entry in entries if entry.name == "ivfpq"]
    *_, chosen = tried_efforts(indexes, [rows], queries[:n_tried], recall=TUNED)
    again = [Entry(each.name, each.index, each.build_s, each.file_bytes) for each in entries]
    answer(again, queries[n_tried:])
    return chosen.effort, again


def recall(found: Entry, truth: Entry) -> float:
    """Return the share of the nearest ``K`` rows that a backend finds."""
    pairs = zip(np.concatenate(truth.found), np.concatenate(found.found), strict=True)
    return float(np.mean([len(np.intersect1d(expected, own)) / K for expected, own in pairs]))


def rows(sizes: Sequence[int]) -> Iterator[Row]:
    """Yield the rows of the candidate stage, over so many made-up vectors."""
    faiss.omp_set_num_threads(1)
    for n_rows in sizes:
        yield from _of_size(n_rows)


def _of_size(n_rows: int) -> Iterator[Row]:
    n_queries = SENTENCES * CALLS
    vectors = synthetic(n_rows + n_queries, 384)
    rows, queries = vectors[:-n_queries], vectors[-n_queries:].astype(np.float32)
    bare = Entry("FAISS Flat", FlatAlone.build(rows), 0.0, 0.0)
    usual = [*built(rows, ["exact", "ivfpq"]), bare]
    answer(usual, queries)
    effort, again = tuned(usual, rows, queries)
    is_large = n_rows >= _GOAL_ROWS
    for how, (exact, ours, flat) in (("", usual), (f", tuned (effort {effort:g})", again)):
        what = f"candidates of a paper of 8 sentences among {n_rows:,} rows{how}"
        found = recall(ours, exact)
        yield beside(
            {OURS: ours.latencies_ms, "FAISS Flat": flat.latencies_ms},
            "FAISS Flat",
            goal="P4",
            what=what,
            scale=1,
            least=80 if is_large else None,
            note=f"recall@{K} {found:.1%}, made-up rows",
        )
        share_found = f"{what}, recall@{K}"
        yield Row("P4", share_found, "share", found, least=0.97 if is_large else None, note="made-up rows")
        if is_large:
            yield Row("P4", what, "ms", float(np.median(ours.latencies_ms)), most=6.5)
    ours = usual[1]
    assert isinstance(ours.index, FaissCodesIndex)
    yield from _stages(ours.index, rows, queries[SENTENCES * TRIED_CALLS :], what)
    for n_sentences, threads, most in ((1, 1, 1.3), (SENTENCES, 2, 3.5)):
        what = f"candidates of {n_sentences} sentence{'s' * (n_sentences > 1)} among {n_rows:,} rows, tuned"
        calls = range(SENTENCES * TRIED_CALLS, n_queries, SENTENCES)
        with faiss_threads(threads):
            spent = [
                seconds_of(partial(ours.index.search, queries[first : first + n_sentences], K))
                for first in calls
            ]
        named = f"{what}, {threads} thread{'s' * (threads > 1)}"
        note = "a search of the service gives each of its segments one" if threads > 1 else ""
        bound = most if is_large else None
        yield Row("P4", named, "ms", 1000 * float(np.median(spent)), most=bound, note=note)
    what = f"the file of the index of {n_rows:,} rows, which is read into memory"
    yield Row("P8", what, "bytes a sentence", ours.file_bytes, most=384 + 64)


@contextmanager
def faiss_threads(n: int) -> Iterator[None]:
    """Let each call of FAISS use ``n`` threads, also those of an index, which uses one."""
    with ExitStack() as stack:
        if n > 1:
            stack.enter_context(patch.object(faiss_codes, "_one_thread", nullcontext))
        stack.callback(faiss.omp_set_num_threads, faiss.omp_get_max_threads())
        faiss.omp_set_num_threads(n)
        yield


def _stages(index: FaissCodesIndex, rows: np.ndarray, queries: np.ndarray, what: str) -> Iterator[Row]:
    """Yield the parts of finding candidates as shares of the whole; none where every row is compared."""
    effort = index.usual_effort(K, len(rows)).times(index.effort, k=K)
    if scan_is_cheaper(len(rows), effort.cost_rows):
        return
    lists, codes, scores = "choosing lists", "choosing lists and scanning their codes, FAISS", "re-scoring"
    spent: dict[str, list[float]] = {name: [] for name in (WHOLE, lists, codes, scores)}
    for first in range(0, len(queries), SENTENCES):
        own = queries[first : first + SENTENCES]
        propose = partial(index._proposed, own, effort.breadth, effort.n_proposed, None)  # noqa: SLF001
        actions = {
            WHOLE: partial(index.search, own, K),
            lists: partial(index._index.quantizer.search, own, effort.breadth),  # noqa: SLF001
            codes: propose,
            scores: partial(rescored, rows, own, proposed=propose()[1], k=K),
        }
        for name, seconds in in_turns(actions, rounds=1, warm=False).items():
            spent[name] += seconds
    bare = {OURS: spent[WHOLE], "FAISS's own calls": spent[codes]}
    yield beside(bare, "FAISS's own calls", goal="P4", what=what, inverted=True)
    for part in (lists, codes, scores):
        yield share(f"{what}: {part}", spent[part], spent[WHOLE])


def table(entries: list[Entry], title: str) -> Table:
    """Return a table of all backends; ratios and recall are relative to the exact ones."""
    by_name = {entry.name: entry for entry in entries}
    flat_ms = float(np.median(by_name["flat"].latencies_ms))
    result = Table(
        "backend", "build s", "file B/row", "p50 ms", "p95 ms", "flat / it", f"recall@{K}", title=title
    )
    for entry in entries:
        p50, p95 = np.percentile(entry.latencies_ms, [50, 95])
        result.add_row(
            entry.name,
            f"{entry.build_s:.1f}",
            f"{entry.file_bytes:.0f}",
            f"{p50:.2f}",
            f"{p95:.2f}",
            f"{flat_ms / p50:.1f}",
            f"{recall(entry, by_name['exact']):.4f}",
        )
    return result


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "vectors", nargs="?", type=Path, help=".npy of shape (n_rows, dim), float16 or float32"
    )
    parser.add_argument("--rows", type=int, default=100_000, help="synthetic rows where no file is given")
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), help="exact and flat always run")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    n_queries = SENTENCES * CALLS
    vectors = (
        np.load(arguments.vectors, mmap_mode="r")
        if arguments.vectors
        else synthetic(arguments.rows + n_queries, 384)
    )
    rows, queries = vectors[:-n_queries], vectors[-n_queries:].astype(np.float32)
    names = [name for name in BACKENDS if name in {"exact", "flat", *arguments.backends}]
    title = (
        f"{len(rows)} rows of {rows.shape[1]} {rows.dtype}, {SENTENCES} queries a call, k = {K}, one thread"
    )
    entries = built(rows, names)
    answer(entries, queries)
    Console(width=100).print(table(entries, title))


if __name__ == "__main__":
    main()
