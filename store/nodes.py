"""Nodes: registered, heard of, given up for lost, and emptied.

A node lives by a lease: whatever it says renews it, and one that is silent for too long is lost,
whoever notices. All times of nodes are those of the database's clock (`store/clock.py`). What ran
there is then its instances' own business: each has a workflow, which finds its node gone."""

import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from pydantic import Field
from sqlalchemy import bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.agents import Copy
from domain.errors import Conflict, Invalid, NotFound
from domain.frozen import Frozen
from domain.instance import InstanceUid
from domain.node import (
    AWAY,
    HEARD,
    LIVING,
    Candidate,
    NodePhase,
    NodeView,
    Registered,
    Said,
    Welcome,
    network,
)
from domain.placement import CEILING, Amounts, below
from store.clock import Reading, moment
from store.engine import Database, Store, reading, transaction
from store.labels import labels_of, written
from store.node_rows import InstanceRow, NodeRow, PlacementRow
from store.rows import now, table_of
from store.subnets import free_subnet


class Leases(Frozen):
    """How nodes live, as the operator has it."""

    suspect: timedelta = timedelta(seconds=5)
    lost: timedelta = timedelta(seconds=15)
    subnets: str = "10.64.0.0/12"
    quarantine: timedelta = timedelta(minutes=5)
    """How long nobody else is given the subnet of a node that has left."""
    ceiling: float = CEILING
    """The share of a node that may be taken."""
    ceilings: dict[str, float] = Field(default_factory=dict)
    """The same by pool, where it is another."""
    largest: Amounts = Amounts(cpu=512_000, memory=8_000_000, disk=1_000_000)
    """What a node may have at most: what it says beyond that is not believed."""
    per_user: int = 256
    """How many nodes one registrar may have that were not decided about one by one."""


class Beat(Frozen):
    """That a node is heard of, with nothing new but what it uses."""

    node: str
    used: Amounts
    heard: float
    """When that was, which is before it is written down, by this machine's monotonic time."""


class Nodes(Store):
    def __init__(self, database: Database, leases: Leases) -> None:
        super().__init__(database)
        self._leases = leases
        self._network = network(leases.subnets)

    @transaction
    async def register(self, session: AsyncSession, who: Candidate) -> Registered:
        """Take a node in, or back. The same one again is given what it had."""
        row = await session.get(NodeRow, who.id, with_for_update=True)
        present = await moment(session)
        if row is not None and (no := self._refused(row, who, present)) is not None:
            return no
        if (no := await self._too_many(session, row, who)) is not None:
            return no
        kept = row.subnet if row is not None else None
        rests = self._leases.lost, self._leases.quarantine
        subnet = kept or await free_subnet(session, self._network, present, *rests)
        if subnet is None:
            says = f"no subnet left in {self._leases.subnets}"
            return Registered(outcome=Welcome.NO_SUBNET, says=says)
        if row is None:
            row = _row(who)
            session.add(row)
        row.subnet, row.subnet_until = subnet, None
        row.phase, row.says = NodePhase.STARTING, ""
        row.address, row.fingerprint = who.address, who.fingerprint
        row.registrar = who.registrar
        row.ceiling = self._leases.ceilings.get(who.pool, self._leases.ceiling)
        row.pool, row.labels, row.runtime = who.pool, written(who.labels), who.runtime
        row.heard = present
        welcome = "Welcome to the cluster"
        return Registered(outcome=Welcome.WELCOME, says=welcome, subnet=subnet)

    @transaction
    async def hear(
        self,
        session: AsyncSession,
        node: str,
        said: Said,
        says: str,
        limit: Amounts | None,
        used: Amounts,
    ) -> None:
        """Take in what a node says of itself. NotFound if it is not registered."""
        row = await session.get(NodeRow, node, with_for_update=True)
        if row is None or row.phase == NodePhase.GONE or row.subnet is None:
            raise _unknown(node, "register first")
        if said is Said.RUNNING and limit is None:
            raise Invalid(
                f"node {node} says that it is RUNNING and not with how much",
                subject=node,
                reason="NODE_WITHOUT_LIMIT",
                do="send resource.limit with every RUNNING",
            )
        row.phase, row.says, row.heard = HEARD[said], says, await moment(session)
        if row.phase == NodePhase.GONE:
            self._gone(row, says or "Bye from the cluster", row.heard)
        if limit is not None:
            limit = _least(limit, self._leases.largest)
            row.limit_cpu, row.limit_memory, row.limit_disk = limit.cpu, limit.memory, limit.disk
            row.room_cpu = below(limit.cpu, row.ceiling)
            row.room_memory = below(limit.memory, row.ceiling)
            row.room_disk = below(limit.disk, row.ceiling)
        row.used_cpu, row.used_memory, row.used_disk = used.cpu, used.memory, used.disk

    @transaction
    async def beat(self, session: AsyncSession, beats: Sequence[Beat]) -> set[str]:
        """Renew the leases of nodes that have nothing new to say. Those that are not RUNNING any
        more, as far as we know, are in the answer: they have to be heard out."""
        if not beats:
            return set()
        table = table_of(NodeRow)
        present, passed = await moment(session), time.monotonic()
        await session.execute(
            update(table)
            .where(table.c.id == bindparam("node"), table.c.phase == NodePhase.RUNNING)
            .values(
                heard=bindparam("at"),
                used_cpu=bindparam("cpu"),
                used_memory=bindparam("memory"),
                used_disk=bindparam("disk"),
            ),
            [
                {
                    "node": beat.node,
                    "at": present - timedelta(seconds=passed - beat.heard),
                    **beat.used.model_dump(),
                }
                for beat in beats
            ],
        )
        running = await session.scalars(
            select(NodeRow.id).where(
                NodeRow.id.in_([beat.node for beat in beats]),
                NodeRow.phase == NodePhase.RUNNING,
            )
        )
        return {beat.node for beat in beats} - set(running)

    @transaction
    async def unregister(self, session: AsyncSession, node: str) -> bool:
        """Let a node go, and whether there was one."""
        row = await session.get(NodeRow, node, with_for_update=True)
        if row is None or row.phase == NodePhase.GONE:
            return False
        row.phase = NodePhase.GONE
        self._gone(row, "Bye from the cluster", await moment(session))
        return True

    @transaction
    async def free(self, session: AsyncSession, node: str) -> None:
        """Have another agent be able to register an id. Conflict while its node is there."""
        row = await session.get(NodeRow, node, with_for_update=True)
        if row is None:
            raise _unknown(node, "windlass node list --all shows those that there were")
        if row.phase in LIVING:
            raise Conflict(
                f"node {node} is there",
                subject=node,
                reason="NODE_IN_USE",
                do=f"windlass node drain {node}, then end its agent",
            )
        row.fingerprint = row.registrar = ""
        if row.phase != NodePhase.GONE:
            row.phase = NodePhase.GONE
            self._gone(row, "its id was freed", await moment(session))

    @transaction
    async def expire(self, session: AsyncSession, at: datetime | None = None) -> list[str]:
        """Give up for lost whoever has been silent for too long, as the clock stood `at`, or
        stands now. Returns who it was."""
        present = at or await moment(session)
        lost = (
            update(NodeRow)
            .where(NodeRow.phase.in_(LIVING), NodeRow.heard < present - self._leases.lost)
            .values(phase=NodePhase.LOST, says="it was not heard of any more")
            .returning(NodeRow.id)
            .execution_options(synchronize_session=False)
        )
        return list(await session.scalars(lost))

    @transaction
    async def clock(self, session: AsyncSession) -> Reading:
        """The clock by which leases are judged."""
        return await self._database.clock.read(session)

    @transaction
    async def reset(self, session: AsyncSession) -> None:
        """Have leases that were renewed before the clock was set back run from now at the
        latest."""
        present = await moment(session)
        ahead = update(NodeRow).where(NodeRow.phase.in_(LIVING), NodeRow.heard > present)
        await session.execute(ahead.values(heard=present))

    @reading
    async def next_end(self, session: AsyncSession) -> timedelta | None:
        """How long until the first lease ends that is not renewed before."""
        first = select(func.min(NodeRow.heard)).where(NodeRow.phase.in_(LIVING))
        heard = await session.scalar(first)
        return heard + self._leases.lost - await moment(session) if heard is not None else None

    @transaction
    async def cordon(self, session: AsyncSession, node: str, cordoned: bool) -> NodeView:
        """Have nothing new placed on a node, or have it again. Whoever opens a node ends its drain
        as well."""
        row = await self._held(session, node)
        row.cordoned = cordoned
        if not cordoned:
            row.drain_until = None
        return await self._shown(session, row)

    @transaction
    async def drain(self, session: AsyncSession, node: str, within: timedelta) -> NodeView:
        """Have a node emptied, by then at the latest. Asking again sets another time."""
        row = await self._held(session, node)
        row.cordoned, row.drain_until = True, await moment(session) + within
        return await self._shown(session, row)

    @reading
    async def get(self, session: AsyncSession, node: str) -> NodeView:
        row = await session.get(NodeRow, node)
        if row is None:
            raise _unknown(node, "windlass node list shows those that there are")
        return await self._shown(session, row)

    @reading
    async def runtimes(self, session: AsyncSession, nodes: Collection[str]) -> dict[str, str]:
        """What runs instances on some nodes, by their ids."""
        found = select(NodeRow.id, NodeRow.runtime).where(NodeRow.id.in_(nodes))
        return {row.id: row.runtime for row in await session.execute(found)}

    @reading
    async def find(self, session: AsyncSession, node: str) -> NodeView | None:
        """The same, if there is one."""
        row = await session.get(NodeRow, node)
        return await self._shown(session, row) if row is not None else None

    @reading
    async def all(self, session: AsyncSession, *, gone: bool = False) -> list[NodeView]:
        """Every node by its id; those that have left only on request."""
        query = select(NodeRow).order_by(NodeRow.id)
        if not gone:
            query = query.where(NodeRow.phase != NodePhase.GONE)
        counted = await session.execute(
            select(PlacementRow.node, func.count())
            .where(PlacementRow.left.is_(False))
            .group_by(PlacementRow.node)
        )
        counts = dict(counted.all())
        rows = await session.scalars(query)
        present = await moment(session)
        return [self._view(row, counts.get(row.id, 0), present) for row in rows]

    @reading
    async def strays(
        self, session: AsyncSession, node: str, held: Sequence[Copy]
    ) -> Sequence[Copy]:
        """Which of the copies that a node has are nobody's: newer than any that is known there. Of
        an instance that is placed there a newer one is its own, and it goes on from that."""
        kept = PlacementRow.instance, PlacementRow.incarnation, PlacementRow.left
        rows = (await session.execute(select(*kept).where(PlacementRow.node == node))).all()
        placed = {instance for instance, _, left in rows if not left}
        known: dict[str, int] = {}
        for instance, incarnation, _ in rows:
            known[instance] = max(incarnation, known.get(instance, 0))
        return [
            copy
            for copy in held
            if copy.instance not in placed and copy.incarnation > known.get(copy.instance, 0)
        ]

    @reading
    async def affected(self, session: AsyncSession, nodes: Sequence[str]) -> list[InstanceUid]:
        """Whoever has, or left, a copy on any of these nodes."""
        query = select(PlacementRow.uid).where(PlacementRow.node.in_(nodes)).distinct()
        return [InstanceUid(uid) for uid in await session.scalars(query)]

    def _refused(self, row: NodeRow, who: Candidate, present: datetime) -> Registered | None:
        """Why a node that is known cannot be taken for this one."""
        same_key = row.fingerprint == who.fingerprint
        alive = row.phase in LIVING and present - row.heard < self._leases.lost
        if alive and (not same_key or row.address != who.address):
            with_ = f"another {'address' if same_key else 'key'}"
            says = f"{who.id} is in use by a live node with {with_}"
            return Registered(outcome=Welcome.IN_USE, says=says)
        if not same_key and row.phase != NodePhase.GONE:
            says = f"{who.id} was registered with another key, and has not unregistered"
            return Registered(outcome=Welcome.BAD_CERTIFICATE, says=says)
        return None

    async def _too_many(
        self, session: AsyncSession, row: NodeRow | None, who: Candidate
    ) -> Registered | None:
        """Why a registrar may have no further node. Those count that hold a subnet."""
        if not who.registrar or (row is not None and row.subnet and row.registrar == who.registrar):
            return None
        mine = (NodeRow.registrar == who.registrar) & NodeRow.subnet.is_not(None)
        count = await session.scalar(select(func.count()).where(mine)) or 0
        if count < self._leases.per_user:
            return None
        says = f"{who.registrar} has {count} nodes, and may have no more (WINDLASS_NODES__PER_USER)"
        return Registered(outcome=Welcome.NO_SUBNET, says=says)

    async def _held(self, session: AsyncSession, node: str) -> NodeRow:
        """The row of a node that has not left, locked."""
        row = await session.get(NodeRow, node, with_for_update=True)
        if row is None:
            raise _unknown(node, "windlass node list shows those that there are")
        if row.phase == NodePhase.GONE:
            raise Conflict(
                f"node {node} has left",
                subject=node,
                reason="NODE_GONE",
                do="start its agent again, which registers it",
            )
        return row

    def _gone(self, row: NodeRow, says: str, present: datetime) -> None:
        row.says = says
        row.cordoned, row.drain_until = False, None
        row.subnet_until = present + self._leases.quarantine

    async def _shown(self, session: AsyncSession, row: NodeRow) -> NodeView:
        return self._view(row, await _instances(session, row.id), await moment(session))

    def _view(self, row: NodeRow, instances: int, present: datetime) -> NodeView:
        silent = present - row.heard
        return NodeView(
            id=row.id,
            phase=NodePhase(row.phase),
            says=row.says,
            pool=row.pool,
            address=row.address,
            subnet=row.subnet or "",
            runtime=row.runtime,
            labels=labels_of(row.labels),
            cordoned=row.cordoned,
            draining=row.drain_until is not None,
            suspect=row.phase not in AWAY and silent > self._leases.suspect,
            heard=now() - silent,
            limit=Amounts(cpu=row.limit_cpu, memory=row.limit_memory, disk=row.limit_disk),
            reserved=Amounts(cpu=row.taken_cpu, memory=row.taken_memory, disk=row.taken_disk),
            used=Amounts(cpu=row.used_cpu, memory=row.used_memory, disk=row.used_disk),
            instances=instances,
        )


def _row(who: Candidate) -> NodeRow:
    nothing = {
        f"{kind}_{name}": 0
        for kind in ("limit", "room", "taken", "used")
        for name in Amounts.model_fields
    }
    return NodeRow(id=who.id, cordoned=False, drain_until=None, **nothing)


def _least(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(
        cpu=min(one.cpu, other.cpu),
        memory=min(one.memory, other.memory),
        disk=min(one.disk, other.disk),
    )


def _unknown(node: str, do: str) -> NotFound:
    return NotFound(f"there is no node {node}", subject=node, reason="NODE_NOT_REGISTERED", do=do)


async def _instances(session: AsyncSession, node: str) -> int:
    here = select(func.count()).where(InstanceRow.node == node)
    return await session.scalar(here) or 0
