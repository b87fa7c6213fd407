"""What Alembic runs for every command: it migrates on the connection that ``indexer.migrations`` hands it."""

from alembic import context

from indexer.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
