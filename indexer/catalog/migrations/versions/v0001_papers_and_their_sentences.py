"""Papers and their sentences."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "papers",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("paper_id", sa.String(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("folded_title", sa.String(), nullable=False),
        sa.Column("abstract", sa.String(), nullable=False),
        sa.Column("year", sa.Integer(), nullable=True),
        sa.Column("venue", sa.String(), nullable=True),
        sa.Column("authors", sa.JSON(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("doi", sa.String(), nullable=True),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_papers")),
        sa.UniqueConstraint("content_hash", name=op.f("uq_papers_content_hash")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_papers_paper_id"), "papers", ["paper_id"], unique=False)
    op.create_table(
        "current_papers",
        sa.Column("paper_id", sa.String(), nullable=False),
        sa.Column("paper_key", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["paper_key"], ["papers.key"], name=op.f("fk_current_papers_paper_key")),
        sa.PrimaryKeyConstraint("paper_id", name=op.f("pk_current_papers")),
        sa.UniqueConstraint("paper_key", name=op.f("uq_current_papers_paper_key")),
    )
    op.create_table(
        "sentences",
        sa.Column("paper_key", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("facet", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["paper_key"], ["papers.key"], name=op.f("fk_sentences_paper_key")),
        sa.PrimaryKeyConstraint("paper_key", "position", name=op.f("pk_sentences")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Revert the change."""
    op.drop_table("sentences")
    op.drop_table("current_papers")
    op.drop_index(op.f("ix_papers_paper_id"), table_name="papers")
    op.drop_table("papers")
