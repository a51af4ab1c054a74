"""Considering: what is due for instances now, read from their rows, for any number of them with as
many statements as for one."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errand import Errand, Leftover, Standing, What, due
from domain.instance import InstanceUid, Phase, Wish
from domain.node import AWAY, NodePhase
from store.clock import moment
from store.fleet import shut
from store.node_rows import InstanceRow, NodeRow, PlacementRow

_LOCKED = (
    select(InstanceRow)
    .where(InstanceRow.uid.in_(bindparam("uids", expanding=True)))
    .order_by(InstanceRow.uid)
    .with_for_update()
)
_LEFT = (
    select(
        PlacementRow.uid,
        PlacementRow.node,
        PlacementRow.incarnation,
        PlacementRow.waits_until,
        NodeRow.phase,
    )
    .join(NodeRow, NodeRow.id == PlacementRow.node)
    .where(PlacementRow.uid.in_(bindparam("uids", expanding=True)), PlacementRow.left.is_(True))
    .order_by(PlacementRow.node)
)
_NODES = select(NodeRow.id, NodeRow.phase, NodeRow.cordoned, NodeRow.drain_until).where(
    NodeRow.id.in_(bindparam("ids", expanding=True))
)


async def locked(session: AsyncSession, uids: Sequence[str]) -> dict[str, InstanceRow]:
    """The rows that there are, by uid, held against every other writer."""
    return {row.uid: row for row in await session.scalars(_LOCKED, {"uids": list(uids)})}


async def considered(session: AsyncSession, rows: Collection[InstanceRow]) -> dict[str, Errand]:
    """What is due for each of these, whose rows are held. From here on their workflows know all
    that was wished."""
    if not rows:
        return {}
    left: defaultdict[str, list[Leftover]] = defaultdict(list)
    for each in await session.execute(_LEFT, {"uids": [row.uid for row in rows]}):
        leftover = Leftover(
            node=each.node,
            incarnation=each.incarnation,
            within_reach=each.phase not in AWAY,
            waits_until=each.waits_until,
        )
        left[each.uid].append(leftover)
    nodes = await _nodes(session, rows)
    found, present = {}, await moment(session)
    for row in rows:
        errand = due(_standing(row, nodes.get(row.node), left[row.uid]), present)
        row.heeded, row.heard = True, present
        row.closed = errand.what is What.OVER and row.ended is not None
        found[row.uid] = errand
    return found


async def _nodes(session: AsyncSession, rows: Collection[InstanceRow]) -> Mapping[str, Any]:
    wanted = {row.node for row in rows if row.node}
    if not wanted:
        return {}
    return {node.id: node for node in await session.execute(_NODES, {"ids": list(wanted)})}


def _standing(row: InstanceRow, node: Any, leftovers: Sequence[Leftover]) -> Standing:
    return Standing(
        uid=InstanceUid(row.uid),
        phase=Phase(row.phase),
        wish=Wish(row.wish),
        turn=row.turn,
        node=row.node,
        incarnation=row.incarnation,
        node_away=node is None or node.phase in AWAY,
        node_goes=node is not None and node.phase == NodePhase.STOPPING,
        node_shut=node is not None and bool(shut_for(node)),
        taken_up=row.taken_up,
        parked=row.parked,
        evicted=row.evicted,
        waits_until=row.waits_until,
        leftovers=tuple(leftovers),
    )


def shut_for(node: Any) -> str:
    """Why nothing may be placed on the node of a row, in a word."""
    return shut(node.phase, cordoned=node.cordoned, draining=node.drain_until is not None)
