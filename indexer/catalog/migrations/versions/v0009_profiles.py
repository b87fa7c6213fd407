"""Profiles: named sets of papers, such as what a reviewer has written."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change."""
    op.create_table(
        "profiles",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("papers", sa.String(), nullable=False),
        sa.Column("conflicts", sa.String(), nullable=False),
        sa.Column("quota", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("owner", "name", name=op.f("pk_profiles")),
    )


def downgrade() -> None:
    """Revert the change: profiles are deleted."""
    op.drop_table("profiles")
