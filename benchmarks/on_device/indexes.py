"""The indexes on a device: build, load and search, compared with a full scan on the processor."""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.on_device.rows import Row, Sizes, same_top, seconds
from indexer.index.backends.faiss_codes import ALWAYS_SCAN_ROWS
from indexer.index.backends.nearest import nearest_rows
from indexer.index.vector_index import VectorIndex, build_index, load_index, serving_backend
from models.types import Hits
from tests.support.examples.models.clusters import clustered

K, SENTENCES, MANY = 100, 8, 512


def rows(device: str, sizes: Sizes) -> Iterator[Row]:
    """Search clustered float16 rows; 8 queries a call, as for one abstract, and 512, as for a batch."""
    vectors = clustered(sizes.rows, sizes.dim)
    queries = clustered(MANY, sizes.dim, seed=1).astype(np.float32)
    yield from _one("flat", device, vectors, queries, sizes, least_top=1.0)
    listed = vectors[: sizes.listed_rows]
    for name in ("ivfsq", "ivfpq"):
        yield from _one(name, device, listed, queries, sizes, least_top=0.9)


def _one(
    name: str, device: str, vectors: np.ndarray, queries: np.ndarray, sizes: Sizes, *, least_top: float
) -> Iterator[Row]:
    served = serving_backend(name, vectors.shape, device)
    what = f"{name}{f' served by {served}' * (served != name)}, {len(vectors):,} rows of {vectors.shape[1]}"
    with tempfile.TemporaryDirectory() as folder:
        built, path = [], Path(folder) / "index.bin"
        for place in ("cpu", device):
            if name == "flat":
                continue
            start = time.perf_counter()
            index = build_index(vectors, name, device=place)
            built.append(time.perf_counter() - start)
            index.save(path)
        if built:
            yield Row(f"{what}: build", "s", built[1], built[0])
        start = time.perf_counter()
        index = load_index(path, vectors, backend=name, device=device)
        yield Row(f"{what}: load", "s", time.perf_counter() - start)
    few = queries[:SENTENCES]
    scan_s = seconds(partial(nearest_rows, vectors, few, k=K), 1)
    expected, found = nearest_rows(vectors, few, k=K), index.search(few, K)
    top, error = same_top(expected.rows, found.rows), _error(expected, found)
    note = "" if len(vectors) > ALWAYS_SCAN_ROWS else "so few rows are compared on the processor"
    yield Row(
        f"{what}: {SENTENCES} queries, k {K}",
        "ms",
        1000 * seconds(partial(index.search, few, K), sizes.rounds),
        1000 * scan_s,
        error,
        1e-5,
        top,
        least_top,
        note or f"processor: a scan; recall@{K} {_recall(expected, found):.3f}",
    )
    yield Row(f"{what}: {MANY} queries, k {K}", "queries/s", MANY / _many_s(index, queries, sizes))
    half = np.random.default_rng(0).random(len(vectors)) < 0.5
    yield Row(
        f"{what}: the same {SENTENCES}, half of the rows allowed",
        "ms",
        1000 * seconds(partial(index.search, few, K, allowed=half), sizes.rounds),
        top=same_top(
            nearest_rows(vectors, few, k=K, allowed=half).rows, index.search(few, K, allowed=half).rows
        ),
        least_top=least_top,
    )


def _many_s(index: VectorIndex, queries: np.ndarray, sizes: Sizes) -> float:
    return seconds(partial(index.search, queries, K), max(1, sizes.rounds // 2))


def _error(expected: Hits, found: Hits) -> float:
    """Return the largest score difference over the rows found by both."""
    errors = [0.0]
    for query in range(len(expected.rows)):
        _, own, other = np.intersect1d(expected.rows[query], found.rows[query], return_indices=True)
        errors.append(float(np.abs(expected.scores[query, own] - found.scores[query, other]).max(initial=0)))
    return max(errors)


def _recall(expected: Hits, found: Hits) -> float:
    pairs = zip(expected.rows, found.rows, strict=True)
    return float(np.mean([len(np.intersect1d(own, other)) / len(own) for own, other in pairs]))
