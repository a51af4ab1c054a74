"""Neglect: what runs on nodes and has nobody who looks after it, as far as the rows can tell."""

from datetime import timedelta

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.instance import InstanceUid
from domain.node import AWAY, LIVING
from store.clock import moment
from store.engine import Database, Store, reading
from store.node_rows import InstanceRow, NodeRow, PlacementRow

UNHEARD = timedelta(minutes=25)
"""A workflow looks at its row every ten minutes."""


class Neglect(Store):
    def __init__(self, database: Database, *, lost: timedelta) -> None:
        """`lost`: how long a node may be silent."""
        super().__init__(database)
        self._lost = lost

    @reading
    async def unattended(
        self, session: AsyncSession, patience: timedelta, limit: int = 100
    ) -> list[InstanceUid]:
        """Those for which something is due that nobody seems to do: what was wished and not heeded,
        whose node is gone, who left a copy on a node that is back, who was not heard of.

        Who takes a node's lease away rouses all that it carried. Until that has had its time they
        are not neglected, and to rouse them once more would be in their way."""
        present = await moment(session)
        open_ = InstanceRow.closed.is_(False)
        unheeded = (InstanceRow.heeded.is_(False)) & (InstanceRow.heard < present - patience)
        unheard = or_(unheeded, InstanceRow.heard < present - UNHEARD)
        waiting = select(InstanceRow.uid).where(open_, unheard).order_by(InstanceRow.heard)
        silent = NodeRow.heard < present - self._lost - patience
        homeless = (
            select(InstanceRow.uid)
            .join(NodeRow, NodeRow.id == InstanceRow.node)
            .where(open_, NodeRow.phase.in_(AWAY), silent)
        )
        due = or_(PlacementRow.waits_until.is_(None), PlacementRow.waits_until <= present)
        leftovers = (
            select(PlacementRow.uid)
            .join(NodeRow, NodeRow.id == PlacementRow.node)
            .where(PlacementRow.left.is_(True), NodeRow.phase.in_(LIVING), due)
        )
        found: dict[str, None] = {}
        for query in (homeless, leftovers, waiting):
            found.update(dict.fromkeys(await session.scalars(query.limit(limit))))
        return [InstanceUid(uid) for uid in list(found)[:limit]]

    @reading
    async def draining(self, session: AsyncSession) -> list[str]:
        """The nodes that are being emptied."""
        query = select(NodeRow.id).where(NodeRow.drain_until.is_not(None)).order_by(NodeRow.id)
        return list(await session.scalars(query))
