"""That the audit trail is not emptied at once either, and who has been told to wait."""

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"
branch_labels = None
depends_on = None

NOT_EMPTIED = (
    "CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()"
)
"""SQLite has no such statement, and refuses its like row by row."""


def upgrade() -> None:
    op.add_column(
        "attempts",
        sa.Column("told", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    if op.get_bind().dialect.name != "sqlite":
        op.execute(NOT_EMPTIED)


def downgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP TRIGGER audit_not_emptied ON audit")
    op.drop_column("attempts", "told")
