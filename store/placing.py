"""Placing: what is due for an instance, and where it goes.

Those who ask at the same time are answered together, in one transaction: a commit takes as long for
thirty as for one, and when a node is lost fifty ask."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from domain.agents import ENDED, STALE
from domain.errand import Errand, Outcome, Stumble, What
from domain.errors import Failure, Unavailable
from domain.instance import InstanceSpec, InstanceUid, Phase, Wish, outlives_node
from domain.placement import Request, Verdict, judged, refusal
from store import moves
from store.clock import moment
from store.considering import considered, locked
from store.engine import Database, Store, reading, transaction
from store.fleet import Fleet
from store.gather import Gather
from store.leaving import leave
from store.node_rows import InstanceRow, PlacementRow
from store.reserving import Reserving, Seeker

AT_ONCE = 32
"""So many are placed in one transaction at most."""

RETRIES = timedelta(seconds=5)
"""When a node is asked again that did not do as it was asked, and room is looked for again that
there was none of."""

Settled = Sequence[Errand | None]
"""What is due next for each of them; None: it has to be settled alone."""

log = structlog.get_logger()


class Placing(Store):
    def __init__(self, database: Database, fleet: Fleet) -> None:
        super().__init__(database)
        self._fleet = fleet
        self._asking: Gather[InstanceUid, Errand] = Gather(self._consider, most=AT_ONCE)
        self._seeking = self._gather(self._place_together)
        self._going = self._gather(self._leave_together)

    async def consider(self, uid: InstanceUid) -> Errand:
        """What is due for an instance now. From here on its workflow knows all that was wished."""
        return await self._asking.ask(uid)

    async def settle(self, errand: Errand) -> Errand:
        """Do what only touches our own rows, and say what is due then. On another turn it is no
        longer due, and only that is said. Those who come at the same time to be placed, or to leave
        a node, share a transaction; who comes to nothing there has one alone."""
        match errand.what:
            case What.PLACE:
                return await self._seeking.ask(errand) or await self._place_alone(errand)
            case What.LEAVE:
                return await self._going.ask(errand) or await self._leave_alone(errand)
            case _:
                return await self._end(errand)

    @transaction
    async def _consider(
        self, session: AsyncSession, uids: Sequence[InstanceUid]
    ) -> list[Errand | Exception]:
        rows = await locked(session, uids)
        due = await considered(session, rows.values())
        return [due.get(uid) or moves.unknown(uid) for uid in uids]

    @transaction
    async def _end(self, session: AsyncSession, errand: Errand) -> Errand:
        row = await moves.locked(session, errand.uid)
        if row.turn == errand.turn:
            await _end(session, row)
        return (await considered(session, [row]))[row.uid]

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
        for another, everything else is tried again later. Where there is nothing to be started
        the next copy is made, and one that is newer than we know, as after a restore, is caught up
        with."""
        errand, failure = stumble.errand, stumble.failure
        row = await moves.locked(session, errand.uid)
        if errand.what is What.CLEAN:
            placement = await session.get(PlacementRow, (errand.node, errand.uid))
            if placement is not None:
                placement.waits_until = await moment(session) + RETRIES
            return
        if row.turn != errand.turn or row.ended is not None:
            return
        moves.decide(row)
        if _is_outdated(errand.what, failure):
            await moves.anew(session, row)
        elif errand.what is What.ATTEND and not row.taken_up:
            said = f"{errand.node} refused it: {failure.message}"
            moves.avoid(row, moves.avoided(row) | {errand.node})
            await moves.release(session, row, left=True)
            moves.move(session, row, Phase.SCHEDULING, said)
        else:
            row.waits_until = await moment(session) + RETRIES

    @reading
    async def plan(self, session: AsyncSession, spec: InstanceSpec) -> list[Verdict]:
        """What every node is to such an instance now, the best first."""
        request = _request(spec, frozenset())
        await self._fleet.read(session)
        return judged(request, await self._fleet.nodes(session, request))

    def _gather(
        self, settle: Callable[[Sequence[Errand]], Awaitable[Settled]]
    ) -> "Gather[Errand, Errand | None]":
        return Gather(partial(_or_apart, settle), most=AT_ONCE)

    @transaction
    async def _leave_together(self, session: AsyncSession, errands: Sequence[Errand]) -> Settled:
        """Have all give up their nodes."""
        rows = await locked(session, [errand.uid for errand in errands])
        await leave(session, _on_turn(rows, errands))
        due = await considered(session, rows.values())
        return [due.get(errand.uid) for errand in errands]

    async def _leave_alone(self, errand: Errand) -> Errand:
        (due,) = await self._leave_together([errand])
        if due is None:
            raise moves.unknown(errand.uid)
        return due

    @transaction
    async def _place_together(self, session: AsyncSession, errands: Sequence[Errand]) -> Settled:
        """Find places for those that there clearly are some for."""
        rows = await locked(session, [errand.uid for errand in errands])
        await self._fleet.read(session, if_old=True)
        seekers = [_seeker(row) for row in _on_turn(rows, errands)]
        for each in await Reserving(session, self._fleet).place(seekers):
            del rows[each.row.uid]
        due = await considered(session, rows.values())
        return [due.get(errand.uid) for errand in errands]

    @transaction
    async def _place_alone(self, session: AsyncSession, errand: Errand) -> Errand:
        """Find one a place, by the nodes as they are, or say why there is none."""
        row = await moves.locked(session, errand.uid)
        if row.turn == errand.turn:
            await self._find(session, row)
        return (await considered(session, [row]))[row.uid]

    async def _find(self, session: AsyncSession, row: InstanceRow) -> None:
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
        row.waits_until = await moment(session) + RETRIES
        moves.avoid(row, frozenset())
        moves.move(session, row, Phase.SCHEDULING, f"waits for room: {said}")


def _is_outdated(what: What, failure: Failure) -> bool:
    """Whether only another copy than the one that was asked for can run there."""
    if what is What.START and (failure.kind == "NotFound" or failure.reason == ENDED):
        return True
    return what in (What.ATTEND, What.START) and failure.reason == STALE


async def _or_apart(
    settle: Callable[[Sequence[Errand]], Awaitable[Settled]], errands: Sequence[Errand]
) -> Settled:
    """If all come to nothing together, none is settled: each is then tried alone, and one that
    fails does not fail its neighbours."""
    try:
        return await settle(errands)
    except Unavailable:
        raise
    except Exception as error:
        if len(errands) == 1:
            raise
        log.warning("not settled together", instances=len(errands), error=repr(error))
        return [None] * len(errands)


def _on_turn(rows: Mapping[str, InstanceRow], errands: Sequence[Errand]) -> list[InstanceRow]:
    """Those for which it is still due."""
    turns = {errand.uid: errand.turn for errand in errands}
    return [row for uid, row in rows.items() if row.turn == turns[InstanceUid(uid)]]


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
