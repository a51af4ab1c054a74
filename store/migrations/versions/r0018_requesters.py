"""What the operations of one user that run are counted by."""

from alembic import op

revision = "r0018"
down_revision = "r0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_operations_requester_ended", "operations", ["requester", "ended"])


def downgrade() -> None:
    op.drop_index("ix_operations_requester_ended", table_name="operations")
