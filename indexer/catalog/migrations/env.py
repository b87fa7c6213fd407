"""Alembic's environment: migrations run on the connection that ``scripts.py`` passes."""

from alembic import context

from indexer.catalog.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
