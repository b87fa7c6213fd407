"""Index backends side by side on the same rows: ``python -m benchmarks.index [VECTORS.npy]``.

Without a file, clustered unit vectors stand in; their recall says little about real sentences (real vectors
cluster far less). One thread. Latency is the median of calls of 8 query sentences, the backends taking turns,
so that what else the machine does falls on all alike; compare the ratios.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import faiss
import numpy as np
from rich.console import Console
from rich.table import Table

from indexer.index.vector_index import BACKENDS, VectorIndex, build_index

SENTENCES, CALLS, K = 8, 100, 100


@dataclass
class Entry:
    """One backend under test: latencies in milliseconds, file size in bytes a row."""

    name: str
    index: VectorIndex
    build_s: float
    file_bytes: float
    latencies_ms: list[float] = field(default_factory=list)
    found: list[np.ndarray] = field(default_factory=list)


def synthetic(n: int, dim: int) -> np.ndarray:
    """Unit vectors around 1,000 centres, float16."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((1000, dim), dtype=np.float32)
    vectors = centres[rng.integers(0, 1000, n)] + rng.standard_normal((n, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16)


def measure(rows: np.ndarray, queries: np.ndarray, names: list[str]) -> list[Entry]:
    """Build every backend, then let them answer the same calls in turn."""
    entries = []
    for name in names:
        start = time.perf_counter()
        index = build_index(rows, name, device="cpu")
        build_s = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            index.save(Path(folder) / "index.bin")
            n_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())
        index.search(queries[:SENTENCES], K)  # the first call compiles
        entries.append(Entry(name, index, build_s, n_bytes / len(rows)))
    for first in range(0, len(queries), SENTENCES):
        for entry in entries:
            start = time.perf_counter()
            hits = entry.index.search(queries[first : first + SENTENCES], K)
            entry.latencies_ms.append(1000 * (time.perf_counter() - start))
            entry.found.append(hits.rows)
    return entries


def table(entries: list[Entry], title: str) -> Table:
    """Figures of every backend; ratios and recall against the exact ones."""
    by_name = {entry.name: entry for entry in entries}
    truth = np.concatenate(by_name["exact"].found)
    flat_ms = float(np.median(by_name["flat"].latencies_ms))
    result = Table(
        "backend", "build s", "file B/row", "p50 ms", "p95 ms", "flat / it", f"recall@{K}", title=title
    )
    for entry in entries:
        p50, p95 = np.percentile(entry.latencies_ms, [50, 95])
        pairs = zip(truth, np.concatenate(entry.found), strict=True)
        recall = np.mean([len(np.intersect1d(expected, found)) / K for expected, found in pairs])
        result.add_row(
            entry.name,
            f"{entry.build_s:.1f}",
            f"{entry.file_bytes:.0f}",
            f"{p50:.2f}",
            f"{p95:.2f}",
            f"{flat_ms / p50:.1f}",
            f"{recall:.4f}",
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
    Console(width=100).print(table(measure(rows, queries, names), title))


if __name__ == "__main__":
    main()
