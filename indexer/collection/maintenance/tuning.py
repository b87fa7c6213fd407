"""Tuning of the search effort of approximate indexes to a target recall."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from jaxtyping import Float32

from indexer.collection.publishing import publish, publishing, served_by
from indexer.index.backends.exact import ExactIndex
from indexer.index.backends.faiss_codes import FaissCodesIndex
from indexer.index.vector_index import JoinedIndex, VectorIndex
from indexer.snapshot.manifest import Manifest
from indexer.snapshot.opening import open_snapshot
from indexer.snapshot.snapshot import Snapshot
from models.errors import InputError
from models.types import ProgressFn, ignore_progress

# Multiples of the usual effort, in steps of about the fourth root of two.
EFFORTS: Final = (
    *(0.25, 0.3, 0.35, 0.42, 0.5, 0.6, 0.7, 0.84, 1.0, 1.2),
    *(1.4, 1.7, 2.0, 2.4, 2.8, 3.4, 4.0, 4.8, 5.6, 6.7, 8.0),
)
# How many nearest sentences of each sampled sentence should be found.
K: Final = 100
N_QUERIES: Final = 200
_AT_ONCE: Final = 8
# Scores of the same row may differ this much if computed in another order.
_SAME: Final = 1e-5
_SEED: Final = 20_261_124


@dataclass(frozen=True, slots=True)
class EffortTrial:
    """An effort, the mean share of true nearest sentences it finds, and the median milliseconds per query."""

    effort: float
    recall: float
    ms: float


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The efforts tried, in ascending order, and the ``chosen`` one: ``None`` if none was enough.

    None are tried if every index compares all rows. ``manifest`` is the manifest served afterwards.
    """

    tries: tuple[EffortTrial, ...]
    chosen: EffortTrial | None
    manifest: Manifest


def tune(
    data: Path,
    *,
    recall: float,
    n_queries: int = N_QUERIES,
    device: str = "cpu",
    keep: int,
    store: bool = True,
    on_progress: ProgressFn = ignore_progress,
) -> TuningResult:
    """Find the least effort that finds the share ``recall`` of the nearest sentences, and store it.

    The queries are ``n_queries`` sentences of the collection, drawn at random. With ``store``, a generation
    with this effort is published; later generations keep it. Raises InputError if ``recall`` is not a share
    or ``n_queries`` not positive; SnapshotMissingError, SnapshotCorruptError, StorageError, BuildLockedError.
    """
    if not 0 < recall <= 1 or n_queries < 1:
        raise InputError(
            f"a recall of {recall} over {n_queries} queries; expected a share above 0 and at most 1, and at "
            "least one query"
        )
    snapshot = open_snapshot(data, device=device, reread=False)
    indexes = [segment.index for segment in snapshot.segments]
    if not any(isinstance(index, FaissCodesIndex) for index in indexes):
        return TuningResult((), None, snapshot.manifest)
    rows = [segment.vectors.rows for segment in snapshot.segments]
    queries = _sample(rows, n_queries)
    tries = list(tried_efforts(indexes, rows, queries, recall=recall, on_progress=on_progress))
    chosen = tries[-1] if tries[-1].recall >= recall else None
    if chosen is None or not store or chosen.effort == snapshot.manifest.effort:
        return TuningResult(tuple(tries), chosen, snapshot.manifest)
    return TuningResult(tuple(tries), chosen, _stored(data, snapshot, chosen.effort, keep))


def tried_efforts(
    indexes: Sequence[VectorIndex],
    rows: Sequence[np.ndarray],
    queries: Float32[np.ndarray, "n_query dim"],
    *,
    recall: float,
    on_progress: ProgressFn = ignore_progress,
) -> Iterator[EffortTrial]:
    """Yield the recall of ``indexes`` over ``rows`` for ``queries``, by rising effort until it is enough.

    The indexes are left at the last effort tried.
    """
    n_rows = [len(own) for own in rows]
    found, exact = JoinedIndex.of(indexes, n_rows), JoinedIndex.of([*map(ExactIndex, rows)], n_rows)
    k = min(K, sum(n_rows))
    least = []  # for each query, the lowest score that should be found
    for start in range(0, len(queries), _AT_ONCE):
        on_progress("comparing every sentence", start, len(queries))
        least.extend(exact.search(queries[start : start + _AT_ONCE], k).scores[:, -1].tolist())
    for number, effort in enumerate(EFFORTS):
        on_progress("trying efforts", number, len(EFFORTS))
        for index in indexes:
            if isinstance(index, FaissCodesIndex):
                index.effort = effort
        shares, took = [], []
        for query, last in zip(queries, least, strict=True):
            started = time.perf_counter()
            scores = found.search(query[np.newaxis], k).scores[0]
            took.append(1000 * (time.perf_counter() - started))
            shares.append(np.count_nonzero(scores >= last - _SAME) / k)
        tried = EffortTrial(effort, min(float(np.mean(shares)), 1.0), median(took))
        yield tried
        if tried.recall >= recall:
            return


def _sample(rows: Sequence[np.ndarray], n: int) -> Float32[np.ndarray, "n_query dim"]:
    """Return ``n`` of all rows, or all if there are fewer; drawn at random with a fixed seed."""
    bounds = np.cumsum([0, *map(len, rows)])
    drawn = np.random.default_rng(_SEED).choice(bounds[-1], min(n, int(bounds[-1])), replace=False)
    numbers = np.searchsorted(bounds, drawn, side="right") - 1
    return np.stack(
        [
            np.asarray(rows[number][row - bounds[number]], np.float32)
            for number, row in zip(numbers, drawn, strict=True)
        ]
    )


def _stored(data: Path, beside: Snapshot, effort: float, keep: int) -> Manifest:
    """Publish a copy of the served generation that is searched with ``effort``; return its manifest."""
    with publishing(data, beside) as now:
        return publish(data, replace(now.manifest, effort=effort), served_by(now), now=now, keep=keep)
