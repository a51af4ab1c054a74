"""Placing: what is due for an instance, and where it goes.

Those who are to be placed at the same time are placed together, in one transaction: a commit takes
as long for thirty as for one."""

from collections.abc import Sequence
from datetime import timedelta

import structlog
from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errand import Errand, Leftover, Outcome, Standing, Stumble, What, due
from domain.errors import Unavailable
from domain.instance import InstanceSpec, InstanceUid, Phase, Wish, outlives_node
from domain.node import AWAY
from domain.placement import Request, Verdict, judged, refusal
from store import moves
from store.engine import Database, Store, reading, transaction
from store.fleet import Fleet, shut
from store.gather import Gather
from store.node_rows import InstanceRow, NodeRow, PlacementRow
from store.reserving import Reserving, Seeker
from store.rows import now

AT_ONCE = 32
"""So many are placed in one transaction at most."""

RETRIES = timedelta(seconds=5)
"""When a node is asked again that did not do as it was asked, and room is looked for again that
there was none of."""

LOCKED = (
    select(InstanceRow)
    .where(InstanceRow.uid.in_(bindparam("uids", expanding=True)))
    .order_by(InstanceRow.uid)
    .with_for_update()
)

log = structlog.get_logger()


class Placing(Store):
    def __init__(self, database: Database, fleet: Fleet) -> None:
        super().__init__(database)
        self._fleet = fleet
        self._together: Gather[Errand, bool] = Gather(self._places, most=AT_ONCE)

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

    async def settle(self, errand: Errand) -> None:
        """Do what only touches our own rows. On another turn it is no longer due. Those who come at
        the same time to be placed share a transaction; who finds no place there has one alone."""
        if errand.what is not What.PLACE:
            await self._settle(errand)
        elif not await self._together.ask(errand):
            await self._place_alone(errand)

    @transaction
    async def _settle(self, session: AsyncSession, errand: Errand) -> None:
        row = await moves.locked(session, errand.uid)
        if row.turn != errand.turn:
            return
        if errand.what is What.LEAVE:
            await _leave(session, row)
        else:
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
        await self._fleet.read(session)
        return judged(request, await self._fleet.nodes(session, request))

    async def _places(self, errands: Sequence[Errand]) -> list[bool]:
        """Whether each is settled. If all come to nothing together, none is: each is then tried
        alone, and one that fails does not fail its neighbours."""
        try:
            return await self._place_together(errands)
        except Unavailable:
            raise
        except Exception as error:
            if len(errands) == 1:
                raise
            log.warning("not placed together", instances=len(errands), error=repr(error))
            return [False] * len(errands)

    @transaction
    async def _place_together(self, session: AsyncSession, errands: Sequence[Errand]) -> list[bool]:
        """Find places for those that there clearly are some for."""
        uids = [errand.uid for errand in errands]
        rows = {row.uid: row for row in await session.scalars(LOCKED, {"uids": uids})}
        turns = {errand.uid: errand.turn for errand in errands}
        await self._fleet.read(session, if_old=True)
        due = [_seeker(row) for uid, row in rows.items() if row.turn == turns[InstanceUid(uid)]]
        without = await Reserving(session, self._fleet).place(due)
        open = {each.row.uid for each in without} | (set(uids) - set(rows))
        return [errand.uid not in open for errand in errands]

    @transaction
    async def _place_alone(self, session: AsyncSession, errand: Errand) -> None:
        """Find one a place, by the nodes as they are, or say why there is none."""
        row = await moves.locked(session, errand.uid)
        if row.turn != errand.turn:
            return
        seeker = _seeker(row)
        await self._fleet.read(session)
        nodes = await self._fleet.nodes(session, seeker.request)
        reserving = Reserving(session, self._fleet, waits=True)
        if not await reserving.place([seeker], tries=len(nodes) + 1):
            return
        said = refusal(judged(seeker.request, nodes))
        if not (row.has_run and outlives_node(seeker.spec.restart)):
            await moves.over(session, row, Phase.FAILED, said)
            return
        moves.decide(row)
        row.heeded = True
        row.waits_until = now() + RETRIES
        moves.avoid(row, frozenset())
        moves.move(session, row, Phase.SCHEDULING, f"waits for room: {said}")


def _seeker(row: InstanceRow) -> Seeker:
    spec = moves.spec_of(row)
    return Seeker(row, spec, _request(spec, moves.avoided(row)))


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
