"""Placement: the shard of each segment of a generation, and whether the shards have opened it."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from indexer.snapshot.manifest import Manifest
from models.errors import AkinError, DeadlineError, ShardAwayError
from service.context import check_deadline

# Between two checks of the deadline of a waiting caller.
_POLL_S = 0.1
_TOO_SLOW = "The shards take too long to open; try again in a moment."


@dataclass(slots=True)
class Placement:
    """The shard of each segment of a generation, by the segment's name; ``n_users`` snapshots use it.

    ``opening`` is done once the shards have opened the generation, or holds the error if they could not.
    """

    shard_by_segment: Mapping[str, int]
    n_users: int = 1
    opening: Future[None] = field(default_factory=Future)

    def names(self, shard: int) -> list[str]:
        """Return the names of the segments of one shard."""
        return [name for name, home in self.shard_by_segment.items() if home == shard]

    def end_opening(self, error: BaseException | None = None) -> None:
        """End the wait of others: the generation is open, or could not be opened because of ``error``."""
        if error is None:
            self.opening.set_result(None)
        else:
            failure = error if isinstance(error, AkinError) else ShardAwayError("The shards were not opened.")
            # Those who wait may have more time than the request that had it opened.
            is_late = isinstance(failure, DeadlineError)
            self.opening.set_exception(ShardAwayError(_TOO_SLOW) if is_late else failure)

    def expect_opened(self, *, timeout_s: float) -> None:
        """Wait until another thread has had the generation opened.

        Raises what the opening raised, DeadlineError, ShardAwayError after ``timeout_s``.
        """
        until = time.monotonic() + timeout_s
        while not wait([self.opening], timeout=_POLL_S).done:
            check_deadline()
            if time.monotonic() > until:
                raise ShardAwayError(_TOO_SLOW)
        self.opening.result()


def assign_shards(manifest: Manifest, known: Iterable[Mapping[str, int]], *, n_shards: int) -> dict[str, int]:
    """Return a shard for each segment: the one in ``known``, or else the one with the fewest rows."""
    before = {name: home for shard_by_segment in known for name, home in shard_by_segment.items()}
    shard_by_segment = {each.name: before[each.name] for each in manifest.segments if each.name in before}
    n_rows = [0] * n_shards
    for entry in manifest.segments:
        if entry.name in shard_by_segment:
            n_rows[shard_by_segment[entry.name]] += entry.n_rows
    for entry in sorted(manifest.segments, key=lambda each: -each.n_rows):
        if entry.name not in shard_by_segment:
            shard_by_segment[entry.name] = min(range(n_shards), key=n_rows.__getitem__)
            n_rows[shard_by_segment[entry.name]] += entry.n_rows
    return shard_by_segment
