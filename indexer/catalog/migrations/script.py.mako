"""${message}."""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Applies the change."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Takes the change back."""
    ${downgrades if downgrades else "pass"}
