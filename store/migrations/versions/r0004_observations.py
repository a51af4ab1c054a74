"""What was last seen of Ceph clusters."""

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "observations",
        sa.Column("cluster", sa.String(length=63), nullable=False),
        sa.Column("asked", sa.DateTime(timezone=True), nullable=False),
        sa.Column("every", sa.Double(), nullable=False),
        sa.Column("seen", sa.Text(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_observations")),
    )


def downgrade() -> None:
    op.drop_table("observations")
