"""Nearest rows by exact L2 distance: the scan that needs no index, and the re-scoring behind every index.

Both read float16 or float32 rows in place (of a memory map, only the requested rows are read), widen them to
float32 one row at a time and sum squared differences directly. So a distance near 0 keeps its digits, and a
row has the same score, whichever backend proposed it.
"""

import math
from collections.abc import Iterator
from functools import partial
from threading import get_ident

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt64

from indexer.index.backends.prefetch import disk_reads, prefetch, read_alone
from indexer.spare_cores import on_spare_cores
from models.errors import InputError
from models.transport.compiled import compiled_reduction
from models.transport.problem import widen
from models.types import Hits

# Rows scanned between two selections of the best: 16,384 distances per query fit the second-level cache.
_BLOCK_ROWS = 16_384
# A row number takes the low half of a 64-bit sort key.
MAX_ROWS = 2**32 - 1
# Rows that are read first, to see whether the rows of a request are in memory.
_FIRST_ROWS = 8
_NO_ROW = np.uint64(2**64 - 1)
_HALF = np.uint64(32)


def check_rows(rows: np.ndarray) -> None:
    """Raise InputError, with the expected shape and type, for rows that no index can hold."""
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype not in (np.float16, np.float32):
        raise InputError(
            f"Rows of shape {rows.shape} and type {rows.dtype}; expected (n_rows, dim), at least one row, "
            "float16 or float32. Index a corpus that holds at least one sentence"
        )
    if len(rows) > MAX_ROWS:
        raise InputError(f"{len(rows)} rows in one index; at most {MAX_ROWS} fit. Split them into segments")


def check_search(
    rows: np.ndarray,
    queries: Float32[np.ndarray, "n_query dim"],
    *,
    k: int,
    allowed: Bool[np.ndarray, " n_allowed"] | None,
) -> None:
    """Raise InputError, with what was given and expected, for a search that cannot be answered."""
    if k < 1:
        raise InputError(f"{k} nearest rows requested; request at least 1")
    if len(queries) == 0 or queries.shape[1] != rows.shape[1]:
        raise InputError(
            f"Query vectors of shape {queries.shape}; expected (n_query, {rows.shape[1]}), at least one. "
            "Encode the query with the encoder that encoded the index"
        )
    if not np.isfinite(queries).all():
        raise InputError("A query vector holds NaN or infinity; every number must be finite. Encode it again")
    if allowed is not None and len(allowed) != len(rows):
        raise InputError(
            f"A filter over {len(allowed)} rows; this index holds {len(rows)}. Pass one flag per row"
        )


def nearest_rows(
    rows: np.ndarray,
    queries: Float32[np.ndarray, "n_query dim"],
    *,
    k: int,
    together: bool = False,
    allowed: Bool[np.ndarray, " n_rows"] | None = None,
    block_rows: int = _BLOCK_ROWS,
) -> Hits:
    """Return the ``k`` nearest of the ``allowed`` rows (default: all) to each query, by comparing every row.

    With ``together``, return one list of the rows nearest to any query. ``rows`` has shape (n_rows, dim).
    Equal distances come in row order. Blocks of ``block_rows`` rows are compared on idle cores; in addition
    to the result this takes a few MiB of memory per core, for the distances of a block.
    """
    numbers = np.arange(len(rows)) if allowed is None else np.flatnonzero(allowed)
    block_rows, n_lists = max(block_rows, k), 1 if together else len(queries)
    best_of_threads: dict[int, UInt64[np.ndarray, "n_query k"]] = {}

    def compare(block: Int64[np.ndarray, " n_block"]) -> None:
        best = best_of_threads.setdefault(get_ident(), np.full((n_lists, k), _NO_ROW))
        if together:
            distances = _distances_to_any(rows, queries, block)[None]
        else:
            distances = np.empty((len(queries), len(block)), np.float32)
            _distances_to_all(as_bits(rows), block, queries, distances)
        keys = _keys(distances, np.broadcast_to(block, distances.shape))
        for own, row_keys in zip(best, keys, strict=True):
            if len(block) == len(numbers) <= k:  # all rows are returned
                own[: len(block)] = np.sort(row_keys)
                continue
            better = row_keys[row_keys < own[-1]]
            own[:] = _smallest(np.concatenate((own, better)), k)

    blocks = range(0, max(len(numbers), 1), block_rows)
    tasks = [partial(compare, numbers[start : start + block_rows]) for start in blocks]
    on_spare_cores(tasks, worth_it=len(tasks) > 1)
    best, *others = best_of_threads.values()
    if others:
        best = np.stack([_smallest(keys, k) for keys in np.concatenate([best, *others], axis=1)])
    return _hits(best)


def rescored(
    rows: np.ndarray,
    queries: Float32[np.ndarray, "n_query dim"],
    *,
    proposed: Int64[np.ndarray, "n_query n_proposed"],
    k: int,
) -> Hits:
    """Return the ``k`` nearest of the row numbers ``proposed`` for each query; -1 stands for no row.

    ``rows`` has shape (n_rows, dim). Equal distances come in row order.
    """
    distances = np.empty(proposed.shape, np.float32)
    for part in read_in_parts(rows, proposed, 1):
        _distances_to_own(as_bits(rows), proposed[part], queries[part], distances[part])
    keys = np.where(proposed >= 0, _keys(distances, proposed), _NO_ROW)
    missing = max(0, k - keys.shape[1])
    padded = np.pad(keys, ((0, 0), (0, missing)), constant_values=_NO_ROW)
    return _hits(np.stack([_smallest(row_keys, k) for row_keys in padded]))


def rescored_together(
    rows: np.ndarray,
    queries: Float32[np.ndarray, "n_query dim"],
    *,
    proposed: Int64[np.ndarray, " n_proposed"],
    k: int,
) -> Hits:
    """Return one list of the ``k`` row numbers, of the distinct ones ``proposed``, nearest to any query.

    ``rows`` has shape (n_rows, dim). Equal distances come in row order.
    """
    distances = np.empty(len(proposed), np.float32)
    for part in read_in_parts(rows, proposed):
        distances[part] = _distances_to_any(rows, queries, proposed[part])
    keys = _keys(distances, proposed)
    return _hits(_smallest(np.pad(keys, (0, max(0, k - len(keys))), constant_values=_NO_ROW), k)[None])


def best_together(hits: Hits) -> Hits:
    """Return one list of the k rows nearest to any query, from the ``hits`` with the k nearest of each."""
    found = hits.rows >= 0
    rows, scores = best_of_owners(hits.rows[found], hits.scores[found])
    k = hits.rows.shape[1]
    missing = (0, max(0, k - len(rows)))
    return Hits(
        np.pad(rows[:k], missing, constant_values=-1)[None],
        np.pad(scores[:k], missing, constant_values=-np.inf)[None],
    )


def widened(rows: np.ndarray, numbers: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
    """Return the rows with these ``numbers`` as float32, for float16 in a tenth of NumPy's time."""
    wide = np.empty((len(numbers), rows.shape[1]), np.float32)
    for part in read_in_parts(rows, numbers):
        _widen_all(as_bits(rows), numbers[part], wide[part])
    return wide


def read_in_parts(
    rows: np.ndarray, numbers: Int64[np.ndarray, "..."], n_first: int = _FIRST_ROWS
) -> Iterator[slice]:
    """Yield the slice of the first ``n_first`` row ``numbers``, then that of the others.

    The caller reads each in turn. If reading the first needs the disk, the others are prefetched; numbers of
    -1 stand for no row.
    """
    with read_alone(rows):
        before = disk_reads()
        yield slice(n_first)
        others = numbers[n_first:]
        if disk_reads() > before:
            prefetch(rows, others[others >= 0])
        yield slice(n_first, None)


def best_of_owners(
    owners: Int64[np.ndarray, " n_hits"], scores: Float32[np.ndarray, " n_hits"]
) -> tuple[Int64[np.ndarray, " n_owners"], Float32[np.ndarray, " n_owners"]]:
    """Return each owner of hits (such as the paper of sentences) once, with its best score; best first.

    Equal scores come in the order of owners, which are at most MAX_ROWS.
    """
    distances = np.abs(scores)
    n_owners = int(owners.max(initial=-1)) + 1
    if n_owners <= len(owners):  # an array with a place per owner takes less time than sorting
        nearest = np.full(n_owners, np.inf, np.float32)
        np.minimum.at(nearest, owners, distances)
        found = np.flatnonzero(np.bincount(owners))
        best = _keys(nearest[found], found)
    else:
        keys = np.sort(owners.astype(np.uint64) << _HALF | distances.view(np.uint32))
        first = np.ones(len(keys), dtype=bool)
        first[1:] = keys[1:] >> _HALF != keys[:-1] >> _HALF
        best = keys[first]
        best = best << _HALF | best >> _HALF
    best.sort()
    return best.astype(np.uint32).astype(np.int64), -_distances_of(best)


def _distances_to_any(
    rows: np.ndarray, queries: Float32[np.ndarray, "n_query dim"], numbers: Int64[np.ndarray, " n"]
) -> Float32[np.ndarray, " n"]:
    """Return the distance from each row with these ``numbers`` to its nearest query."""
    distances = np.empty((len(queries), len(numbers)), np.float32)
    _distances_to_all(as_bits(rows), numbers, queries, distances)
    nearest: Float32[np.ndarray, " n"] = distances.min(axis=0)
    return nearest


def as_bits(rows: np.ndarray) -> np.ndarray:
    """Return a view of rows for numba: float16 as its bits, as numba has no float16 on CPUs."""
    bits = np.asarray(rows).view(np.uint16 if rows.dtype == np.float16 else np.float32)
    bits.flags.writeable = False  # one type, so one compilation, for arrays and memory maps
    return bits


def _keys(distances: Float32[np.ndarray, "*n"], numbers: Int64[np.ndarray, "*n"]) -> UInt64[np.ndarray, "*n"]:
    """Return an integer per hit that sorts by distance, then by row number.

    The bits of non-negative floats sort like the floats.
    """
    return (distances.view(np.uint32).astype(np.uint64) << _HALF) | numbers.astype(np.uint64)


def _distances_of(keys: UInt64[np.ndarray, "*n"]) -> Float32[np.ndarray, "*n"]:
    return (keys >> _HALF).astype(np.uint32).view(np.float32)


def _smallest(keys: UInt64[np.ndarray, " n"], k: int) -> UInt64[np.ndarray, " k"]:
    return np.sort(np.partition(keys, k - 1)[:k] if k < len(keys) else keys)


def _hits(keys: UInt64[np.ndarray, "n_query k"]) -> Hits:
    found = keys != _NO_ROW
    numbers = np.where(found, (keys & np.uint64(MAX_ROWS)).astype(np.int64), -1)
    return Hits(rows=numbers, scores=np.where(found, -_distances_of(keys), np.float32(-np.inf)))


@compiled_reduction
def _widen_all(stored: np.ndarray, numbers: np.ndarray, wide: np.ndarray) -> None:
    for i in range(numbers.shape[0]):
        widen(stored[numbers[i]], wide[i])


@compiled_reduction
def _distance(query: np.ndarray, row: np.ndarray) -> float:
    total = np.float32(0.0)
    for j in range(query.shape[0]):
        difference = query[j] - row[j]
        total += difference * difference
    return math.sqrt(total)


@compiled_reduction
def _distances_to_all(
    stored: np.ndarray, numbers: np.ndarray, queries: np.ndarray, distances: np.ndarray
) -> None:
    """Set ``distances[q, i]`` from ``queries[q]`` to ``stored[numbers[i]]``, reading each row once."""
    row = np.empty(queries.shape[1], np.float32)
    for i in range(numbers.shape[0]):
        widen(stored[numbers[i]], row)
        for q in range(queries.shape[0]):
            distances[q, i] = _distance(queries[q], row)


@compiled_reduction
def _distances_to_own(
    stored: np.ndarray, numbers: np.ndarray, queries: np.ndarray, distances: np.ndarray
) -> None:
    """Set ``distances[q, i]`` from ``queries[q]`` to ``stored[numbers[q, i]]``; infinite for number -1."""
    row = np.empty(queries.shape[1], np.float32)
    for q in range(queries.shape[0]):
        for i in range(numbers.shape[1]):
            distances[q, i] = np.inf
            if numbers[q, i] >= 0:
                widen(stored[numbers[q, i]], row)
                distances[q, i] = _distance(queries[q], row)
