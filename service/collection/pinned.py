"""The engines of the generations that batches were started on."""

from collections.abc import Callable
from threading import Lock

from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from models.errors import SnapshotMissingError
from service.collection.generations import open_engine
from service.search.engine import SearchEngine
from service.settings import Settings


class PinnedEngines:
    """Engines by generation: the one used last, the one ``served``, or one opened from the data folder.

    The one used last stays until ``release_last``, whatever is published meanwhile. Threads may share it.
    """

    def __init__(self, settings: Settings, served: Callable[[], SearchEngine | None]) -> None:
        self._settings = settings
        self._served = served
        self._last: SearchEngine | None = None
        self._lock = Lock()

    def engine_for(self, generation: str) -> SearchEngine:
        """Return the engine over a generation.

        Raises SnapshotMissingError, SnapshotCorruptError; StorageError if its files cannot be read.
        """
        with self._lock:
            served = self._served()
            for engine in (self._last, served):
                if engine is not None and engine.snapshot.generation == generation:
                    self._last = engine
                    return engine
            with storage_errors(self._settings.data):
                known = DataFolder(self._settings.data).generations()
            if generation not in known:
                raise SnapshotMissingError(f"Generation {generation} was removed.")
            self._last = open_engine(self._settings, generation=generation, beside=served)
            return self._last

    def release_last(self) -> None:
        """Release the engine used last."""
        with self._lock:
            self._last = None
