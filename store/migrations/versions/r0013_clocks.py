"""What the time of leases is counted from on SQLite."""

import sqlalchemy as sa
from alembic import op

revision = "r0013"
down_revision = "r0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "clocks",
        sa.Column("boot", sa.String(36), nullable=False),
        sa.Column("offset", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("boot", name=op.f("pk_clocks")),
    )


def downgrade() -> None:
    op.drop_table("clocks")
