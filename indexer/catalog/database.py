"""The database under the catalog: SQLite or PostgreSQL, opened durably, one writer at a time."""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from indexer.catalog.sqlite import configure, execute_when_unlocked, is_frozen
from indexer.files.data_folder import DataFolder
from indexer.files.durable import storage_errors
from models.errors import InputError, StorageError
from models.extras import needed

BUSY_TIMEOUT_S: Final = 30  # how long a writer waits for another writer before it gives up

# Any constant will do, as long as every Akin that writes to the same PostgreSQL database uses it.
_WRITER_LOCK: Final = 0x616B696E  # "akin"

_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}

_EVERY_THREAD_ONE: Final = -1  # no limit: waiting for a connection would be one more wait to bound
_GROWING: Final[dict[str, Any]] = {"max_overflow": _EVERY_THREAD_ONE}
_POOLS: Final[dict[str, dict[str, Any]]] = {
    # The ping finds connections that a restart of the server has cut before they are used.
    "postgresql": {**_GROWING, "pool_pre_ping": True},
    # A file read without locks is opened again each time, or later changes to it would not show.
    "frozen": {"poolclass": NullPool},
}

_MEMORY_OF_READERS: Final = 32 * 1024  # bytes of the file -shm, without which SQLite cannot even read
_START_ANEW: Final = "use a backup, or index the corpus into a new folder with a new catalog"
_LET_IT_END: Final = "another process is still writing; wait for it to end, then try again"
# By the start of SQLite's error name or PostgreSQL's SQLSTATE; the first match is used.
_REMEDIES: Final = {
    "SQLITE_FULL": "free disk space and try again; nothing was written in part",
    "SQLITE_READONLY": "unless its file system is read-only, make the file and its folder writable",
    "SQLITE_PERM": "make the file and its folder writable for this user",
    "SQLITE_CANTOPEN": "name a file in a folder that exists and that this user may write to",
    "SQLITE_NOTADB": f"name the catalog's file; if this is it, {_START_ANEW}",
    "SQLITE_CORRUPT": _START_ANEW,
    "SQLITE_BUSY": _LET_IT_END,
    "SQLITE_IOERR": "check the disk and its mount, then try again",
    "EACCES": "let this user read the file; to change the collection, also write to the file and its folder",
    "25006": "connect to a server that accepts writes",
    "28": "check the user and password in the URL",
    "3D": "create the database that the URL names",
    "42501": "grant this user the right to create and write tables",
    "55P03": _LET_IT_END,
    "53": "free disk space, memory or connections on the server and try again",
}


def sqlite_file(url_or_path: str | Path) -> Path | None:
    """Return the file of a database, or ``None`` if it is in PostgreSQL; raises InputError for other URLs."""
    url = _url(url_or_path)
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def expect_existing(url_or_path: str | Path) -> None:
    """Raise StorageError if the database is a SQLite file that does not exist."""
    file = sqlite_file(url_or_path)
    if file is None:
        return
    with storage_errors(file):
        if file.is_file():
            return
    folder = DataFolder(file.parent)
    if file == folder.catalog and not folder.current.is_file():
        raise StorageError(
            f"{file.parent}: nothing is indexed here; name a folder that was indexed, or run "
            f"`akin index CORPUS --data {file.parent}` first"
        )
    raise StorageError(
        f"{file}: there is no catalog here; name that of the collection (--catalog, AKIN_CATALOG_URL); "
        f"if it is lost, {_START_ANEW}."
    )


class Database:
    """A pool of connections to one database.

    SQLite runs in write-ahead mode and synchronises at every commit, so that committed changes survive a
    power cut; readers never wait for the writer. A file on a read-only file system, or one that this process
    may not write and nobody has open, is read without locks, unless a writer's log lies next to it.

    Args:
        url_or_path: a path of a SQLite file, or a URL ``sqlite:///...`` or ``postgresql://...``.
        busy_timeout_s: how long a writer waits for another writer before it gives up, in seconds.

    Raises:
        InputError: the URL is malformed or of another kind of database.
        MissingPackageError: PostgreSQL without its driver.
    """

    def __init__(self, url_or_path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._busy_timeout_s = busy_timeout_s
        url, self._file = _url(url_or_path), sqlite_file(url_or_path)
        frozen = self._file if _is_frozen(self._file) else None
        pool = _POOLS.get("frozen" if frozen else url.get_backend_name(), _GROWING)
        if url.get_backend_name() == "postgresql":
            pool = {**pool, "connect_args": {"options": _postgres_options(url, busy_timeout_s)}}
        with needed("PostgreSQL", extra="postgres"):
            self.engine = create_engine(url, **pool)
        # Never the whole URL: it may hold a password.
        self.place = f"{url.database}" if url.host is None else f"{url.database} on {url.host}"
        self._n_closed = 0
        self._close_late_connections()
        if url.get_backend_name() == "sqlite":
            configure(self.engine, frozen, busy_timeout_s)
        else:
            _configure_postgres(self.engine)
        self._writer = self.engine.execution_options(writes=True)
        # By default each statement of a PostgreSQL transaction sees a new state; SQLite reads one state.
        self._reader = (
            self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            if url.get_backend_name() == "postgresql"
            else self.engine
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads a single state of the database.

        Raises:
            StorageError: the database cannot be reached, read or written; the message carries the remedy.
        """
        with self._translated(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that keeps all of its changes or none; other writers wait until it has ended.

        Raises:
            StorageError: as ``reading``.
        """
        with self._translated(), self._writer.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_WRITER_LOCK)))
            yield connection

    def clear_freed_pages(self) -> None:
        """Rewrite the SQLite file, so that no deleted data is left in the file or in its log.

        That takes as much free disk space as the file. PostgreSQL vacuums by itself: nothing is done.

        Raises:
            StorageError: as ``reading``; also if another process is still reading the log.
        """
        if self.engine.dialect.name != "sqlite":
            return
        with self._translated():
            pooled = self.engine.raw_connection()
        try:
            execute = cast(sqlite3.Connection, pooled.driver_connection).execute
            execute_when_unlocked(execute, "VACUUM", self._busy_timeout_s)
            is_busy, *_ = execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise StorageError(
                f"catalog {self.place}: {error}; deleted text is still in free pages of the file: make room "
                "on the disk for a second copy, then run the same command again"
            ) from error
        finally:
            pooled.close()
        if is_busy:
            raise StorageError(
                f"catalog {self.place}: another process is reading it, so its log still contains deleted "
                "text; run the same command again"
            )

    def close(self) -> None:
        """Close every connection, those in use as soon as they are released; later use opens new ones."""
        # Counted twice: a connection opened during ``dispose`` may belong to the abandoned pool, and must be
        # closed like the earlier ones.
        self._n_closed += 1
        self.engine.dispose()
        self._n_closed += 1

    def _close_late_connections(self) -> None:
        """Close connections that return after ``close``: an abandoned pool would keep them open for ever."""

        @event.listens_for(self.engine, "do_connect")
        def note(_dialect: object, entry: ConnectionPoolEntry, _args: object, _options: object) -> None:
            entry.info["n_closed"] = self._n_closed

        @event.listens_for(self.engine, "checkin")
        def close_late(_connection: object, entry: ConnectionPoolEntry) -> None:
            if entry.info["n_closed"] != self._n_closed:
                entry.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StorageError(f"catalog {self.place}: {error.orig}; {_remedy(error, self._file)}") from error


def _url(url_or_path: str | Path) -> URL:
    if isinstance(url_or_path, Path) or "://" not in url_or_path:
        return URL.create("sqlite+pysqlite", database=str(url_or_path))
    kind = url_or_path.partition("://")[0]
    if not kind.startswith("sqlite") and _may_split_password(url_or_path):
        raise InputError(
            f"the catalog's URL (of kind {kind!r}) cannot be used: expected no @ except before the host; "
            "write @, / and ? of the user, password and parameters as %40, %2F and %3F"
        )
    try:
        url = make_url(url_or_path)
        return url.set(drivername=_DRIVERS[url.drivername])
    except (ArgumentError, KeyError, ValueError) as error:
        raise InputError(
            f"the catalog's URL (of kind {kind!r}) cannot be used: expected a file path, "
            "sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME"
        ) from error


def _may_split_password(url: str) -> bool:
    """Return whether an @ may be part of the password: what follows it would be shown as the host."""
    before, _, after = url.partition("@")
    return "@" in after or (after != "" and "password=" in before.partition("?")[2])


def _postgres_options(url: URL, busy_timeout_s: float) -> str:
    """Return the URL's options, which ``connect_args`` would replace, with the settings of a writer added.

    A writer waits for at most ``busy_timeout_s``, and then sees what was committed meanwhile.
    """
    lock_timeout = max(1, round(busy_timeout_s * 1000))  # ms; 0 would mean for ever
    own = rf"-c lock_timeout={lock_timeout} -c default_transaction_isolation=read\ committed"
    return " ".join([*url.normalized_query.get("options", ()), own])


def _configure_postgres(engine: Engine) -> None:
    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _entry: object, arguments: Sequence[str], options: dict[str, Any]) -> Any:
        from indexer.catalog import postgres  # noqa: PLC0415 - its driver is optional

        return postgres.connect(*arguments, **options)

    @event.listens_for(engine, "handle_error")
    def close_cursor(context: ExceptionContext) -> None:
        # SQLAlchemy leaves the cursor of a broken connection open.
        cursor = getattr(context.execution_context, "cursor", None)
        if context.is_disconnect and cursor is not None:
            cursor.close()


def _is_frozen(file: Path | None) -> bool:
    if file is None:
        return False
    with storage_errors(file):
        return is_frozen(file)


def _remedy(error: DBAPIError, file: Path | None) -> str:
    if remedy := getattr(error.orig, "remedy", ""):
        return str(remedy)
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    if code is None:
        return "check that the database server runs and that the URL is right, then try again"
    code = code if file is None else _cause(code, file)
    fitting = (remedy for start, remedy in _REMEDIES.items() if code.startswith(start))
    return next(fitting, f"look up {code} in the database's manual")


def _cause(code: str, file: Path) -> str:
    """Return the name of the error that caused the error ``code`` of SQLite, or ``code`` if none is known."""
    if code.startswith("SQLITE_CANTOPEN") and os.access(file, os.F_OK) and not os.access(file, os.R_OK):
        return "EACCES"
    with suppress(OSError):
        if code.startswith("SQLITE_IOERR") and shutil.disk_usage(file.parent).free < _MEMORY_OF_READERS:
            return "SQLITE_FULL"
    return code
