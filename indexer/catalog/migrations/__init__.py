"""The catalog's schema over time: brings a database to the schema this version of Akin knows.

To change the schema, change the models in ``indexer/catalog/tables.py``, then draft the migration and read
it::

    python -m indexer.catalog.migrations "say what changes"

A migration must work in SQLite and PostgreSQL; the tests run each up, down and up again in both, and compare
what all of them make with what the models say. A new catalog is made from the models at once: only one of an
older version is migrated, and only then is Alembic loaded.
"""

import secrets
from pathlib import Path
from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select

from indexer.catalog.database import Database
from indexer.catalog.tables import Base, IdentityRow
from models.errors import StorageError
from models.interruption import however_long

NEWEST: Final = "0006"  # the last of versions/
# The table in which Alembic notes what was applied.
_APPLIED = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
_APPLIED.primary_key.name = "alembic_version_pkc"


def open_database(url_or_path: str | Path) -> Database:
    """A database with the newest schema: made, or brought up to date, first; several processes may at once.

    Raises:
        InputError: a URL of another kind of database, or none at all.
        MissingPackageError: PostgreSQL without its driver.
        StorageError: it cannot be opened, or a newer version of Akin wrote it.
    """
    database = Database(url_or_path)
    try:
        with database.reading() as connection:
            current = applied(connection) == NEWEST
        if not current:
            with however_long(), database.writing() as connection:
                bring_up_to_date(connection)
    except StorageError:
        database.close()
        raise
    return database


def applied(connection: Connection) -> str | None:
    """The schema that the database has; None for one without any."""
    if not inspect(connection).has_table(_APPLIED.name):
        return None
    return connection.execute(select(_APPLIED.c.version_num)).scalar()


def bring_up_to_date(connection: Connection) -> None:
    """Brings the schema to the newest inside the connection's transaction: wholly or not at all.

    Raises:
        StorageError: a newer version of Akin wrote the schema.
    """
    found = applied(connection)  # another process may have done it since
    if found is None:
        make(connection)
    elif found != NEWEST:
        from indexer.catalog.migrations import scripts  # noqa: PLC0415 - a quarter of a second, for older catalogs alone

        scripts.upgrade(connection)


def make(connection: Connection) -> None:
    """Makes the newest schema in a database that has none."""
    Base.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(IdentityRow).values(id=secrets.token_hex(16)))
    _APPLIED.create(connection, checkfirst=True)
    connection.execute(insert(_APPLIED).values(version_num=NEWEST))
