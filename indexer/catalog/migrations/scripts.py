"""Functions that run the scripts of ``versions/`` with Alembic, on an open connection."""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

# Alembic keeps its current context in module globals, so two threads must not migrate at once.
_ALEMBIC = threading.Lock()


def configuration(connection: Connection) -> Config:
    """Return Alembic's configuration for one open connection, without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Apply the missing migrations up to ``revision``."""
    with _ALEMBIC:
        command.upgrade(configuration(connection), revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Revert the migrations that were applied after ``revision``."""
    with _ALEMBIC:
        command.downgrade(configuration(connection), revision)
