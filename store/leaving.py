"""Leaving: nodes that are gone, or that take nothing new, are given up by those they were given to.

When a node is lost, all that it carried leaves it at once. What was reserved there is given back in
one statement, lest they queue up for the node's row."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.instance import Phase, Wish, outlives_node
from domain.node import AWAY
from domain.placement import Amounts
from store import moves
from store.considering import shut_for
from store.node_rows import InstanceRow, NodeRow, PlacementRow

_HELD = (
    select(NodeRow.id, NodeRow.phase, NodeRow.cordoned, NodeRow.drain_until)
    .where(NodeRow.id.in_(bindparam("ids", expanding=True)))
    .order_by(NodeRow.id)  # whoever holds several has taken them in one order
    .with_for_update()
)


async def leave(session: AsyncSession, rows: Collection[InstanceRow]) -> None:
    """Have these, whose rows are held, give up their nodes. Whose node has been heard of since that
    was decided stays; the nodes are held, so none is heard of while this goes on."""
    wanted = {row.node for row in rows if row.node}
    nodes = {node.id: node for node in await session.execute(_HELD, {"ids": list(wanted)})}
    placed = await moves.placements_of(session, [row.uid for row in rows])
    freed: dict[str, Amounts] = {}
    for row in rows:
        id, node = row.node, nodes.get(row.node)
        if id and _is_to_go(row, node):
            own = await _leaves(session, row, node, placed.get(row.uid))
            freed[id] = freed.get(id, Amounts()) + own
    await moves.give_back(session, freed)


def _is_to_go(row: InstanceRow, node: Any) -> bool:
    if node is None or node.phase in AWAY:
        return True
    return not row.taken_up and bool(shut_for(node))


async def _leaves(
    session: AsyncSession, row: InstanceRow, node: Any, placement: PlacementRow | None
) -> Amounts:
    """Take one off its node. Returns what is to be given back."""
    phase, wish = Phase(row.phase), Wish(row.wish)
    why = f"{row.node} is {node.phase if node else 'gone'}"
    is_there = node is not None and node.phase not in AWAY  # it is refused, which is no end of it
    stays = is_there or outlives_node(moves.spec_of(row).restart) or wish is Wish.STOP
    freed = moves.part(row, placement)
    if wish is Wish.DESTROY:
        await moves.over(session, row, Phase.TERMINATED, f"destroyed; {why}")
    elif not stays:
        await moves.over(session, row, Phase.TERMINATED, f"Node is terminated: {why}")
    elif wish is Wish.STOP:
        moves.decide(row)
        moves.move(session, row, Phase.STOPPED, f"{why}, and what it ran in with it")
    else:
        moves.decide(row)
        row.running_since = None
        moves.avoid(row, frozenset())
        if phase is not Phase.SCHEDULING:
            moves.move(session, row, Phase.SCHEDULING, why)
    return freed
