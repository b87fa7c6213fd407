"""The nearest-neighbour index over sentence vectors: its protocol, five backends, and how one is chosen."""

import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import structlog
from jaxtyping import Bool, Float32, Int64

from indexer.spare_cores import on_spare_cores
from models.encoders.device_names import checked_device
from models.errors import DeviceFullError
from models.registry import resolve
from models.types import Hits, ignore_progress

BACKENDS = {
    "exact": "indexer.index.backends.exact:ExactIndex",
    "flat": "indexer.index.backends.faiss_flat:FlatIndex",
    "hnsw": "indexer.index.backends.faiss_hnsw:HnswIndex",
    "ivfpq": "indexer.index.backends.faiss_ivfpq:IvfPqIndex",
    "ivfsq": "indexer.index.backends.faiss_ivfsq:IvfSqIndex",
}

# An exact scan of this many rows takes 16 ms on one core for a paper of 8 sentences (dim 384, float16): less
# than encoding a query, without index file or memory. With more rows, ``ivfpq`` answers within a few ms.
MAX_EXACT_ROWS = 100_000
log = structlog.get_logger(__name__)

OnRows = Callable[[int], object]
# Each of several indexes is first searched for this multiple of its share of the best rows, plus spare hits.
# With less, indexes in which papers of one subject lie together must be searched again too often.
_MORE_THAN_SHARE, _SPARE_HITS = 2.0, 16
# Starting a thread takes 0.1 ms, searching this many rows 5 ms.
WORTH_THREADS = 200_000
# The backends that can reside on a GPU.
_GPU_BACKENDS = ("flat", "ivfsq")
_CHECK_GPU = "indexer.index.backends.gpu:check_gpu"
_GPU_WITH_ROOM = "indexer.index.backends.gpu:gpu_with_room"
_FLAT_BYTES = "indexer.index.backends.faiss_flat:flat_bytes"


@runtime_checkable
class VectorIndex(Protocol):
    """The search for the nearest rows of one packed array of vectors, by L2 distance.

    A backend is a class with these methods and two constructors, called by ``build_index`` and
    ``load_index``: ``build(rows, *, device, on_rows)`` and ``load(path, rows, *, device, effort)``. It keeps
    ``rows`` and computes scores from them, so every row is returned with its exact distance. Several threads
    may search at once.
    """

    def search(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        k: int,
        *,
        together: bool = False,
        allowed: Bool[np.ndarray, " n_rows"] | None = None,
    ) -> Hits:
        """Return the ``k`` rows nearest to each query, among the ``allowed`` rows or all.

        With ``together``, return one list of the rows nearest to any query, each scored by its nearest query.
        Best first, equal scores in row order. Fewer than ``k`` are returned only if fewer are allowed. Which
        rows ``hnsw``, ``ivfpq`` and ``ivfsq`` return is approximate; their number and scores are exact.

        Raises:
            InputError: if ``k`` is under 1, or a query is not finite or not of the index's dimension.
        """
        ...

    def save(self, path: Path) -> None:
        """Write the built index to ``path``, for ``load``; ``exact`` and ``flat`` need no file."""
        ...


@dataclass(frozen=True, slots=True)
class Lookup:
    """A search in one of several indexes: for the ``k`` rows nearest to ``queries``, among the ``allowed``.

    ``number`` is the number of the index; its rows are numbered from 0. ``together`` as in ``VectorIndex``.
    """

    number: int
    queries: Float32[np.ndarray, "n_query dim"]
    k: int
    together: bool
    allowed: Bool[np.ndarray, " n_rows"] | None


# A function that returns the hits of several look-ups, in their order.
LookUp = Callable[[Sequence[Lookup]], Sequence[Hits]]


def look_up_here(
    indexes: Sequence[VectorIndex],
    n_rows: Sequence[int],
    lookups: Sequence[Lookup],
    *,
    worth_threads: int = WORTH_THREADS,
) -> list[Hits]:
    """Return the hits of each look-up, using spare cores if ``worth_threads`` rows or more are searched."""

    def found(each: Lookup) -> Hits:
        index = indexes[each.number]
        return index.search(each.queries, each.k, together=each.together, allowed=each.allowed)

    worth_it = sum(n_rows[each.number] for each in lookups) >= worth_threads
    return on_spare_cores([partial(found, each) for each in lookups], worth_it=worth_it)


class JoinedIndex:
    """The indexes of several segments as one, with their rows numbered consecutively.

    Hit lists can be merged because every row has its exact distance. ``n_rows`` are the sizes of the indexes;
    ``look_up`` searches several of them, in this process or elsewhere. Only the indexes themselves are saved.
    """

    def __init__(self, look_up: LookUp, n_rows: Sequence[int]) -> None:
        self._look_up = look_up
        self._bounds: list[int] = np.concatenate([[0], np.cumsum(n_rows)]).astype(int).tolist()

    @classmethod
    def of(cls, indexes: Sequence[VectorIndex], n_rows: Sequence[int]) -> "JoinedIndex":
        """Join indexes in this process."""
        return cls(partial(look_up_here, indexes, n_rows), n_rows)

    def search(
        self,
        queries: Float32[np.ndarray, "n_query dim"],
        k: int,
        *,
        together: bool = False,
        allowed: Bool[np.ndarray, " n_rows"] | None = None,
    ) -> Hits:
        """The same as ``VectorIndex.search``, over the rows of all indexes.

        Each index is first searched for its share of ``k`` by its rows, and some more. If all of its rows are
        among the best overall, further ones may be too, so it is searched again for ``k``. Indexes without an
        allowed row are not searched.
        """
        places = [slice(start, end) for start, end in pairwise(self._bounds)]
        own_allowed = [None if allowed is None else allowed[place] for place in places]
        n_rows = [
            place.stop - place.start if own is None else int(np.count_nonzero(own))
            for place, own in zip(places, own_allowed, strict=True)
        ]
        most = [min(k, n) for n in n_rows]
        ks = [min(at_most, _share(k, n, sum(n_rows))) for at_most, n in zip(most, n_rows, strict=True)]
        n_lists = 1 if together else len(queries)
        found = self._hits(
            [Lookup(number, queries, own, together, own_allowed[number]) for number, own in enumerate(ks)]
        )
        best = _merged(found, n_lists, k)
        # Equal scores count too: among them, the first rows are the best.
        short = {
            number: np.flatnonzero(own.scores[:, -1] >= best.scores[:, -1])
            for number, own in enumerate(found)
            if own.rows.shape[1] < most[number]
        }
        short = {number: which for number, which in short.items() if len(which)}
        if not short:
            return best
        wider = self._hits(
            [
                Lookup(
                    number,
                    queries if together else queries[which],
                    most[number],
                    together,
                    own_allowed[number],
                )
                for number, which in short.items()
            ]
        )
        for (number, which), hits in zip(short.items(), wider, strict=True):
            found[number] = _replaced(found[number], which, hits)
        return _merged(found, n_lists, k)

    def _hits(self, lookups: Sequence[Lookup]) -> list[Hits]:
        """Return the hits of each look-up, with rows numbered over all indexes."""
        nonempty = [each for each in lookups if each.k and len(each.queries)]
        found = iter(self._look_up(nonempty) if nonempty else ())
        return [
            self._among_all(next(found), each.number)
            if each.k and len(each.queries)
            else _no_hits(1 if each.together else len(each.queries), each.k)
            for each in lookups
        ]

    def _among_all(self, hits: Hits, number: int) -> Hits:
        return Hits(np.where(hits.rows >= 0, hits.rows + self._bounds[number], -1), hits.scores)


def _replaced(hits: Hits, which: Int64[np.ndarray, " n"], wider: Hits) -> Hits:
    """Return ``hits`` with those of the queries ``which`` replaced by the longer lists of ``wider``."""
    replaced = _no_hits(len(hits.rows), wider.rows.shape[1])
    n = hits.rows.shape[1]
    replaced.rows[:, :n], replaced.scores[:, :n] = hits.rows, hits.scores
    replaced.rows[which], replaced.scores[which] = wider.rows, wider.scores
    return replaced


def _no_hits(n_query: int, k: int) -> Hits:
    rows = np.full((n_query, k), -1, dtype=np.int64)
    return Hits(rows, np.full((n_query, k), -np.inf, dtype=np.float32))


def _share(k: int, n_own: int, n_all: int) -> int:
    """Return how many rows one index is searched for at first, for the best ``k`` of all rows."""
    return math.ceil(_MORE_THAN_SHARE * k * n_own / max(n_all, 1)) + _SPARE_HITS


def _merged(found: Sequence[Hits], n_query: int, k: int) -> Hits:
    """Return the best ``k`` of several lists for each query, equal scores in row order."""
    none = _no_hits(n_query, k)
    rows = np.concatenate([*(hits.rows for hits in found), none.rows], axis=1)
    scores = np.concatenate([*(hits.scores for hits in found), none.scores], axis=1)
    best = np.lexsort((rows, -scores))[:, :k]
    return Hits(np.take_along_axis(rows, best, axis=1), np.take_along_axis(scores, best, axis=1))


def choose_backend(n_rows: int) -> str:
    """Return the backend that ``auto`` stands for with ``n_rows`` sentence vectors."""
    return "exact" if n_rows <= MAX_EXACT_ROWS else "ivfpq"


def serving_backend(backend: str, shape: tuple[int, int], device: str) -> str:
    """Return ``backend``, or ``flat`` for many rows if FAISS reaches a GPU with enough free memory.

    There, comparing every row is exact and faster than any index on a CPU. The stored file suits both.
    """
    if backend in _GPU_BACKENDS or shape[0] <= MAX_EXACT_ROWS or checked_device(device) == "cpu":
        return backend
    # Resolved by name, like the backends: FAISS is only loaded for large collections that may use a GPU.
    n_bytes = pkgutil.resolve_name(_FLAT_BYTES)(*shape)
    return backend if pkgutil.resolve_name(_GPU_WITH_ROOM)(device, n_bytes) is None else "flat"


def check_backend(backend: str, device: str) -> None:
    """Raise now what building would raise at its end: UnknownNameError, MissingPackageError, InputError."""
    checked_device(device)
    if backend != "auto":
        resolve(BACKENDS, backend, "index backend")
    if backend in _GPU_BACKENDS:
        pkgutil.resolve_name(_CHECK_GPU)(device)


def build_index(
    rows: np.ndarray, backend: str, *, device: str = "auto", on_rows: OnRows = ignore_progress
) -> VectorIndex:
    """Index ``rows``, float16 or float32 of shape (n_rows, dim); they must outlive the index unchanged.

    ``backend`` is "auto" or a name in ``BACKENDS``. ``device`` is "auto", "cpu", "cuda" or "cuda:N": it holds
    ``flat``, or trains the lists of ``ivfpq`` and ``ivfsq``. ``on_rows`` gets, from time to time, the number
    of rows in the index.

    Raises:
        UnknownNameError: if there is no such backend.
        InputError: if there are no rows, or the requested GPU does not exist.
        DeviceFullError: if the requested GPU has not enough free memory.
    """
    name = choose_backend(len(rows)) if backend == "auto" else backend
    index: VectorIndex = resolve(BACKENDS, name, "index backend").build(rows, device=device, on_rows=on_rows)
    return index


def load_index(
    path: Path, rows: np.ndarray, *, backend: str, device: str = "auto", effort: float = 1.0
) -> VectorIndex:
    """Open the index that ``save`` wrote to ``path``, over the same ``rows``.

    ``effort`` multiplies the usual search effort of an approximate index.

    Compare the file's checksum first: FAISS itself detects few damaged bytes.

    Raises:
        UnknownNameError: if there is no such backend.
        SnapshotCorruptError: if the file is not an index of this backend over rows of this shape.
        DeviceFullError: if the requested GPU has not enough free memory.
    """
    name = serving_backend(backend, (len(rows), rows.shape[1]), device)
    if name != backend:
        try:
            # Only on a GPU: on a CPU, the stored index is far faster than comparing every row.
            return _loaded(name, path, rows, device="cuda" if device == "auto" else device, effort=effort)
        except DeviceFullError:
            log.warning("index_stays_as_stored", backend=backend, device=device)
    return _loaded(backend, path, rows, device=device, effort=effort)


def _loaded(name: str, path: Path, rows: np.ndarray, *, device: str, effort: float) -> VectorIndex:
    found = resolve(BACKENDS, name, "index backend")
    index: VectorIndex = found.load(path, rows, device=device, effort=effort)
    return index
