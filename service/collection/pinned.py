"""The engines of the generations that batches were started on."""

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Final

from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from models.errors import SnapshotMissingError, StorageError
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.settings import Settings

# Batches take turns, and so do their generations; opening one of a million papers takes seconds.
MAX_OPEN: Final = 3


class PinnedEngines:
    """Engines by generation: the one ``served``, or one opened from the data folder.

    The MAX_OPEN used last stay until ``release``, whatever is published meanwhile. Threads may share it.
    """

    def __init__(self, settings: Settings, served: Callable[[], SearchEngine | None]) -> None:
        self._settings = settings
        self._served = served
        self._engines = lru_cache(MAX_OPEN)(self._found)
        self._last: SearchEngine | None = None
        self._lock = Lock()

    def engine_for(self, generation: str) -> SearchEngine:
        """Return the engine over a generation.

        Raises SnapshotMissingError if it was removed, SnapshotCorruptError; StorageError if its files cannot
        be read, or if the folder lags behind or is not there.
        """
        with self._lock:
            self._last = self._engines(generation)
            return self._last

    def release(self) -> None:
        """Release all engines."""
        with self._lock:
            self._engines.cache_clear()
            self._last = None

    def _found(self, generation: str) -> SearchEngine:
        served = self._served()
        if served is not None and served.snapshot.generation == generation:
            return served
        with storage_errors(self._settings.data):
            known = DataFolder(self._settings.data).generations()
        if generation not in known:
            if any(int(each) > int(generation) for each in known):
                raise SnapshotMissingError(f"Generation {generation} was removed.")
            raise StorageError(
                f"{self._settings.data} has neither generation {generation} nor a newer one; check that the "
                "folder is mounted, and is that of the service."
            )
        return open_engine(self._settings, generation=generation, beside=served or self._last)
