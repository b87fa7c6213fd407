"""The catalog's schema over time: brings a database to the schema this version of Akin knows.

To change the schema, change the models in ``indexer/tables.py``, then draft the migration and read it::

    python -m indexer.migrations "say what changes"

A migration must work in SQLite and PostgreSQL; the tests run each up, down and up again in both.
"""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from indexer.database import Database
from models.errors import StorageError
from models.interruption import however_long

# Alembic keeps its current context in module globals, so two threads must not migrate at once.
_ALEMBIC = threading.Lock()


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
            current = is_current(connection)
        if not current:
            # Where another process does it first, nothing is left to do once this one may write.
            with however_long(), database.writing() as connection:
                upgrade(connection)
    except StorageError:
        database.close()
        raise
    return database


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for one open connection, made here so that no ini file is needed."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def is_current(connection: Connection) -> bool:
    """Whether the database already has the newest schema this version knows.

    Raises:
        StorageError: a newer version of Akin wrote the schema.
    """
    scripts = ScriptDirectory.from_config(configuration(connection))
    known = {script.revision for script in scripts.walk_revisions()}
    applied = set(MigrationContext.configure(connection).get_current_heads())
    if unknown := applied - known:
        raise StorageError(
            f"the catalog has schema {', '.join(sorted(unknown))}, expected {scripts.get_current_head()} or "
            "older: a newer version of Akin wrote it; upgrade this one, or open another catalog"
        )
    return applied == set(scripts.get_heads())


def upgrade(connection: Connection) -> None:
    """Brings the schema to the newest inside the connection's transaction: wholly or not at all."""
    with _ALEMBIC:
        command.upgrade(configuration(connection), "head")
