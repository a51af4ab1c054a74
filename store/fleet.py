"""The fleet as placement sees it: all nodes at one moment, kept for two seconds.

Whoever places hundreds of instances a second cannot read a thousand rows for each. So a snapshot is
shared, and what is placed meanwhile is added to it. It may be wrong: a reservation compares again
when it is written, and nobody is refused before the nodes were read anew."""

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.node import NodePhase
from domain.placement import Amounts, Node, Request
from store.labels import labels_of
from store.node_rows import HostPortRow, NodeRow, PlacementRow

SNAPSHOT_SECONDS = 2.0
NOTHING = Amounts()

NODES = select(
    NodeRow.id,
    NodeRow.phase,
    NodeRow.cordoned,
    NodeRow.drain_until,
    NodeRow.pool,
    NodeRow.labels,
    NodeRow.ceiling,
    NodeRow.limit_cpu,
    NodeRow.limit_memory,
    NodeRow.limit_disk,
    NodeRow.taken_cpu,
    NodeRow.taken_memory,
    NodeRow.taken_disk,
).where(NodeRow.phase != NodePhase.GONE)

FIXED = 10
"""So many of its columns, the first ones, placing does not change."""


class Fleet:
    def __init__(self, *, snapshot_seconds: float = SNAPSHOT_SECONDS) -> None:
        self._snapshot_seconds = snapshot_seconds
        self._nodes: dict[str, Node] = {}
        self._fixed: dict[str, tuple[Any, ...]] = {}
        """What each was made of, but for what is taken of it."""
        self._read_at = float("-inf")

    async def read(self, session: AsyncSession, *, if_old: bool = False) -> None:
        """Take a new snapshot; `if_old`: only if this one is. Nodes that are as they were stay."""
        if if_old and monotonic() - self._read_at < self._snapshot_seconds:
            return
        self._nodes = {row.id: self._known(row) for row in await session.execute(NODES)}
        self._read_at = monotonic()

    async def nodes(self, session: AsyncSession, request: Request) -> Sequence[Node]:
        """Every node there is, with as much of it as the request asks about."""
        known = self._nodes
        if request.ports or request.demands.workload:
            known = dict(known)
        if request.ports:
            for id, ports in (await _taken(session, request)).items():
                if id in known:
                    known[id] = replace(known[id], ports=ports)
        if request.demands.workload:
            for id, copies in (await _copies(session, request.demands.workload)).items():
                if id in known:
                    known[id] = replace(known[id], copies={request.demands.workload: copies})
        return list(known.values())

    def took(self, id: str, limit: Amounts) -> None:
        """Remember what was just reserved there."""
        if node := self._nodes.get(id):
            self._nodes[id] = replace(node, reserved=node.reserved + limit)

    def saw(self, row: Any, more: Amounts) -> None:
        """Remember a node as its row was just read, and what was taken of it since."""
        self._nodes[row.id] = self._known(row, more)

    def _known(self, row: Any, more: Amounts = NOTHING) -> Node:
        """The node of a row, as it was if the row is."""
        reserved = Amounts(
            cpu=row.taken_cpu + more.cpu,
            memory=row.taken_memory + more.memory,
            disk=row.taken_disk + more.disk,
        )
        fixed, node = tuple(row[:FIXED]), self._nodes.get(row.id)
        if node is None or self._fixed.get(row.id) != fixed:
            self._fixed[row.id] = fixed
            return _node(row, reserved)
        return node if node.reserved == reserved else replace(node, reserved=reserved)


async def _taken(session: AsyncSession, request: Request) -> dict[str, frozenset[int]]:
    """Which of the wanted ports are taken, by node. Those of an older copy of the same instance
    count as free: it gives way."""
    rows = await session.execute(
        select(HostPortRow.node, HostPortRow.port)
        .join(
            PlacementRow,
            (PlacementRow.node == HostPortRow.node) & (PlacementRow.uid == HostPortRow.uid),
        )
        .where(
            HostPortRow.port.in_(sorted(request.ports)),
            ~(PlacementRow.left.is_(True) & (PlacementRow.instance == request.instance)),
        )
    )
    taken: dict[str, set[int]] = {}
    for node, port in rows:
        taken.setdefault(node, set()).add(port)
    return {node: frozenset(ports) for node, ports in taken.items()}


async def _copies(session: AsyncSession, workload: str) -> dict[str, int]:
    rows = await session.execute(
        select(PlacementRow.node, func.count())
        .where(PlacementRow.workload == workload, PlacementRow.left.is_(False))
        .group_by(PlacementRow.node)
    )
    return dict(rows.all())


def _node(row: Any, reserved: Amounts) -> Node:
    return Node(
        id=row.id,
        limit=Amounts(cpu=row.limit_cpu, memory=row.limit_memory, disk=row.limit_disk),
        reserved=reserved,
        pool=row.pool,
        shut=shut(row.phase, cordoned=row.cordoned, draining=row.drain_until is not None),
        ceiling=row.ceiling,
        labels=labels_of(row.labels),
    )


def shut(phase: str, *, cordoned: bool, draining: bool) -> str:
    """Why nothing may be placed on a node, in a word."""
    if phase != NodePhase.RUNNING:
        return phase
    if draining:
        return "being drained"
    return "cordoned" if cordoned else ""
