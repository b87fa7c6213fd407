"""A shard: some segments of each generation, searched in its process; a Ray actor, or a plain object."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from indexer.index.vector_index import VectorIndex
from indexer.snapshot.opening import open_segments
from indexer.snapshot.segment import Segment
from indexer.spare_cores import on_spare_cores
from models.errors import SnapshotMissingError
from models.types import Hits
from service.cache.digests import generation_digest
from service.context import Deadline, check_deadline, with_deadline


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation by name and digest of its content (hex), as names repeat if a folder is filled again."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class ShardLookup:
    """A look-up in a segment, by name: the ``k`` rows nearest to each of ``queries``, or to all ``together``.

    Rows are compared by what sentences are about or, ``by_function``, by what they do. ``allowed`` are flags
    of the rows, eight to a byte; ``None`` allows all.
    """

    segment: str
    by_function: bool
    queries: Float32[np.ndarray, "n_query dim"]
    k: int
    together: bool
    allowed: UInt8[np.ndarray, " n_bytes"] | None


class Shard:
    """Segments opened from the data folder, which must be there under the same path, and their search.

    Several threads may search at once, and generations may be opened meanwhile.
    """

    def __init__(self, data: Path, *, device: str) -> None:
        self._data = data
        self._device = device
        self._opened: dict[Generation, dict[str, Segment]] = {}
        self._opening = Lock()

    def open(self, generation: Generation, names: Sequence[str]) -> None:
        """Open the segments with these ``names``, ready to be searched, next to those that are open already.

        Segments that other generations have open are shared. Raises SnapshotCorruptError,
        SnapshotMissingError.
        """
        with self._opening:
            there = self._opened.get(generation)
            if there is None or not there.keys() >= set(names):
                names = list({*(there or ()), *names})
                known = {name: each for held in self._opened.values() for name, each in held.items()}
                manifest, segments = open_segments(
                    self._data, generation.name, names, device=self._device, known=known
                )
                if generation_digest(manifest).hex() != generation.digest:
                    raise SnapshotMissingError(
                        f"Generation {generation.name} on the shard's disk differs from that of the "
                        "service; mount the same data folder on both."
                    )
                for segment in segments.values():
                    _ = segment.index  # loaded now, not by the first query
                    if segment.has_functions:
                        _ = segment.function_index
                self._opened[generation] = segments

    def close(self, generation: Generation) -> None:
        """Close a generation."""
        with self._opening:
            self._opened.pop(generation, None)

    def machine(self) -> str:
        """Return the id of the machine that the shard is on, as a Ray actor."""
        node: str = import_module("ray").get_runtime_context().get_node_id()
        return node

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    def opened(self) -> dict[Generation, frozenset[str]]:
        """Return the names of the segments that can be searched, by generation."""
        return {generation: frozenset(segments) for generation, segments in self._opened.copy().items()}

    def search(
        self, generation: Generation, lookups: Sequence[ShardLookup], left_s: float | None = None
    ) -> list[Hits]:
        """Return the hits of each look-up, in order; raises SnapshotMissingError if it is not open.

        Raises DeadlineError after ``left_s`` seconds, the time that the request has left.
        """
        segments = self._segments(generation)
        tasks = [partial(_hits, segments[each.segment], each) for each in lookups]
        if left_s is None:
            return on_spare_cores(tasks)
        return with_deadline(left_s, partial(on_spare_cores, tasks))

    def rows(
        self,
        generation: Generation,
        wanted: Sequence[tuple[str, Int64[np.ndarray, "..."]]],
        left_s: float | None = None,
    ) -> list[np.ndarray]:
        """Return stored rows of segments, by their numbers, of shape (n, dim).

        Raises SnapshotMissingError; DeadlineError if no time is left.
        """
        segments = self._segments(generation)
        if left_s is not None:
            Deadline(left_s).check()
        return [segments[name].vectors.rows[numbers] for name, numbers in wanted]

    def _segments(self, generation: Generation) -> dict[str, Segment]:
        segments = self._opened.get(generation)
        if segments is None:
            raise SnapshotMissingError(f"Generation {generation.name} is not open on this shard.")
        return segments


def _hits(segment: Segment, lookup: ShardLookup) -> Hits:
    check_deadline()
    index: VectorIndex = segment.function_index if lookup.by_function else segment.index
    allowed = None
    if lookup.allowed is not None:
        allowed = np.unpackbits(lookup.allowed, count=segment.entry.n_rows).astype(bool)
    return index.search(lookup.queries, lookup.k, together=lookup.together, allowed=allowed)
