"""The database under the catalog: SQLite or PostgreSQL, opened durably, one writer at a time."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError

from models.errors import InputError, MissingPackageError, StorageError

BUSY_TIMEOUT_S: Final = 30  # how long a SQLite writer waits for another before it gives up

# Any constant will do, as long as every Akin that writes to one PostgreSQL database uses the same.
_WRITER_LOCK: Final = 0x616B696E  # "akin"

_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}

_PATIENCE: Final = f"-c lock_timeout={BUSY_TIMEOUT_S}s"  # as long as with SQLite
# A connection that a restart of the server has cut is noticed before it is used; one that is not made in time
# is an error, not a wait; so is one whose other end is not heard of any more.
_POOLS: Final[dict[str, dict[str, Any]]] = {
    "postgresql": {
        "pool_pre_ping": True,
        "connect_args": {
            "connect_timeout": 5,
            "options": _PATIENCE,
            "tcp_user_timeout": 10_000,  # ms
            "keepalives_idle": 10,
            "keepalives_interval": 3,
            "keepalives_count": 3,
        },
    }
}

# By the start of SQLite's error name or PostgreSQL's SQLSTATE; the first that fits.
_REMEDIES: Final = {
    "SQLITE_FULL": "free disk space and try again; nothing was half-written",
    "SQLITE_READONLY": "make the file and its folder writable for this user",
    "SQLITE_PERM": "make the file and its folder writable for this user",
    "SQLITE_CANTOPEN": "name a file in a folder that exists and that this user may write to",
    "SQLITE_NOTADB": "name another file, or move this one away and ingest the corpus again",
    "SQLITE_CORRUPT": "restore the file from a backup, or move it away and ingest the corpus again",
    "SQLITE_BUSY": f"another process has been writing for {BUSY_TIMEOUT_S} s; let it end, then try again",
    "SQLITE_IOERR": "check the disk and its mount, then try again",
    "25006": "connect to a server that accepts writes",
    "28": "check the user and password in the URL",
    "3D": "create the database that the URL names",
    "42501": "grant this user the right to create and write tables",
    "55P03": f"another process has been writing for {BUSY_TIMEOUT_S} s; let it end, then try again",
    "53": "free disk space, memory or connections on the server and try again",
}


def sqlite_file(url_or_path: str | Path) -> Path | None:
    """The file of a database, or ``None`` where it is in PostgreSQL; raises InputError for any other URL."""
    url = _url(url_or_path)
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


class Database:
    """A pool of connections to one database.

    SQLite runs in write-ahead mode and synchronises at every commit, so that what was acknowledged survives a
    power cut; readers never wait for the writer.

    Args:
        url_or_path: a path of a SQLite file, or a URL ``sqlite:///...`` or ``postgresql://...``.

    Raises:
        InputError: a URL of another kind of database, or none at all.
        MissingPackageError: PostgreSQL without its driver.
    """

    def __init__(self, url_or_path: str | Path) -> None:
        url = _url(url_or_path)
        try:
            self._engine = create_engine(url, **_POOLS.get(url.get_backend_name(), {}))
        except ModuleNotFoundError as error:
            raise MissingPackageError(
                f"PostgreSQL needs the package {error.name}, which is not installed: "
                'pip install "akin[postgres]"'
            ) from error
        # Never the whole URL: it may hold a password.
        self.place = f"{url.database}" if url.host is None else f"{url.database} on {url.host}"
        if url.get_backend_name() == "sqlite":
            _configure_sqlite(self._engine)
        self._writer = self._engine.execution_options(begin="BEGIN IMMEDIATE")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that sees one state of the database.

        Raises:
            StorageError: the database cannot be reached, read or written; the message carries the remedy.
        """
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that keeps all of its changes or none; others that write wait until it has ended.

        Raises:
            StorageError: as ``reading``.
        """
        with self._translated(), self._writer.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_WRITER_LOCK)))
            yield connection

    def close(self) -> None:
        """Closes every connection; using the database again opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StorageError(f"catalog {self.place}: {error.orig}; {_remedy(error)}") from error


def _url(url_or_path: str | Path) -> URL:
    if isinstance(url_or_path, Path) or "://" not in url_or_path:
        return URL.create("sqlite+pysqlite", database=str(url_or_path))
    try:
        url = make_url(url_or_path)
        return url.set(drivername=_DRIVERS[url.drivername])
    except (ArgumentError, KeyError, ValueError) as error:
        kind = url_or_path.partition("://")[0]
        raise InputError(
            f"the catalog's URL (of kind {kind!r}) cannot be used: expected a file path, "
            "sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME"
        ) from error


def _configure_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def set_pragmas(connection: sqlite3.Connection, _entry: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
        _write_ahead(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The driver alone would begin only before some statements. A transaction that starts as a reader
        # cannot wait for a writer later, so those that write say so at once.
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switches to write-ahead mode; while another process makes the file, SQLite would refuse, not wait."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _remedy(error: DBAPIError) -> str:
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    if code is None:
        return "check that the database server runs and that the URL is right, then try again"
    fitting = (remedy for start, remedy in _REMEDIES.items() if code.startswith(start))
    return next(fitting, f"look up {code} in the database's manual")
