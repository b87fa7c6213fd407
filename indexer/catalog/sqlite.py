"""Functions that open SQLite files: in write-ahead mode, synchronised at every commit, or without locks."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from indexer.files.file_system import is_mounted_read_only, is_read_only
from models.errors import StorageError
from models.interruption import is_interrupted

_POLL_S: Final = 0.01


def is_frozen(file: Path) -> bool:
    """Return whether a SQLite file must be read without locks: it is not writable, and nobody has it open.

    A process that has the file open maps an index of its log (``-shm``), which readers need to share. On a
    read-only file system this is not checked.
    """
    file = file.resolve()  # SQLite keeps them beside the file itself, not beside a link to it
    shared = file.with_name(file.name + "-shm")
    return is_mounted_read_only(file) or (is_read_only(file) and not shared.exists())


def sqlite_connection(file: Path, **options: Any) -> Any:
    """Return an ``sqlite3.Connection`` to a file, without locks if ``is_frozen``.

    Raises sqlite3.Error; StorageError if another process has written to such a file.
    """
    if not is_frozen(file):
        return sqlite3.connect(file, **options)
    file = file.resolve()
    log = file.with_name(file.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(
            f"catalog {file}: this process may only read it, and another process has written to it; stop "
            "that process, or keep the catalog in PostgreSQL (AKIN_CATALOG_URL, --catalog)"
        )
    return sqlite3.connect(f"{file.as_uri()}?immutable=1", uri=True, **options)


def configure(engine: Engine, frozen: Path | None, busy_timeout_s: float) -> None:
    """Set up how ``engine`` opens its file; ``frozen`` is that file if it is read without locks."""
    was_there = False

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _entry: object, arguments: Sequence[str], options: dict[str, Any]) -> Any:
        if frozen is not None:
            return sqlite_connection(frozen, **options)
        if was_there:  # a file that was moved away is not made again: it would have no papers
            return sqlite3.connect(f"{Path(arguments[0]).as_uri()}?mode=rw", uri=True, **options)
        return None  # as by default, which makes the file if it is missing

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: sqlite3.Connection, _entry: object) -> None:
        nonlocal was_there
        was_there = True
        cursor = connection.cursor()
        if frozen is None:
            execute_when_unlocked(cursor.execute, "PRAGMA journal_mode = WAL", busy_timeout_s)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The driver alone would begin only before some statements. A transaction that starts as a reader
        # cannot wait for a writer later, so writing transactions take the lock at the start.
        if connection.get_execution_options().get("writes"):
            execute_when_unlocked(connection.exec_driver_sql, "BEGIN IMMEDIATE", busy_timeout_s)
        else:
            connection.exec_driver_sql("BEGIN")


def execute_when_unlocked(execute: Callable[[str], object], statement: str, busy_timeout_s: float) -> None:
    """Execute a statement of SQLite as soon as no other process locks the file.

    SQLite itself would wait on after the request was interrupted, and for some statements not at all.
    Raises the last error if the file stays locked for ``busy_timeout_s``.
    """
    execute("PRAGMA busy_timeout = 0")
    deadline = time.monotonic() + busy_timeout_s
    try:
        while not _executed(execute, statement, last=time.monotonic() > deadline or is_interrupted()):
            time.sleep(_POLL_S)
    finally:
        execute(f"PRAGMA busy_timeout = {round(busy_timeout_s * 1000)}")


def _executed(execute: Callable[[str], object], statement: str, *, last: bool) -> bool:
    try:
        execute(statement)
    except (sqlite3.OperationalError, OperationalError) as error:
        code = getattr(getattr(error, "orig", error), "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if last or code & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True
