"""The engines of the generations that batches were started on."""

from collections.abc import Callable
from threading import Lock
from typing import Final

from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from models.errors import SnapshotMissingError
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.settings import Settings

# Engines of batches that are open at once; unfinished batches of more generations take turns more slowly.
_MAX_OPEN: Final = 2


class PinnedEngines:
    """Engines by generation: one of the two used last, the one ``served``, or one opened from the folder.

    Those used last stay until ``release_last``, whatever is published meanwhile. Threads may share it.
    """

    def __init__(self, settings: Settings, served: Callable[[], SearchEngine | None]) -> None:
        self._settings = settings
        self._served = served
        self._last: list[SearchEngine] = []  # the one used last first
        self._lock = Lock()

    def engine_for(self, generation: str) -> SearchEngine:
        """Return the engine over a generation.

        Raises SnapshotMissingError, SnapshotCorruptError; StorageError if its files cannot be read.
        """
        with self._lock:
            served = self._served()
            there = [engine for engine in (*self._last, served) if engine is not None]
            found = next((each for each in there if each.snapshot.generation == generation), None)
            if found is None:
                with storage_errors(self._settings.data):
                    known = DataFolder(self._settings.data).generations()
                if generation not in known:
                    raise SnapshotMissingError(f"Generation {generation} was removed.")
                beside = served or next(iter(there), None)  # they share segments and models
                found = open_engine(self._settings, generation=generation, beside=beside)
            self._last = [found, *(each for each in self._last if each is not found)][:_MAX_OPEN]
            return found

    def release_last(self) -> None:
        """Release the engines used last."""
        with self._lock:
            self._last = []
