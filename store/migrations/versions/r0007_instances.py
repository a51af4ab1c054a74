"""What runs at the edge, what it takes there, and operations that are made of others."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None

SORTED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "clusterinsts",
        sa.Column("before", sa.String(32), nullable=False),
        sa.Column("nodes_before", sa.Integer(), nullable=False),
        *_tracked(),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_clusterinsts")),
    )
    op.create_index("ix_clusterinsts_cloudlet_key", "clusterinsts", ["cloudlet", "key"])
    op.create_table(
        "appinsts",
        sa.Column("app", SORTED, nullable=False),
        sa.Column("cluster", SORTED, nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        *_tracked(),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_appinsts")),
    )
    op.create_index("ix_appinsts_cloudlet_key", "appinsts", ["cloudlet", "key"])
    op.create_index("ix_appinsts_cluster_key", "appinsts", ["cluster", "key"])
    op.create_table(
        "cloudlet_refs",
        sa.Column("cloudlet", SORTED, nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("clusters", sa.Text(), nullable=False),
        sa.Column("ram", sa.BigInteger(), nullable=False),
        sa.Column("vcores", sa.BigInteger(), nullable=False),
        sa.Column("disk", sa.BigInteger(), nullable=False),
        sa.Column("addresses", sa.Integer(), nullable=False),
        sa.Column("ports", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cloudlet", name=op.f("pk_cloudlet_refs")),
    )
    op.add_column(
        "journal", sa.Column("told", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column(
        "operations", sa.Column("parent", sa.String(36), server_default="", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("operations", "parent")
    op.drop_column("journal", "told")
    for table in ("cloudlet_refs", "appinsts", "clusterinsts"):
        op.drop_table(table)


def _tracked() -> list[sa.Column[Any]]:
    return [
        sa.Column("key", SORTED, nullable=False),
        sa.Column("cloudlet", SORTED, nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("taken", sa.Text(), nullable=False),
        sa.Column("holds", sa.Boolean(), nullable=False),
        sa.Column("errors", sa.Text(), nullable=False),
        sa.Column("operation", sa.String(36), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    ]
