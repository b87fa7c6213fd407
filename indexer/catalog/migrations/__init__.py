"""Migrations of the catalog: they bring a database to the schema of this version of Akin.

To change the schema, change the models in ``indexer/catalog/tables.py``, then draft the migration and read
it::

    python -m indexer.catalog.migrations "say what changes"

A migration must work in SQLite and PostgreSQL; the tests run each up, down and up again in both, and compare
the resulting schema with the models. A new catalog is made directly from the models. A catalog of an older
version is migrated only by ``akin migrate``, and Alembic is loaded only then.
"""

import secrets
from pathlib import Path
from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select

from indexer.catalog.database import BUSY_TIMEOUT_S, Database, expect_existing
from indexer.catalog.tables import Base, IdentityRow
from models.errors import StorageError
from models.interruption import without_interruption

NEWEST: Final = "0009"  # the last of versions/
# The table in which Alembic records the schema that was applied.
_APPLIED = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
_APPLIED.primary_key.name = "alembic_version_pkc"


def open_database(url_or_path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Database:
    """Open a database with the newest schema, or make it; several processes may do so at the same time.

    A database with an older schema is not changed: a service of that version may be writing to it.

    Raises:
        InputError: the URL is malformed or of another kind of database.
        MissingPackageError: PostgreSQL without its driver.
        StorageError: the database cannot be opened, or another version of Akin wrote it.
    """
    database = Database(url_or_path, busy_timeout_s=busy_timeout_s)
    try:
        with database.reading() as connection:
            found = applied(connection)
        if found is None:
            with without_interruption(), database.writing() as connection:
                if applied(connection) is None:  # else another process has made it meanwhile
                    make(connection)
        else:
            _expect_newest(found)
    except StorageError:
        database.close()
        raise
    return database


def migrate(url_or_path: str | Path) -> str | None:
    """Bring an existing database to the newest schema in one transaction; return the schema it had before.

    The schema is ``None`` if there was none. Raises what ``open_database`` raises, and StorageError if a
    SQLite file does not exist.
    """
    expect_existing(url_or_path)
    database = Database(url_or_path)
    try:
        with without_interruption(), database.writing() as connection:
            found = applied(connection)
            if found is None:
                make(connection)
            elif _is_older(found):
                from indexer.catalog.migrations import scripts  # noqa: PLC0415 - a quarter of a second

                scripts.upgrade(connection)
            else:
                _expect_newest(found)
    finally:
        database.close()
    return found


def applied(connection: Connection) -> str | None:
    """Return the schema of the database, or ``None`` if it has no schema."""
    if not inspect(connection).has_table(_APPLIED.name):
        return None
    return connection.execute(select(_APPLIED.c.version_num)).scalar()


def _is_older(found: str) -> bool:
    return found.isdecimal() and int(found) < int(NEWEST)


def _expect_newest(found: str) -> None:
    if _is_older(found):
        raise StorageError(
            f"the catalog has schema {found}, this version of Akin needs {NEWEST}: back it up, stop all "
            "other processes that write to it, then run `akin migrate` with the same --data and --catalog"
        )
    if found != NEWEST:
        raise StorageError(
            f"the catalog has schema {found}, expected {NEWEST} or older: a newer version of Akin wrote it; "
            "upgrade this one, or open another catalog"
        )


def make(connection: Connection) -> None:
    """Make the newest schema in a database that has none."""
    Base.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(IdentityRow).values(id=secrets.token_hex(16)))
    _APPLIED.create(connection, checkfirst=True)
    connection.execute(insert(_APPLIED).values(version_num=NEWEST))
