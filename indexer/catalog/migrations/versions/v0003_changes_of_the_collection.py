"""Deletions, and the number of the last change of each paper."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    with op.batch_alter_table("current_papers") as table:
        table.add_column(sa.Column("change", sa.BigInteger(), nullable=False, server_default="1"))
        table.alter_column("paper_key", existing_type=sa.Integer(), nullable=True)
        table.create_index(op.f("ix_current_papers_change"), ["change"])
    with op.batch_alter_table("current_papers") as table:
        table.alter_column("change", existing_type=sa.BigInteger(), server_default=None)


def downgrade() -> None:
    """Revert the change: the records of deleted papers are removed."""
    op.execute("DELETE FROM current_papers WHERE paper_key IS NULL")
    with op.batch_alter_table("current_papers") as table:
        table.drop_index(op.f("ix_current_papers_change"))
        table.alter_column("paper_key", existing_type=sa.Integer(), nullable=False)
        table.drop_column("change")
