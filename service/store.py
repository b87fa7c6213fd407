"""A database store that is opened on first use."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from indexer.catalog.database import sqlite_file
from indexer.catalog.store import Store
from service.context import locked

_Opened = TypeVar("_Opened", bound=Store)


class LazyStore(Generic[_Opened]):
    """A store that ``open_at`` opens once at ``place``, a path or a URL; threads may share it.

    If another SQLite file has replaced the open one, that file is opened instead.
    """

    def __init__(self, place: str | Path, open_at: Callable[[str | Path], _Opened]) -> None:
        self._place = place
        self._open_at = open_at
        self._opened: _Opened | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file
        self._opening = Lock()

    @property
    def is_there(self) -> bool:
        """Whether there is anything to open: a SQLite file may be missing, as when it is lost."""
        return self._opened is not None or not isinstance(self._place, Path) or self._place.exists()

    def get(self) -> _Opened:
        """Return the store, opened if it is not. Raises StorageError."""
        with locked(self._opening):
            if self._opened is not None and self._is_replaced():
                self._opened.close()
                self._opened = None
            if self._opened is None:
                self._opened = self._open_at(self._place)
                self._file = self._file_there()
            return self._opened

    def _is_replaced(self) -> bool:
        there = self._file_there()
        return there is not None and there != self._file

    def _file_there(self) -> tuple[int, int] | None:
        """Return device and inode of the file; ``None`` if there is none, or for a database server."""
        file = sqlite_file(self._place)
        try:
            found = None if file is None else file.stat()
        except OSError:  # the file may come back
            return None
        return None if found is None else (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Close all connections; later use opens new ones."""
        if self._opened is not None:
            self._opened.close()
