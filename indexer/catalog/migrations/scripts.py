"""Runs the scripts of ``versions/`` with Alembic, on an open connection."""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from indexer.catalog.migrations import applied
from models.errors import StorageError

# Alembic keeps its current context in module globals, so two threads must not migrate at once.
_ALEMBIC = threading.Lock()


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for one open connection, made here so that no ini file is needed."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Applies what is missing up to ``revision``.

    Raises:
        StorageError: a newer version of Akin wrote the schema.
    """
    config = configuration(connection)
    scripts = ScriptDirectory.from_config(config)
    found = applied(connection)
    if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
        raise StorageError(
            f"the catalog has schema {found}, expected {scripts.get_current_head()} or older: a newer "
            "version of Akin wrote it; upgrade this one, or open another catalog"
        )
    with _ALEMBIC:
        command.upgrade(config, revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Takes back what was applied after ``revision``."""
    with _ALEMBIC:
        command.downgrade(configuration(connection), revision)
