"""What operations and secrets are found by."""

import sqlalchemy as sa
from alembic import op

revision = "r0017"
down_revision = "r0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_operations_subject_created_id", "operations", ["subject", "created", "id"])
    op.create_index("ix_operations_cluster", "operations", ["cluster"])
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("secrets", "reference", type_=sa.String(255, collation="C"))


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("secrets", "reference", type_=sa.String(255, collation="default"))
    op.drop_index("ix_operations_cluster", table_name="operations")
    op.drop_index("ix_operations_subject_created_id", table_name="operations")
