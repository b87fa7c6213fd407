"""The random id by which a collection knows its own catalog."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Applies the change: a catalog without an id gets one."""
    identity = op.create_table(
        "identity",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
    )
    op.bulk_insert(identity, [{"id": secrets.token_hex(16)}])


def downgrade() -> None:
    """Takes the change back: what was published meanwhile knows its catalog no more."""
    op.drop_table("identity")
