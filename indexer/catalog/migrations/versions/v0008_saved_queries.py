"""Queries saved under a name, and the change in which each paper was added."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change; existing papers count as added in their last change, at the time of the migration."""
    with op.batch_alter_table("current_papers") as table:
        for name in ("added", "added_at"):
            table.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    now = sa.literal(int(time.time()), sa.BigInteger())
    papers = sa.table("current_papers", *map(sa.column, ("change", "added", "added_at")))
    op.execute(papers.update().values(added=papers.c.change, added_at=now))
    with op.batch_alter_table("current_papers") as table:
        for name in ("added", "added_at"):
            table.alter_column(name, existing_type=sa.BigInteger(), server_default=None)
    op.create_table(
        "saved_queries",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=True),
        sa.Column("has_feed", sa.Boolean(), nullable=False),
        sa.Column("n_feeds", sa.Integer(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_queries")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_saved_queries_owner")),
    )


def downgrade() -> None:
    """Revert the change: saved queries are deleted."""
    op.drop_table("saved_queries")
    with op.batch_alter_table("current_papers") as table:
        table.drop_column("added_at")
        table.drop_column("added")
