"""Subnets of nodes: which one a node is given."""

from datetime import datetime, timedelta
from ipaddress import IPv4Network

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.node import NodePhase, lowest_free
from store.node_rows import NodeRow


async def free_subnet(
    session: AsyncSession,
    network: IPv4Network,
    present: datetime,
    lost: timedelta,
    quarantine: timedelta,
) -> str | None:
    """The lowest subnet that is free; one whose quarantine is over is taken from its last holder,
    be that gone or lost."""
    past = ((NodeRow.phase == NodePhase.GONE) & (NodeRow.subnet_until <= present)) | (
        (NodeRow.phase == NodePhase.LOST) & (NodeRow.heard <= present - lost - quarantine)
    )
    await session.execute(update(NodeRow).where(past).values(subnet=None, subnet_until=None))
    held = await session.scalars(select(NodeRow.subnet).where(NodeRow.subnet.is_not(None)))
    return lowest_free(network, {subnet for subnet in held if subnet})
