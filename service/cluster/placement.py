"""Which shard has each segment of a generation, and whether the shards have opened it."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from indexer.snapshot.manifest import Manifest
from models.errors import AkinError, ShardAwayError
from service.context import check_deadline

# Between two looks at the deadline of whoever waits.
_LOOK_S = 0.1


@dataclass(slots=True)
class Placement:
    """Which shard has each segment of a generation, by name; ``n_users`` snapshots need it.

    ``opening`` ends once the shards have opened it, or with why they could not.
    """

    homes: Mapping[str, int]
    n_users: int = 1
    opening: Future[None] = field(default_factory=Future)

    def names(self, shard: int) -> list[str]:
        """The segments of one shard."""
        return [name for name, home in self.homes.items() if home == shard]

    def end_opening(self, error: BaseException | None = None) -> None:
        """Tell those who wait that it is open, or why not."""
        if error is None:
            self.opening.set_result(None)
        else:
            told = error if isinstance(error, AkinError) else ShardAwayError("The shards were not opened.")
            self.opening.set_exception(told)

    def expect_opened(self, *, timeout_s: float) -> None:
        """Wait until another thread has had it opened.

        Raises what that raised, DeadlineError, ShardAwayError after ``timeout_s``.
        """
        until = time.monotonic() + timeout_s
        while not wait([self.opening], timeout=_LOOK_S).done:
            check_deadline()
            if time.monotonic() > until:
                raise ShardAwayError("The shards take too long to open; try again in a moment.")
        self.opening.result()


def homes_of(manifest: Manifest, known: Iterable[Mapping[str, int]], *, n_shards: int) -> dict[str, int]:
    """A shard for each segment: where it is by what is ``known``, or else that with the fewest rows."""
    before = {name: home for homes in known for name, home in homes.items()}
    homes = {each.name: before[each.name] for each in manifest.segments if each.name in before}
    n_rows = [0] * n_shards
    for entry in manifest.segments:
        if entry.name in homes:
            n_rows[homes[entry.name]] += entry.n_rows
    for entry in sorted(manifest.segments, key=lambda each: -each.n_rows):
        if entry.name not in homes:
            homes[entry.name] = min(range(n_shards), key=n_rows.__getitem__)
            n_rows[homes[entry.name]] += entry.n_rows
    return homes
