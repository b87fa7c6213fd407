"""The generations that unfinished batches are answered from: kept, however much is published meanwhile."""

import os
from collections.abc import Collection
from pathlib import Path

from indexer.snapshot.opening import lease_generation


class KeptGenerations:
    """Generations of a data folder that are not cleared away as long as this process keeps them.

    One that is gone already is none of them. Raises StorageError where the folder cannot be read.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._leases: dict[str, int] = {}

    def keep(self, generation: str) -> None:
        """This one too."""
        if generation not in self._leases:
            lease = lease_generation(self._data, generation)
            if lease is not None:
                self._leases[generation] = lease

    def keep_only(self, generations: Collection[str]) -> None:
        """These, and none of those before that are not among them."""
        for generation in generations:
            self.keep(generation)
        for generation in self._leases.keys() - set(generations):
            os.close(self._leases.pop(generation))
