"""Observing: what nodes say of instances, and what an agent has to be told to ask it for one.

What is said counts on the turn that it was asked in, and while the instance is wished to run: who
stops or destroys it learns from its own call how that went."""

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.agents import STOPPED, Order
from domain.errand import Errand, What
from domain.instance import (
    STABLE,
    Phase,
    Report,
    Wish,
    pause,
    restarts,
)
from store import moves
from store.clock import moment
from store.engine import Store, reading, transaction
from store.node_rows import InstanceRow, NodeRow, PlacementRow

ENDINGS = frozenset({Phase.TERMINATED, Phase.FAILED})

TAKEN_UP = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.DESTROYING}) | ENDINGS
"""What only an agent says that has the copy."""


class Observing(Store):
    @reading
    async def order(self, session: AsyncSession, errand: Errand) -> Order | None:
        """What the agent has to be told. None: the errand is not due any more."""
        row = await session.get(InstanceRow, errand.uid)
        node = await session.get(NodeRow, errand.node)
        placement = await session.get(PlacementRow, (errand.node, errand.uid))
        if row is None or node is None or placement is None:
            return None
        if errand.what is What.CLEAN:
            due = placement.left and placement.incarnation == errand.incarnation
        else:
            due = row.turn == errand.turn and row.ended is None and row.node == errand.node
        if not due:
            return None
        return Order(
            instance=row.id,
            tenant=row.tenant,
            spec=moves.spec_of(row),
            node=node.id,
            address=node.address,
            incarnation=placement.incarnation,
            turn=errand.turn,
            ip=placement.ip,
            ports=moves.PORTS.validate_json(placement.ports),
            taken_up=row.taken_up,
        )

    @transaction
    async def observe(self, session: AsyncSession, errand: Errand, report: Report) -> bool:
        """Take in what a node says, and whether there is anything more to listen for."""
        row = await moves.locked(session, errand.uid)
        if row.turn != errand.turn or row.ended is not None or row.wish != Wish.RUN:
            return False
        if report.phase in TAKEN_UP and not row.taken_up:
            row.taken_up = True
            moves.avoid(row, frozenset())
        match report.phase:
            case Phase.RUNNING:
                await _runs(session, row, report)
            case Phase.STOPPING if report.says == STOPPED:
                _rests(session, row, report)
                return False
            case Phase.STARTING | Phase.STOPPING | Phase.DESTROYING:
                if row.phase != Phase.RUNNING or report.phase is not Phase.STARTING:
                    moves.move(session, row, report.phase, report.says)
            case Phase.TERMINATED | Phase.FAILED:
                await _ended(session, row, report)
                return False
            case _:  # it has not begun, which we know
                pass
        return True

    @transaction
    async def sample(self, session: AsyncSession, errand: Errand, report: Report) -> None:
        """Remember what a copy uses. Nothing else is new, so nothing is written down of it."""
        used = report.used
        if used is None:
            return
        await session.execute(
            update(InstanceRow)
            .where(InstanceRow.uid == errand.uid, InstanceRow.turn == errand.turn)
            .values(used_cpu=used.cpu, used_memory=used.memory, used_disk=used.disk)
            .execution_options(synchronize_session=False)
        )


async def _runs(session: AsyncSession, row: InstanceRow, report: Report) -> None:
    if row.phase != Phase.RUNNING:
        row.running_since = await moment(session)
    row.has_run = True
    if report.used is not None:
        row.used_cpu, row.used_memory = report.used.cpu, report.used.memory
        row.used_disk = report.used.disk
    moves.move(session, row, Phase.RUNNING, report.says)


def _rests(session: AsyncSession, row: InstanceRow, report: Report) -> None:
    """Its node has stopped it, of which we know nothing: one that went away and did not say so. It
    is started where it was, as soon as its node does not go away any more."""
    moves.decide(row)
    row.heeded = True  # its workflow waits for this very answer
    row.parked, row.running_since = True, None
    moves.move(session, row, Phase.STOPPING, report.says)


async def _ended(session: AsyncSession, row: InstanceRow, report: Report) -> None:
    """It has ended by itself: it is over, or is run again where it was, after a pause."""
    spec, present = moves.spec_of(row), await moment(session)
    badly = report.phase is Phase.FAILED
    if not restarts(spec.restart, badly=badly):
        await moves.over(session, row, report.phase, report.says)
        return
    if _was_stable(row.running_since, present):
        row.restarts = 0
    wait = pause(row.restarts)
    moves.decide(row)
    row.heeded = True  # its workflow waits for this very answer
    row.restarts += 1
    row.waits_until = present + wait
    row.running_since = None
    await moves.anew(session, row)
    said = f"{report.says or report.phase}; run again in {wait.total_seconds():g} s"
    moves.move(session, row, Phase.STARTING, f"{said} (restart {row.restarts})")


def _was_stable(since: datetime | None, moment: datetime) -> bool:
    return since is not None and moment - since >= STABLE
