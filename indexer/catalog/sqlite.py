"""How SQLite is opened: in write-ahead mode, synchronised at every commit, or read without locks."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from indexer.files.file_system import is_mounted_read_only, is_read_only
from models.errors import StorageError
from models.interruption import is_interrupted

_LOOK_S: Final = 0.01


def is_frozen(file: Path) -> bool:
    """Whether a file of SQLite is read without locks: nothing can be written beside it, and nobody shares it.

    A process that has it open keeps an index of its log in memory that others map too, also to read alone.
    """
    shared = file.with_name(file.name + "-shm")
    return is_mounted_read_only(file) or (is_read_only(file) and not shared.exists())


def sqlite_connection(file: Path, **options: Any) -> Any:
    """An ``sqlite3.Connection`` to a file; without locks where this process may not write it.

    Raises sqlite3.Error; StorageError where others write to such a file from elsewhere.
    """
    if not is_frozen(file):
        return sqlite3.connect(file, **options)
    log = file.with_name(file.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(
            f"catalog {file}: this process may only read it, and another process has written to it; stop "
            "that process, or keep the catalog in PostgreSQL (AKIN_CATALOG_URL, --catalog)"
        )
    return sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True, **options)


def configure(engine: Engine, frozen: Path | None, busy_timeout_s: float) -> None:
    """Have ``engine`` open its file so; ``frozen`` is the file where it is read without locks."""
    if frozen is not None:

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: object, _entry: object, _args: object, options: dict[str, Any]) -> Any:
            return sqlite_connection(frozen, **options)

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: sqlite3.Connection, _entry: object) -> None:
        cursor = connection.cursor()
        if frozen is None:
            once_free(cursor.execute, "PRAGMA journal_mode = WAL", busy_timeout_s)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The driver alone would begin only before some statements. A transaction that starts as a reader
        # cannot wait for a writer later, so those that write say so at once.
        if connection.get_execution_options().get("writes"):
            once_free(connection.exec_driver_sql, "BEGIN IMMEDIATE", busy_timeout_s)
        else:
            connection.exec_driver_sql("BEGIN")


def once_free(execute: Callable[[str], object], statement: str, busy_timeout_s: float) -> None:
    """Executes a statement of SQLite as soon as no other process holds the file.

    SQLite itself would wait on where nobody wants it any more, and for some statements not at all.
    """
    execute("PRAGMA busy_timeout = 0")
    deadline = time.monotonic() + busy_timeout_s
    try:
        while not _executed(execute, statement, last=time.monotonic() > deadline or is_interrupted()):
            time.sleep(_LOOK_S)
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
