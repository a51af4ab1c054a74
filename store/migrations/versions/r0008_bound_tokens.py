"""Of which cloudlets the program may speak that a token is for."""

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("cloudlets", sa.Text(), server_default="[]", nullable=False))


def downgrade() -> None:
    op.drop_column("tokens", "cloudlets")
