"""The key of each secret, itself sealed."""

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "secrets", sa.Column("wrapped", sa.LargeBinary(), server_default="", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("secrets", "wrapped")
