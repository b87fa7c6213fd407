"""The random id by which a collection recognises its catalog."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply the change: the catalog gets a random id."""
    identity = op.create_table(
        "identity",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
    )
    op.bulk_insert(identity, [{"id": secrets.token_hex(16)}])


def downgrade() -> None:
    """Revert the change: snapshots published meanwhile no longer recognise their catalog."""
    op.drop_table("identity")
