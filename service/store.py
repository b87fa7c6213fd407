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
    """What ``open_at`` opens at ``place``, a path or a URL, once; threads may share it.

    Where another file of SQLite has taken the place of the one that is open, that is opened instead.
    """

    def __init__(self, place: str | Path, open_at: Callable[[str | Path], _Opened]) -> None:
        self._place = place
        self._open_at = open_at
        self._opened: _Opened | None = None
        self._file: tuple[int, int] | None = None  # which one is open
        self._opening = Lock()

    @property
    def is_there(self) -> bool:
        """Whether there is anything to open: no file of SQLite is, before somebody has stored something."""
        return self._opened is not None or not isinstance(self._place, Path) or self._place.exists()

    def get(self) -> _Opened:
        """The store; made where there is none. Raises StorageError."""
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
        """The device and number of the file; ``None`` where there is none, or a server."""
        file = sqlite_file(self._place)
        try:
            found = None if file is None else file.stat()
        except OSError:  # it may come back
            return None
        return None if found is None else (found.st_dev, found.st_ino)

    def close(self) -> None:
        """Closes every connection; using it again opens new ones."""
        if self._opened is not None:
            self._opened.close()
