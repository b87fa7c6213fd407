"""A snapshot whose indexes and vectors are on the machines of a cluster; everything else is local."""

import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from indexer.index.vector_index import JoinedIndex, Lookup
from indexer.snapshot.snapshot import Snapshot, StoredRows
from models.errors import ShardAwayError
from models.types import Hits
from service.cluster.shard import Generation, ShardLookup
from service.cluster.shards import Shards
from service.settings import Settings


def on_cluster(snapshot: Snapshot, settings: Settings) -> Snapshot:
    """Return a snapshot held by the shards that ``settings`` define, or ``snapshot`` without a cluster.

    Raises MissingPackageError, InputError, ShardAwayError.
    """
    if not settings.ray:
        return snapshot
    shards = _shards(settings.ray, settings.data, settings.shards, settings.replicas, settings.device)
    return ShardedSnapshot(snapshot, shards)


@cache
def _shards(address: str, data: Path, n_shards: int, n_replicas: int, device: str) -> Shards:
    """Return the shards of this process, which hold every generation that it opens."""
    return Shards(address, data, n_shards=n_shards, n_replicas=n_replicas, device=device)


@dataclass(frozen=True, slots=True)
class _ShardedGeneration:
    """A generation as shards hold it: by number, the name of each segment and the shard that has it.

    It has no reference to the snapshot, which is released as soon as nobody uses it.
    """

    shards: Shards
    generation: Generation
    names: Sequence[str]
    shard_by_segment: Sequence[int]

    def look_up(self, lookups: Sequence[Lookup], *, by_function: bool) -> list[Hits]:
        """Return the hits of each look-up; every shard is called once, for all of its segments."""
        arguments = []
        for each in lookups:
            allowed = None if each.allowed is None else np.packbits(each.allowed)
            name = self.names[each.number]
            arguments.append(ShardLookup(name, by_function, each.queries, each.k, each.together, allowed))
        return self._call("search", [each.number for each in lookups], arguments)

    def rows(self, wanted: Sequence[tuple[int, Int64[np.ndarray, "..."]]]) -> list[np.ndarray]:
        """Return stored rows of segments, by their numbers."""
        numbers = [number for number, _ in wanted]
        return self._call("rows", numbers, [(self.names[number], rows) for number, rows in wanted])

    def _call(self, method: str, numbers: Sequence[int], arguments: Sequence[object]) -> list[Any]:
        """Return the answers to calls for segments, in order."""
        by_home: dict[int, list[object]] = defaultdict(list)
        for number, each in zip(numbers, arguments, strict=True):
            by_home[self.shard_by_segment[number]].append(each)
        answers = self.shards.call(method, self.generation, by_home)
        found = {home: iter(own) for home, own in answers.items()}
        return [next(found[self.shard_by_segment[number]]) for number in numbers]


class ShardedSnapshot(Snapshot):
    """The same generation as ``whole``, with the same answers; each segment is searched by its shard.

    Papers, words, and everything else that an answer reads come from the files, which this process maps.
    """

    def __init__(self, whole: Snapshot, shards: Shards) -> None:
        super().__init__(whole.manifest, whole.segments, whole.deleted)
        self._whole = whole  # keeps the generation from being cleared away
        self.shards = shards
        generation = shards.serve(whole.manifest)
        weakref.finalize(self, shards.drop, generation)
        names = [entry.name for entry in whole.manifest.segments]
        shard_by_segment = shards.shard_by_segment(generation)
        self.held = _ShardedGeneration(shards, generation, names, [shard_by_segment[name] for name in names])

    @property
    def away(self) -> frozenset[int]:
        """The numbers of the segments that cannot be searched now."""
        away = self.shards.away(self.held.generation)
        return frozenset(number for number, home in enumerate(self.held.shard_by_segment) if home in away)

    @cached_property
    def index(self) -> JoinedIndex:
        """The index, as of any snapshot; a search on a shard that is away raises ShardAwayError."""
        return JoinedIndex(partial(self.held.look_up, by_function=False), self._n_rows_of_each)

    @cached_property
    def function_index(self) -> JoinedIndex:
        """The same as ``index``, but over what the sentences do; raises MissingVectorsError."""
        for segment in self.segments:
            _ = segment.function_vectors
        return JoinedIndex(partial(self.held.look_up, by_function=True), self._n_rows_of_each)

    def stored(self, rows: Int64[np.ndarray, " n"]) -> list[StoredRows]:
        """Return rows as any snapshot does; they are read from the files if a shard is away."""
        own = list(self._rows_by_segment(rows))
        try:
            found = self.held.rows([(number, numbers) for number, _, numbers in own])
        except ShardAwayError:
            return super().stored(rows)
        return [(each, places, np.arange(len(each))) for (_, places, _), each in zip(own, found, strict=True)]
