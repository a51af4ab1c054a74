"""Which line of the audit trail said that a call began which another says the end of."""

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("audit", sa.Column("began", COUNTER, nullable=True))
    op.create_index("ix_audit_began", "audit", ["began"])


def downgrade() -> None:
    op.drop_index("ix_audit_began", "audit")
    op.drop_column("audit", "began")
