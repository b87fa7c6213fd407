"""The generations of unfinished batches, which are kept however much is published meanwhile."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from indexer.files.data_folder import DataFolder, numbered
from indexer.files.durable import storage_errors


class GenerationLeases:
    """Generations of a data folder that are not cleared away as long as this process leases them.

    They are also kept for seven days after it ended: files in the folder name them, if it can be written to.
    A generation that is already gone is ignored. Raises StorageError if the folder cannot be read.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._needed = DataFolder(data).needed
        self._leases: dict[str, int] = {}

    def keep(self, generation: str) -> None:
        """Keep one more generation."""
        if generation not in self._leases:
            lease = DataFolder(self._data).lease(generation)
            if lease is not None:
                self._leases[generation] = lease
        if generation in self._leases:
            with suppress(OSError):
                self._needed.mkdir(exist_ok=True)
                (self._needed / generation).touch()

    def keep_only(self, generations: Collection[str]) -> None:
        """Keep these generations; release all others, including those that other processes keep."""
        for generation in generations:
            self.keep(generation)
        for generation in self._leases.keys() - set(generations):
            os.close(self._leases.pop(generation))
        with storage_errors(self._needed):
            named = {*numbered(self._needed)}
        for generation in named - set(generations):
            with suppress(OSError):
                (self._needed / generation).unlink()

    def release(self) -> None:
        """Release all generations as this process ends; unfinished batches still need them."""
        while self._leases:
            os.close(self._leases.popitem()[1])
