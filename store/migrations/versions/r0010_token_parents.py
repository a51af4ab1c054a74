"""Which token a token was made with."""

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("parent", sa.String(64), server_default="", nullable=False))
    op.create_index("ix_tokens_parent", "tokens", ["parent"])


def downgrade() -> None:
    op.drop_index("ix_tokens_parent", "tokens")
    op.drop_column("tokens", "parent")
