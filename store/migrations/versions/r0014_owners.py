"""What a cluster was made for, as its maker wrote it down."""

import sqlalchemy as sa
from alembic import op

revision = "r0014"
down_revision = "r0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("clusters", sa.Column("owner", sa.Text(), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("clusters", "owner")
