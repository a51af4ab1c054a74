"""What nodes report of their pods."""

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None

SORTED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

TABLES = ("reporters", "pods", "images", "happenings", "logs")


def upgrade() -> None:
    op.create_table(
        "reporters",
        sa.Column("node", SORTED, nullable=False),
        sa.Column("epoch", sa.String(36), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_reporters")),
    )
    op.create_table(
        "pods",
        sa.Column("id", SORTED, nullable=False),
        sa.Column("node", SORTED, nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("garbage", sa.DateTime(timezone=True), nullable=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pods")),
    )
    op.create_index("ix_pods_node", "pods", ["node"])
    op.create_index("ix_pods_garbage", "pods", ["garbage"])
    op.create_table(
        "images",
        sa.Column("node", SORTED, nullable=False),
        sa.Column("id", SORTED, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "id", name=op.f("pk_images")),
    )
    op.create_table(
        "happenings",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("era", sa.BigInteger(), nullable=False),
        sa.Column("node", SORTED, nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_happenings")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_happenings_era_number", "happenings", ["era", "number"])
    op.create_index("ix_happenings_time_ns", "happenings", ["time_ns"])
    op.create_table(
        "logs",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("pod", SORTED, nullable=False),
        sa.Column("app", SORTED, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_logs")),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_logs_place", "logs", ["pod", "app", "position"], unique=True)


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
