"""Instances that are over, and old lines of those that live: what nobody asks for any more.

An id that is used again goes on counting incarnations where the last of its instances stood, since
agents refuse older ones, and records and logs of pods go by them. So an instance is remembered for
longer than anybody remembers its pods, whatever is said of it alone."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.engine import Database, Store, transaction
from store.node_rows import InstanceEventRow, InstanceRow, PlacementRow
from store.rows import AnswerRow, now

AT_ONCE, ROUNDS = 200, 50
"""So many go in one transaction, and so often in a row."""

SETTLED = InstanceRow.closed.is_(True) & ~exists().where(PlacementRow.uid == InstanceRow.uid)
"""Nobody looks after it, and no node has a copy of it, not even one that is away."""

LINES = 1000
"""So many lines of an instance that lives are kept; who follows it is nearer than that."""

SLACK = timedelta(hours=1)
"""By so much agents may be behind in forgetting."""


class Purging(Store):
    def __init__(
        self, database: Database, kept: timedelta, most: int, pods_kept: timedelta
    ) -> None:
        """Beyond `most` the oldest go before their time, but never while their pods may be known:
        those are for `pods_kept`."""
        super().__init__(database)
        self._least = pods_kept + SLACK
        self._kept, self._most = max(kept, self._least), most

    async def run(self) -> None:
        """Forget what is due, the oldest first."""
        for _ in range(ROUNDS):
            if await self.instances() < AT_ONCE:
                break
        for _ in range(ROUNDS):
            if await self.lines() < AT_ONCE:
                break

    @transaction
    async def instances(self, session: AsyncSession) -> int:
        """Forget some whose time is up, or that are too many. What has left a copy on a node stays,
        also if that is away for months: nothing else says that it has to go, and an id that counted
        from the beginning would be refused there."""
        old = await _settled(session, now() - self._kept, AT_ONCE)
        if not old:
            over = select(func.count()).select_from(InstanceRow).where(SETTLED)
            surplus = (await session.scalar(over) or 0) - self._most
            old = await _settled(session, now() - self._least, min(surplus, AT_ONCE))
        await session.execute(delete(InstanceEventRow).where(InstanceEventRow.uid.in_(old)))
        await session.execute(delete(AnswerRow).where(AnswerRow.operation.in_(old)))
        await session.execute(delete(InstanceRow).where(InstanceRow.uid.in_(old)))
        return len(old)

    @transaction
    async def lines(self, session: AsyncSession) -> int:
        """Forget the oldest lines of some that have run for very long."""
        oldest = func.min(InstanceEventRow.number)
        long = await session.execute(
            select(InstanceRow.uid, InstanceRow.events)
            .join(InstanceEventRow, InstanceEventRow.uid == InstanceRow.uid)
            .where(InstanceRow.events > LINES)
            .group_by(InstanceRow.uid, InstanceRow.events)
            .having(oldest <= InstanceRow.events - LINES)
            .limit(AT_ONCE)
        )
        found = long.all()
        for uid, events in found:
            of = InstanceEventRow.uid == uid
            past = InstanceEventRow.number <= events - LINES
            await session.execute(delete(InstanceEventRow).where(of, past))
        return len(found)


async def _settled(session: AsyncSession, edge: datetime, most: int) -> Sequence[str]:
    """Those that are over since then, and nothing is left of them anywhere."""
    if most <= 0:
        return []
    query = (
        select(InstanceRow.uid)
        .where(SETTLED, InstanceRow.ended < edge, InstanceRow.heard < edge)
        .order_by(InstanceRow.heard)
        .limit(most)
    )
    return (await session.scalars(query)).all()
