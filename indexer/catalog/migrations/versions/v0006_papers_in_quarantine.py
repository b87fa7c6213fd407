"""Versions of papers that could not be encoded, each with the reason."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "quarantine",
        sa.Column("paper_key", sa.Integer(), nullable=False),
        sa.Column("models", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["paper_key"], ["papers.key"], name=op.f("fk_quarantine_paper_key")),
        sa.PrimaryKeyConstraint("paper_key", "models", name=op.f("pk_quarantine")),
    )


def downgrade() -> None:
    """Revert the change: papers that could not be encoded are tried again."""
    op.drop_table("quarantine")
