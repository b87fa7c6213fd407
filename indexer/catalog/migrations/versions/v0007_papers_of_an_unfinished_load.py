"""Versions of papers that wait to be published; ``papers`` loses the column for looking up titles."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "staged_papers",
        sa.Column("paper_id", sa.String(), nullable=False),
        sa.Column("paper_key", sa.Integer(), nullable=False),
        sa.Column("load", sa.String(length=64), nullable=False),
        sa.Column("brought", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["paper_key"], ["papers.key"], name=op.f("fk_staged_papers_paper_key")),
        sa.PrimaryKeyConstraint("paper_id", name=op.f("pk_staged_papers")),
    )
    op.create_index(op.f("ix_staged_papers_paper_key"), "staged_papers", ["paper_key"], unique=False)
    op.execute("ALTER TABLE papers DROP COLUMN folded_title")


def downgrade() -> None:
    """Revert the change: staged papers are forgotten, but their text stays."""
    with op.batch_alter_table("papers", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.add_column(sa.Column("folded_title", sa.String(), nullable=False, server_default=""))
    op.drop_index(op.f("ix_staged_papers_paper_key"), table_name="staged_papers")
    op.drop_table("staged_papers")
