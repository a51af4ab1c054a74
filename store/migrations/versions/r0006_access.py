"""Users, their tokens, wrong guesses and the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None

SORTED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

TABLES = ("users", "tokens", "attempts", "audit")

REFUSED = "the audit trail is only ever added to"

ON_SQLITE = tuple(
    f"CREATE TRIGGER audit_no_{word.lower()} BEFORE {word} ON audit "
    f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
    for word in ("UPDATE", "DELETE")
)
ON_POSTGRESQL = (
    "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$",
    "CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON audit "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
)


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("name", SORTED, nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("role", sa.String(32), nullable=False),
        sa.Column("developer", sa.Text(), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("user_name", SORTED, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.Column("idle_seconds", sa.Integer(), nullable=False),
        sa.Column("used", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked", sa.DateTime(timezone=True), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_tokens")),
        sa.UniqueConstraint("id", name=op.f("uq_tokens_id")),
    )
    op.create_index("ix_tokens_user_name", "tokens", ["user_name"])
    op.create_index("ix_tokens_ended", "tokens", ["ended"])
    op.create_table(
        "attempts",
        sa.Column("who", sa.String(64), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("who", name=op.f("pk_attempts")),
    )
    op.create_index("ix_attempts_last", "attempts", ["last"])
    op.create_table(
        "audit",
        sa.Column("number", COUNTER, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user_name", SORTED, nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.Column("chain", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_user_name_number", "audit", ["user_name", "number"])
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in ON_SQLITE if sqlite else ON_POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION audit_refuse()")
