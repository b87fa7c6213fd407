"""Drafts a migration from the difference between the models and the newest schema.

Run as ``python -m indexer.catalog.migrations "say what changes"``.
"""

import sys

from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from indexer.catalog.migrations import scripts


def draft(message: str) -> None:
    """Write the next numbered file of ``versions/``: how the models differ from the newest schema."""
    # NEWEST in ``__init__`` must be set to the number of the last file.
    with create_engine("sqlite://").connect() as connection:
        scripts.upgrade(connection)
        config = scripts.configuration(connection)
        newest = ScriptDirectory.from_config(config).get_current_head() or "0"
        command.revision(config, message, autogenerate=True, rev_id=f"{int(newest) + 1:04d}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    draft(sys.argv[1])
