"""What is written to find out whether the database takes writes."""

import sqlalchemy as sa
from alembic import op

revision = "r0016"
down_revision = "r0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "probes",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("written", sa.DateTime(timezone=True), nullable=False),
        sa.Column("filler", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_probes")),
    )


def downgrade() -> None:
    op.drop_table("probes")
