"""How far those who follow rows by transactions may read on PostgreSQL.

Numbers of transactions are given out before they commit, so a follower who read on past one that is
still open would miss what it writes. Followers therefore stop at the oldest transaction that is
open, but count only those of Windlass in this database: its connections bear its name. What others
keep open, here or in other databases of the server, holds nobody up."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

APPLICATION = "windlass"
"""The name that our connections bear."""

_HORIZON = text("""
WITH snapshot AS MATERIALIZED (
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next
), ours AS (
    SELECT (next % 4294967296 - backend_xid::text::bigint + 4294967296) % 4294967296 AS behind
    FROM pg_stat_activity, snapshot
    WHERE datname = current_database() AND application_name = :application
      AND backend_xid IS NOT NULL
)
SELECT next - coalesce((SELECT max(behind) FROM ours WHERE behind < 2147483648), 0) FROM snapshot
""").bindparams(application=APPLICATION)
"""The first transaction that is not over for sure. The server knows the numbers of open ones in 32
bits; one begun after the snapshot is ahead of it, and left out, since it is past the end anyway."""


async def horizon(session: AsyncSession) -> int:
    """The number up to which all of our transactions are over. A statement that follows sees all
    that they wrote; one that was begun before, and so this one, need not: ask this first."""
    return await session.scalar(_HORIZON) or 0
