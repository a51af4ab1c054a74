"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None

LIVING = sa.text("phase <> 'gone'")
ACTIVE = sa.text("stage IN ('requested', 'running')")

SORTED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

TABLES = (
    "clusters",
    "pools",
    "slots",
    "watches",
    "operations",
    "idempotency",
    "steps",
    "journal",
    "machine_failures",
    "secrets",
    "stock",
    "records",
    "links",
    "changes",
    "controllers",
)


def upgrade() -> None:
    _clusters()
    _operations()
    _steps_and_journal()
    _machine_failures()
    _secrets_and_stock()
    _records()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("pending", sa.String(32), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.Column("operation", sa.String(36), nullable=False),
        sa.Column("policy", sa.String(32), nullable=False),
        sa.Column("proposal", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_clusters")),
    )
    op.create_index(
        "uq_clusters_living_name",
        "clusters",
        ["name", "tenant"],
        unique=True,
        sqlite_where=LIVING,
        postgresql_where=LIVING,
    )
    op.create_table(
        "pools",
        sa.Column("cluster", sa.String(36), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_pools")),
    )
    op.create_table(
        "slots",
        sa.Column("cluster", sa.String(36), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("pool", sa.String(63), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("system_id", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("kubelet", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.Column("mends", sa.Integer(), nullable=False),
        sa.Column("mended", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_slots")),
    )
    op.create_table(
        "watches",
        sa.Column("cluster", sa.String(36), nullable=False),
        sa.Column("heard", sa.DateTime(timezone=True), nullable=False),
        sa.Column("confirmed", sa.DateTime(timezone=True), nullable=True),
        sa.Column("inspected", sa.DateTime(timezone=True), nullable=True),
        sa.Column("inside", sa.Text(), nullable=False),
        sa.Column("silent_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_watches")),
    )


def _operations() -> None:
    op.create_table(
        "operations",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("cluster", sa.String(36), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heard", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("cancelled_by", sa.Text(), nullable=False),
        sa.Column("paused_by", sa.Text(), nullable=False),
        sa.Column("paused", sa.DateTime(timezone=True), nullable=True),
        sa.Column("gate", sa.Text(), nullable=False),
        sa.Column("gate_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("approved", sa.Text(), nullable=False),
        sa.Column("heeded", sa.Boolean(), nullable=False),
        sa.Column("supersedes", sa.String(36), nullable=False),
        sa.Column("waiting_on", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("left_behind", sa.Text(), nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("steps_done", sa.Integer(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    op.create_index("ix_operations_created_id", "operations", ["created", "id"])
    op.create_index("ix_operations_stage_ended", "operations", ["stage", "ended"])
    op.create_index(
        "uq_operations_active_subject",
        "operations",
        ["tenant", "subject"],
        unique=True,
        sqlite_where=ACTIVE,
        postgresql_where=ACTIVE,
    )
    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("caller", sa.String(255), nullable=False),
        sa.Column("method", sa.String(255), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("operation", sa.String(36), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "caller", "method", "key", name=op.f("pk_idempotency")),
    )
    op.create_index("ix_idempotency_created", "idempotency", ["created"])


def _steps_and_journal() -> None:
    op.create_table(
        "steps",
        sa.Column("operation", sa.String(36), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("verb", sa.String(63), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("operation", "key", name=op.f("pk_steps")),
    )
    op.create_index("ix_steps_verb_state_ended", "steps", ["verb", "state", "ended"])
    op.create_table(
        "journal",
        sa.Column("operation", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("stage", sa.String(32), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("last", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("operation", "number", name=op.f("pk_journal")),
    )


def _machine_failures() -> None:
    op.create_table(
        "machine_failures",
        sa.Column("system_id", sa.String(63), nullable=False),
        sa.Column("operation", sa.String(36), nullable=False),
        sa.Column("slot", sa.String(63), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("cluster", sa.String(63), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(
            "system_id", "operation", "slot", "turn", name=op.f("pk_machine_failures")
        ),
    )
    op.create_index("ix_machine_failures_time", "machine_failures", ["time"])


def _secrets_and_stock() -> None:
    op.create_table(
        "secrets",
        sa.Column("reference", sa.String(255), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_with", sa.String(32), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("reference", name=op.f("pk_secrets")),
    )
    op.create_table(
        "stock",
        sa.Column("pool", sa.String(63), nullable=False),
        sa.Column("machines", sa.Integer(), nullable=False),
        sa.Column("tagged", sa.Text(), nullable=False),
        sa.Column("seen", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("pool", name=op.f("pk_stock")),
    )


def _records() -> None:
    op.create_table(
        "records",
        sa.Column("noun", sa.String(32), nullable=False),
        sa.Column("key", SORTED, nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("noun", "key", name=op.f("pk_records")),
    )
    op.create_table(
        "links",
        sa.Column("noun", sa.String(32), nullable=False),
        sa.Column("key", SORTED, nullable=False),
        sa.Column("target_noun", sa.String(32), nullable=False),
        sa.Column("target_key", SORTED, nullable=False),
        sa.Column("yields", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("noun", "key", "target_noun", "target_key", name=op.f("pk_links")),
    )
    op.create_index("ix_links_target", "links", ["target_noun", "target_key", "noun", "yields"])
    op.create_table(
        "changes",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("era", sa.BigInteger(), nullable=False),
        sa.Column("noun", sa.String(32), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_changes_era_number", "changes", ["era", "number"])
    op.create_index("ix_changes_time", "changes", ["time"])
    op.create_table(
        "controllers",
        sa.Column("address", SORTED, nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_controllers")),
    )
