"""Nodes, and the instances that run on them."""

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None

SORTED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
LIVING = sa.text("ended IS NULL")
WITH_ADDRESS = sa.text("ip <> ''")
AMOUNTS = ("cpu", "memory", "disk")

TABLES = ("nodes", "instances", "placements", "host_ports", "instance_events")


def upgrade() -> None:
    _nodes()
    _instances()
    _placements()
    _events()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _amounts(*kinds: str) -> list[sa.Column[int]]:
    return [
        sa.Column(f"{kind}{name}", sa.BigInteger(), nullable=False)
        for kind in kinds
        for name in AMOUNTS
    ]


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", SORTED, nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("pool", sa.String(63), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("runtime", sa.String(32), nullable=False),
        sa.Column("subnet", sa.String(18), nullable=True),
        sa.Column("subnet_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cordoned", sa.Boolean(), nullable=False),
        sa.Column("drain_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heard", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ceiling", sa.Double(), nullable=False),
        *_amounts("limit_", "room_", "taken_", "used_"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
    )
    op.create_index("uq_nodes_subnet", "nodes", ["subnet"], unique=True)


def _instances() -> None:
    op.create_table(
        "instances",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("id", sa.String(253), nullable=False),
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("wish", sa.String(32), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("taken_up", sa.Boolean(), nullable=False),
        sa.Column("parked", sa.Boolean(), nullable=False),
        sa.Column("evicted", sa.Boolean(), nullable=False),
        sa.Column("avoid", sa.Text(), nullable=False),
        sa.Column("has_run", sa.Boolean(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("waits_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("running_since", sa.DateTime(timezone=True), nullable=True),
        *_amounts("used_"),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("heeded", sa.Boolean(), nullable=False),
        sa.Column("heard", sa.DateTime(timezone=True), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_instances")),
    )
    op.create_index(
        "uq_instances_living_id",
        "instances",
        ["id", "tenant"],
        unique=True,
        sqlite_where=LIVING,
        postgresql_where=LIVING,
    )
    op.create_index("ix_instances_id_created", "instances", ["id", "created"])
    op.create_index("ix_instances_closed_heard", "instances", ["closed", "heard"])
    op.create_index("ix_instances_node", "instances", ["node"])


def _placements() -> None:
    op.create_table(
        "placements",
        sa.Column("node", SORTED, nullable=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("instance", sa.String(253), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.Column("left", sa.Boolean(), nullable=False),
        sa.Column("waits_until", sa.DateTime(timezone=True), nullable=True),
        *_amounts(""),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("ip", sa.String(45), nullable=False),
        sa.Column("ports", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "uid", name=op.f("pk_placements")),
    )
    op.create_index("ix_placements_workload", "placements", ["workload"])
    op.create_index("ix_placements_uid", "placements", ["uid"])
    op.create_index(
        "uq_placements_ip",
        "placements",
        ["node", "ip"],
        unique=True,
        sqlite_where=WITH_ADDRESS,
        postgresql_where=WITH_ADDRESS,
    )
    op.create_table(
        "host_ports",
        sa.Column("node", SORTED, nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("node", "port", name=op.f("pk_host_ports")),
    )


def _events() -> None:
    op.create_table(
        "instance_events",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "number", name=op.f("pk_instance_events")),
    )
