"""Where the endpoints of clusters were led to between operations."""

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watches", sa.Column("led", sa.Text(), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("watches", "led")
