"""The generations of unfinished batches, which are kept however much is published meanwhile."""

import os
from collections.abc import Collection
from pathlib import Path

from indexer.snapshot.opening import lease_generation


class GenerationLeases:
    """Generations of a data folder that are not cleared away as long as this process leases them.

    A generation that is already gone is ignored. Raises StorageError if the folder cannot be read.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._leases: dict[str, int] = {}

    def keep(self, generation: str) -> None:
        """Keep one more generation."""
        if generation not in self._leases:
            lease = lease_generation(self._data, generation)
            if lease is not None:
                self._leases[generation] = lease

    def keep_only(self, generations: Collection[str]) -> None:
        """Keep these generations, and release all others."""
        for generation in generations:
            self.keep(generation)
        for generation in self._leases.keys() - set(generations):
            os.close(self._leases.pop(generation))
