"""Draining: a node is emptied, a few instances at a time."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errand import Emptying
from domain.instance import InstanceUid, Phase, Wish, outlives_node
from store import moves
from store.clock import moment
from store.engine import Store, transaction
from store.node_rows import InstanceRow, NodeRow

AT_ONCE = 8
"""So many leave a node at the same time."""


class Draining(Store):
    @transaction
    async def step(self, session: AsyncSession, node: str) -> Emptying:
        """Tell the next ones to leave: those that may run elsewhere, or are stopped and stay so,
        and once the node's time is up all that are left, which end there. Asking again tells those
        that were not told yet."""
        row = await session.get(NodeRow, node)
        if row is None or row.drain_until is None:
            return Emptying(over=True)
        held = await session.scalars(
            select(InstanceRow)
            .where(InstanceRow.node == node)
            .order_by(InstanceRow.uid)  # whoever holds several has taken them in one order
            .with_for_update()
        )
        here = sorted(held, key=lambda each: each.id)
        if not here:
            row.drain_until, row.says = None, "drained"
            return Emptying(over=True)
        left = (row.drain_until - await moment(session)).total_seconds()
        overdue = left <= 0
        room = AT_ONCE - sum(each.evicted for each in here)
        told = []
        for each in here:
            if each.evicted or each.wish == Wish.DESTROY:
                continue
            if each.wish == Wish.STOP or outlives_node(moves.spec_of(each).restart):
                if room <= 0:
                    continue
                room -= 1
                each.evicted = True
                moves.decide(each)
            elif overdue:
                each.wish = Wish.DESTROY
                moves.decide(each)
                moves.move(session, each, Phase.DESTROYING, f"its node {node} is drained")
            else:
                continue
            told.append(InstanceUid(each.uid))
        return Emptying(left=len(here), told=tuple(told), until=row.drain_until, in_seconds=left)
