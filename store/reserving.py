"""Reserving: one transaction finds nodes for several instances, and takes what they need there.

Each is given a node by the snapshot of the fleet. Then the rows of those nodes are held, and by
them it is compared again and taken: so any number of schedulers may place at the same time, and
none of them fills a node beyond its ceiling. A node that somebody else holds is passed over while
there is another, so that schedulers do not queue up for the emptiest; all that is held is written
with few statements, as many for one instance as for thirty."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BindParameter, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.instance import InstanceSpec, Phase, Port
from domain.node import address_in
from domain.placement import DIMENSIONS, Amounts, Request, place
from store import moves
from store.fleet import NODES, Fleet, shut
from store.node_rows import HostPortRow, InstanceRow, NodeRow, PlacementRow
from store.rows import table_of

TRIES = 8
"""So often another node is looked for before the whole fleet is read anew."""

LOOSE_PORTS = range(30_000, 32_768)
"""Where a port on the host is found for those who do not mind which."""

THESE: BindParameter[Any] = bindparam("ids", expanding=True)

HELD = (
    NODES.add_columns(NodeRow.subnet, NodeRow.room_cpu, NodeRow.room_memory, NodeRow.room_disk)
    .where(NodeRow.id.in_(THESE))
    .order_by(NodeRow.id)  # whoever holds several has taken them in one order
    .with_for_update()
)
HELD_IF_FREE = HELD.with_for_update(skip_locked=True)

HERE = select(
    PlacementRow.node,
    PlacementRow.uid,
    PlacementRow.instance,
    PlacementRow.left,
    PlacementRow.ip,
    PlacementRow.workload,
).where(PlacementRow.node.in_(THESE))
"""What a reservation has to know of those who are on its node."""

_NODES = table_of(NodeRow)
TAKE = (
    update(_NODES)
    .where(_NODES.c.id == bindparam("node"))
    .values({f"taken_{name}": _NODES.c[f"taken_{name}"] + bindparam(name) for name in DIMENSIONS})
)


@dataclass(frozen=True)
class Seeker:
    """Who looks for a place."""

    row: InstanceRow
    """Held."""
    spec: InstanceSpec
    request: Request
    passed: set[str] = field(default_factory=set)
    """Nodes that turned out to be nothing for it."""

    @property
    def minds_others(self) -> bool:
        """Whether it matters what else is on a node, beyond how much room that leaves."""
        return bool(self.spec.ports or self.spec.demands.workload)


@dataclass
class Held:
    """A node whose row is held, and who is there."""

    row: Any
    """As it was when the transaction took hold of it."""
    here: list[Any] = field(default_factory=list)
    ports: dict[int, str] | None = None
    """Who has each; None: nobody has asked."""
    taken: Amounts = field(default_factory=Amounts)
    """Of it, in this transaction."""


@dataclass(frozen=True)
class Neighbour:
    """Who has come to a node in this transaction."""

    uid: str
    instance: str
    ip: str
    workload: str
    left: bool = False


class Reserving:
    """The places that one transaction gives away. `waits`: for whoever holds a node, though it may
    hold some itself; two that then wait for each other are told apart by the database."""

    def __init__(self, session: AsyncSession, fleet: Fleet, *, waits: bool = False) -> None:
        self._session = session
        self._fleet = fleet
        self._waits = waits
        self._held: dict[str, Held] = {}
        self._busy: set[str] = set()
        """Nodes that somebody else holds, or that have left."""

    async def place(self, seekers: Sequence[Seeker], *, tries: int = TRIES) -> list[Seeker]:
        """Give them their places. Returns those that were not found any."""
        without = await self._look(seekers, tries)
        if without and self._busy and not self._held:  # who holds none keeps nobody waiting
            self._busy.clear()
            best = {await self._choice(seeker) for seeker in without}
            await self._hold({node for node in best if node}, waits=True)
            without = await self._look(without, tries)
        await self._write()
        return without

    async def _look(self, seekers: Sequence[Seeker], tries: int) -> list[Seeker]:
        """Those that mind others come one by one, since each is to see the one before it."""
        groups = [[each for each in seekers if not each.minds_others]]
        groups += [[each] for each in seekers if each.minds_others]
        without: list[Seeker] = []
        for left in groups:
            for _ in range(tries):
                if not left:
                    break
                left, lost = await self._round(left)
                without += lost
            without += left
        return without

    async def _round(self, seekers: Iterable[Seeker]) -> tuple[list[Seeker], list[Seeker]]:
        """Give places to those that there is one for. Those who have to look again, and those for
        whom there is nothing to look at any more."""
        chosen, again, lost = [], [], []
        for seeker in seekers:
            if (node := await self._choice(seeker)) is None:
                lost.append(seeker)
            else:
                self._fleet.took(node, seeker.spec.limit)
                chosen.append((seeker, node))
        await self._hold({node for _, node in chosen}, waits=self._waits)
        for seeker, node in chosen:
            held = self._held.get(node)
            if held is None:
                again.append(seeker)
                continue
            if not await self._give(seeker, held):
                seeker.passed.add(node)
                again.append(seeker)
            self._fleet.saw(held.row, held.taken)
        return again, lost

    async def _choice(self, seeker: Seeker) -> str | None:
        nodes = await self._fleet.nodes(self._session, seeker.request)
        if passed := self._busy | seeker.passed:
            nodes = [node for node in nodes if node.id not in passed]
        return place(seeker.request, nodes)

    async def _hold(self, ids: Set[str], *, waits: bool) -> None:
        """Hold the rows of these nodes too, and know who is there."""
        wanted = ids - set(self._held)
        if not wanted:
            return
        query = HELD if waits else HELD_IF_FREE
        with self._session.no_autoflush:  # what is not written yet is on none of these
            rows = (await self._session.execute(query, {"ids": list(wanted)})).all()
            found = {row.id: Held(row) for row in rows}
            for each in await self._session.execute(HERE, {"ids": list(found)}):
                found[each.node].here.append(each)
        self._held |= found
        self._busy |= wanted - set(found)

    async def _give(self, seeker: Seeker, held: Held) -> bool:
        """Take what it needs of a node that is held, unless it is not there."""
        row, spec, demands = seeker.row, seeker.spec, seeker.spec.demands
        if not _has_room(held, spec.limit):
            return False
        older = {each.uid for each in held.here if each.left and each.instance == row.id}
        here = [each for each in held.here if each.uid not in older]
        ip = address_in(held.row.subnet or "", {each.ip for each in here}, spec.ip)
        ports = await self._ports(seeker, held, older)
        copies = sum(each.workload == demands.workload and not each.left for each in here)
        crowded = bool(demands.most_per_node and copies >= demands.most_per_node)
        if ip is None or ports is None or crowded:
            return False
        for uid in older:
            left = await self._session.get(PlacementRow, (held.row.id, uid))
            if left is not None:
                await moves.forget(self._session, left)  # its agent removes it for the newer one
        self._take(seeker, held, ip, ports)
        came = Neighbour(uid=row.uid, instance=row.id, ip=ip, workload=demands.workload)
        held.here = [*here, came]
        return True

    async def _ports(self, seeker: Seeker, held: Held, older: Set[str]) -> tuple[Port, ...] | None:
        """The ports of the host that it gets. Older copies of it give theirs up."""
        if not seeker.spec.ports:
            return ()
        if held.ports is None:
            own = select(HostPortRow.port, HostPortRow.uid).where(HostPortRow.node == held.row.id)
            held.ports = dict((await self._session.execute(own)).all())
        kept = {port: uid for port, uid in held.ports.items() if uid not in older}
        ports = ports_for(seeker.spec.ports, set(kept))
        if ports is not None:
            held.ports = kept | {port.source: seeker.row.uid for port in ports}
        return ports

    def _take(self, seeker: Seeker, held: Held, ip: str, ports: Sequence[Port]) -> None:
        row, node, limit = seeker.row, held.row.id, seeker.spec.limit
        held.taken += limit
        row.node = node
        row.incarnation += 1
        row.taken_up = row.parked = False
        self._session.add_all(HostPortRow(node=node, port=p.source, uid=row.uid) for p in ports)
        self._session.add(_placement(row, seeker.spec, ip, ports))
        moves.decide(row)
        row.heeded = True  # the workflow itself is at it
        moves.move(self._session, row, Phase.SCHEDULED, f"scheduled on {node}")

    async def _write(self) -> None:
        """Count what was taken of each node."""
        took = [
            {"node": id, **held.taken.model_dump()}
            for id, held in self._held.items()
            if held.taken != Amounts()
        ]
        if took:
            await self._session.execute(TAKE, took)


def _has_room(held: Held, wanted: Amounts) -> bool:
    """Whether the node takes anything, and that much. Whoever wants none of something is content,
    however overcommitted it is."""
    row = held.row
    if shut(row.phase, cordoned=row.cordoned, draining=row.drain_until is not None):
        return False
    return all(
        getattr(row, f"room_{name}") - getattr(row, f"taken_{name}")
        >= getattr(held.taken, name) + getattr(wanted, name)
        for name in DIMENSIONS
        if getattr(wanted, name)
    )


def ports_for(wanted: Sequence[Port], taken: set[int]) -> tuple[Port, ...] | None:
    """The ports with a source for each of them; None if one that is wanted is taken."""
    asked = {port.source for port in wanted if port.source}
    if taken & asked:
        return None
    free = (port for port in LOOSE_PORTS if port not in taken and port not in asked)
    found = []
    for port in wanted:
        source = port.source or next(free, 0)
        if not source:
            return None
        found.append(Port(source=source, destination=port.destination))
    return tuple(found)


def _placement(
    row: InstanceRow, spec: InstanceSpec, ip: str, ports: Sequence[Port]
) -> PlacementRow:
    return PlacementRow(
        node=row.node,
        uid=row.uid,
        instance=row.id,
        incarnation=row.incarnation,
        left=False,
        waits_until=None,
        cpu=spec.limit.cpu,
        memory=spec.limit.memory,
        disk=spec.limit.disk,
        workload=spec.demands.workload,
        ip=ip,
        ports=moves.PORTS.dump_json(tuple(ports)).decode(),
    )
