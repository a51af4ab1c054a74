"""For which nodes the agent may speak that a token is for, and who registered a node."""

import sqlalchemy as sa
from alembic import op

revision = "r0015"
down_revision = "r0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("nodes", sa.Text(), server_default="[]", nullable=False))
    sorted_ = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("nodes", sa.Column("registrar", sorted_, server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("nodes", "registrar")
    op.drop_column("tokens", "nodes")
