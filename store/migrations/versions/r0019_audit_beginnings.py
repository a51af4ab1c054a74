"""Where the audit trail begins once old lines are removed; no others may be."""

import sqlalchemy as sa
from alembic import op

revision = "r0019"
down_revision = "r0018"
branch_labels = None
depends_on = None

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE = "audit_beginnings"
REFUSED = "the audit trail is only ever added to"
BEGINNING = "(SELECT coalesce(max(number), 0) FROM audit_beginnings)"

ON_SQLITE = (
    "DROP TRIGGER audit_no_delete",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit "
    f"WHEN OLD.number > {BEGINNING} BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
    *(
        f"CREATE TRIGGER {TABLE}_no_{word.lower()} BEFORE {word} ON {TABLE} "
        f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
        for word in ("UPDATE", "DELETE")
    ),
)
OFF_SQLITE = (
    "DROP TRIGGER audit_no_delete",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit "
    f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
)
ON_POSTGRESQL = (
    "CREATE FUNCTION audit_refuse_delete() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN IF OLD.number <= {BEGINNING} THEN RETURN OLD; END IF; "
    f"RAISE EXCEPTION '{REFUSED}'; END $$",
    "DROP TRIGGER audit_only_grows ON audit",
    "CREATE TRIGGER audit_only_grows BEFORE UPDATE ON audit "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    "CREATE TRIGGER audit_keeps_lines BEFORE DELETE ON audit "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse_delete()",
    f"CREATE TRIGGER {TABLE}_only_grow BEFORE UPDATE OR DELETE ON {TABLE} "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    f"CREATE TRIGGER {TABLE}_not_emptied BEFORE TRUNCATE ON {TABLE} "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
)
OFF_POSTGRESQL = (
    "DROP TRIGGER audit_keeps_lines ON audit",
    "DROP TRIGGER audit_only_grows ON audit",
    "CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON audit "
    "FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    "DROP FUNCTION audit_refuse_delete()",
)


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("number", COUNTER, autoincrement=False, nullable=False),
        sa.Column("chain", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f(f"pk_{TABLE}")),
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in ON_SQLITE if sqlite else ON_POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in OFF_SQLITE if sqlite else OFF_POSTGRESQL:
        op.execute(statement)
    op.drop_table(TABLE)
