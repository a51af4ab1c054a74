"""Placing: what is due for an instance, and where it goes.

A reservation is one transaction that compares and takes: the node's row says how much is taken of
it, and it is only taken more of while there is room. So any number of schedulers may place at the
same time, each by a snapshot of its own, and none of them fills a node beyond its ceiling."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errand import Errand, Leftover, Outcome, Standing, Stumble, What, due
from domain.instance import (
    InstanceSpec,
    InstanceUid,
    Phase,
    Port,
    Wish,
    outlives_node,
)
from domain.node import AWAY, NodePhase, address_in
from domain.placement import Amounts, Request, Verdict, judged, ranked, refusal
from store import moves
from store.engine import Database, Store, reading, transaction
from store.fleet import Fleet, shut
from store.node_rows import HostPortRow, InstanceRow, NodeRow, PlacementRow
from store.rows import now

TRIES = 8
"""So many nodes are tried that turn out to be full before the whole fleet is read anew."""

RETRIES = timedelta(seconds=5)
"""When a node is asked again that did not do as it was asked, and room is looked for again that
there was none of."""

LOOSE_PORTS = range(30_000, 32_768)
"""Where a port on the host is found for those who do not mind which."""


HERE = select(
    PlacementRow.uid,
    PlacementRow.instance,
    PlacementRow.left,
    PlacementRow.ip,
    PlacementRow.workload,
)
"""What a reservation has to know of those who are on its node."""


class Placing(Store):
    def __init__(self, database: Database, fleet: Fleet) -> None:
        super().__init__(database)
        self._fleet = fleet

    @transaction
    async def consider(self, session: AsyncSession, uid: InstanceUid) -> Errand:
        """What is due for an instance now. From here on its workflow knows all that was wished."""
        row = await moves.locked(session, uid)
        standing = await _standing(session, row)
        errand = due(standing, now())
        row.heeded = True
        row.heard = now()
        row.closed = errand.what is What.OVER and row.ended is not None
        return errand

    @transaction
    async def settle(self, session: AsyncSession, errand: Errand) -> None:
        """Do what only touches our own rows. On another turn it is no longer due."""
        row = await moves.locked(session, errand.uid)
        if row.turn != errand.turn:
            return
        match errand.what:
            case What.PLACE:
                await self._place(session, row)
            case What.LEAVE:
                await _leave(session, row)
            case _:
                await _end(session, row)

    @transaction
    async def done(self, session: AsyncSession, outcome: Outcome) -> None:
        """Book what a node has done."""
        errand, kept = outcome.errand, outcome.kept
        row = await moves.locked(session, errand.uid)
        if errand.what is What.CLEAN:
            await _cleaned(session, row, errand)
            return
        if row.turn != errand.turn or row.ended is not None:
            return
        match errand.what:
            case What.STOP:
                moves.decide(row)
                if not kept:
                    await moves.anew(session, row)
                row.parked = kept
                moves.move(session, row, Phase.STOPPED, "stopped")
            case What.START:
                moves.decide(row)
                row.parked, row.taken_up = False, True
            case What.DESTROY:
                await moves.release(session, row, left=False)
                await moves.over(session, row, Phase.TERMINATED, "destroyed")
            case What.MOVE:
                await _moved(session, row)

    @transaction
    async def stumbled(self, session: AsyncSession, stumble: Stumble) -> None:
        """Book that a node did not do as it was asked: one that never took an instance up is left
        for another, everything else is tried again later."""
        errand, failure = stumble.errand, stumble.failure
        row = await moves.locked(session, errand.uid)
        if errand.what is What.CLEAN:
            placement = await session.get(PlacementRow, (errand.node, errand.uid))
            if placement is not None:
                placement.waits_until = now() + RETRIES
            return
        if row.turn != errand.turn or row.ended is not None:
            return
        moves.decide(row)
        if errand.what is What.ATTEND and not row.taken_up:
            said = f"{errand.node} refused it: {failure.message}"
            moves.avoid(row, moves.avoided(row) | {errand.node})
            await moves.release(session, row, left=True)
            moves.move(session, row, Phase.SCHEDULING, said)
        elif errand.what is What.START and failure.kind == "NotFound":
            await moves.anew(session, row)
        else:
            row.waits_until = now() + RETRIES

    @reading
    async def plan(self, session: AsyncSession, spec: InstanceSpec) -> list[Verdict]:
        """What every node is to such an instance now, the best first."""
        request = _request(spec, frozenset())
        return judged(request, await self._fleet.nodes(session, request, fresh=True))

    async def _place(self, session: AsyncSession, row: InstanceRow) -> None:
        spec = moves.spec_of(row)
        request = _request(spec, moves.avoided(row))
        for fresh in (False, True):
            nodes = await self._fleet.nodes(session, request, fresh=fresh)
            for tries, node in enumerate(ranked(request, nodes)):
                if await _reserve(session, row, spec, node):
                    self._fleet.took(node, spec.limit)
                    moves.decide(row)
                    row.heeded = True  # the workflow itself is at it
                    moves.move(session, row, Phase.SCHEDULED, f"scheduled on {node}")
                    return
                self._fleet.shun(node)
                if tries == TRIES and not fresh:
                    break
        said = refusal(judged(request, nodes))
        if not (row.has_run and outlives_node(spec.restart)):
            await moves.over(session, row, Phase.FAILED, said)
            return
        moves.decide(row)
        row.heeded = True
        row.waits_until = now() + RETRIES
        moves.avoid(row, frozenset())
        moves.move(session, row, Phase.SCHEDULING, f"waits for room: {said}")


def _request(spec: InstanceSpec, avoid: frozenset[str]) -> Request:
    return Request(
        instance=spec.id,
        limit=spec.limit,
        ports=frozenset(port.source for port in spec.ports if port.source),
        ip=spec.ip,
        demands=spec.demands,
        policy=spec.policy,
        avoid=avoid,
    )


async def _standing(session: AsyncSession, row: InstanceRow) -> Standing:
    placed = await session.execute(
        select(PlacementRow, NodeRow.phase)
        .join(NodeRow, NodeRow.id == PlacementRow.node)
        .where(PlacementRow.uid == row.uid, PlacementRow.left.is_(True))
    )
    leftovers = tuple(
        Leftover(
            node=placement.node,
            incarnation=placement.incarnation,
            within_reach=phase not in AWAY,
            waits_until=placement.waits_until,
        )
        for placement, phase in placed
    )
    node = await session.get(NodeRow, row.node) if row.node else None
    return Standing(
        uid=InstanceUid(row.uid),
        phase=Phase(row.phase),
        wish=Wish(row.wish),
        turn=row.turn,
        node=row.node,
        incarnation=row.incarnation,
        node_away=node is None or node.phase in AWAY,
        node_shut=node is not None and bool(_shut(node)),
        taken_up=row.taken_up,
        parked=row.parked,
        evicted=row.evicted,
        waits_until=row.waits_until,
        leftovers=leftovers,
    )


def _shut(node: NodeRow) -> str:
    return shut(node.phase, cordoned=node.cordoned, draining=node.drain_until is not None)


async def _leave(session: AsyncSession, row: InstanceRow) -> None:
    """Give up a node that is gone, or one that takes nothing new before it has taken this up."""
    node, phase, wish = row.node, Phase(row.phase), Wish(row.wish)
    gone = await session.get(NodeRow, node)
    why = f"{node} is {gone.phase if gone else 'gone'}"
    if wish is Wish.DESTROY:
        await moves.over(session, row, Phase.TERMINATED, f"destroyed; {why}")
        return
    stays = outlives_node(moves.spec_of(row).restart) or wish is Wish.STOP
    if gone is not None and gone.phase not in AWAY and not row.taken_up:
        stays = True  # it is refused by a node, which is no end of it
    if not stays:
        await moves.over(session, row, Phase.TERMINATED, f"Node is terminated: {why}")
        return
    await moves.release(session, row, left=True)
    moves.decide(row)
    if wish is Wish.STOP:
        moves.move(session, row, Phase.STOPPED, f"{why}, and what it ran in with it")
        return
    row.running_since = None
    moves.avoid(row, frozenset())
    if phase is not Phase.SCHEDULING:
        moves.move(session, row, Phase.SCHEDULING, why)


async def _end(session: AsyncSession, row: InstanceRow) -> None:
    """Do as was wished of an instance that is on no node."""
    if row.wish == Wish.DESTROY:
        await moves.over(session, row, Phase.TERMINATED, "destroyed")
        return
    moves.decide(row)
    moves.move(session, row, Phase.STOPPED, "stopped")


async def _moved(session: AsyncSession, row: InstanceRow) -> None:
    node = row.node
    await moves.release(session, row, left=False)
    moves.decide(row)
    row.running_since = None
    moves.avoid(row, frozenset())
    if row.wish == Wish.RUN:
        moves.move(session, row, Phase.SCHEDULING, f"moved away from {node}")


async def _cleaned(session: AsyncSession, row: InstanceRow, errand: Errand) -> None:
    placement = await session.get(PlacementRow, (errand.node, row.uid))
    if placement is not None and placement.left and placement.incarnation == errand.incarnation:
        await moves.forget(session, placement)


async def _reserve(session: AsyncSession, row: InstanceRow, spec: InstanceSpec, node: str) -> bool:
    """Take what the instance needs of the node, unless it is not there any more."""
    subnet = await _take(session, node, spec.limit)
    if subnet is None:
        return False
    here = list(await session.execute(HERE.where(PlacementRow.node == node)))
    older = [each.uid for each in here if each.left and each.instance == row.id]
    here = [each for each in here if each.uid not in older]
    ip = address_in(subnet, {each.ip for each in here}, spec.ip)
    ports = await _ports(session, spec.ports, node, older)
    demands = spec.demands
    copies = sum(each.workload == demands.workload and not each.left for each in here)
    crowded = bool(demands.most_per_node and copies >= demands.most_per_node)
    if ip is None or ports is None or crowded:
        await _take(session, node, spec.limit, sign=-1)
        return False
    for uid in older:
        left = await session.get(PlacementRow, (node, uid))
        if left is not None:
            await moves.forget(session, left)  # its agent removes it for the newer one
    row.node = node
    row.incarnation += 1
    row.taken_up = row.parked = False
    session.add_all(HostPortRow(node=node, port=port.source, uid=row.uid) for port in ports)
    session.add(_placement(row, spec, ip, ports))
    return True


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


async def _take(session: AsyncSession, node: str, wanted: Amounts, *, sign: int = 1) -> str | None:
    """Count more as taken, or less again. The node's subnet; None if there is no room for it, or
    the node takes nothing."""
    more = {
        "taken_cpu": NodeRow.taken_cpu + sign * wanted.cpu,
        "taken_memory": NodeRow.taken_memory + sign * wanted.memory,
        "taken_disk": NodeRow.taken_disk + sign * wanted.disk,
    }
    query = update(NodeRow).where(NodeRow.id == node).values(more)
    if sign > 0:
        query = query.where(
            NodeRow.phase == NodePhase.RUNNING,
            NodeRow.cordoned.is_(False),
            NodeRow.drain_until.is_(None),
            *(
                room >= taken
                for room, taken, asked in (
                    (NodeRow.room_cpu, more["taken_cpu"], wanted.cpu),
                    (NodeRow.room_memory, more["taken_memory"], wanted.memory),
                    (NodeRow.room_disk, more["taken_disk"], wanted.disk),
                )
                if asked
            ),
        )
    taking = query.returning(NodeRow.subnet).execution_options(synchronize_session=False)
    taken = (await session.execute(taking)).first()
    return (taken[0] or "") if taken is not None else None


async def _ports(
    session: AsyncSession, wanted: Sequence[Port], node: str, but: Sequence[str]
) -> tuple[Port, ...] | None:
    """The ports with a source for each of them; None if one that is wanted is taken, unless by
    these, which give way."""
    if not wanted:
        return ()
    asked = [port.source for port in wanted if port.source]
    loose = HostPortRow.port.between(LOOSE_PORTS.start, LOOSE_PORTS.stop)
    taken = set(
        await session.scalars(
            select(HostPortRow.port).where(
                HostPortRow.node == node,
                HostPortRow.uid.not_in(but),
                or_(HostPortRow.port.in_(asked), loose),
            )
        )
    )
    if taken & set(asked):
        return None
    free = (port for port in LOOSE_PORTS if port not in taken and port not in asked)
    found = []
    for port in wanted:
        source = port.source or next(free, 0)
        if not source:
            return None
        found.append(Port(source=source, destination=port.destination))
    return tuple(found)
