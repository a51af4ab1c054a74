"""Which machines failed, and which of them are not taken any more because of it.

A machine is in quarantine while it has failed so often within so long; nothing else is kept, so
nothing has to be ended when the time is up."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import NotFound
from domain.quarantine import MachineFailure, Quarantined, Terms
from store.engine import Database, Store, reading, transaction
from store.rows import MachineFailureRow, now

MOST = 500
"""So many machines are shunned or shown at once, those that failed last."""

WHY_LENGTH = 500


class Quarantine(Store):
    def __init__(self, database: Database, terms: Terms) -> None:
        super().__init__(database)
        self._terms = terms

    @transaction
    async def count(self, session: AsyncSession, failure: MachineFailure) -> None:
        """Remember a failure. The same one again changes nothing; what is forgotten by now goes."""
        forgotten = MachineFailureRow.time < now() - self._terms.span
        await session.execute(delete(MachineFailureRow).where(forgotten))
        machine = failure.machine
        key = (machine.system_id, failure.operation, machine.slot.name, failure.turn)
        if await session.get(MachineFailureRow, key) is None:
            session.add(
                MachineFailureRow(
                    system_id=machine.system_id,
                    operation=failure.operation,
                    slot=machine.slot.name,
                    turn=failure.turn,
                    hostname=machine.hostname,
                    cluster=machine.slot.cluster,
                    why=failure.why[:WHY_LENGTH],
                    time=now(),
                )
            )

    @reading
    async def shunned(self, session: AsyncSession) -> tuple[str, ...]:
        """The system ids of the machines that nobody is given."""
        last = func.max(MachineFailureRow.time)
        query = (
            select(MachineFailureRow.system_id)
            .where(MachineFailureRow.time >= now() - self._terms.span)
            .group_by(MachineFailureRow.system_id)
            .having(func.count() >= self._terms.failures)
            .order_by(last.desc(), MachineFailureRow.system_id)
            .limit(MOST)
        )
        return tuple(await session.scalars(query))

    @reading
    async def all(self, session: AsyncSession) -> list[Quarantined]:
        """Every machine in quarantine, the one that failed last first."""
        return await quarantined(session, self._terms)

    @transaction
    async def lift(self, session: AsyncSession, system_id: str) -> None:
        """Forget how a machine failed: it may be taken again."""
        its = MachineFailureRow.system_id == system_id
        if await session.scalar(select(func.count()).where(its)) == 0:
            raise NotFound(
                f"machine {system_id} has not failed, as far as we remember",
                subject=system_id,
                reason="MACHINE_NOT_FOUND",
                do="windlass machine quarantined shows the machines that are not taken",
            )
        await session.execute(delete(MachineFailureRow).where(its))


async def quarantined(session: AsyncSession, terms: Terms) -> list[Quarantined]:
    """The machines that are not taken now, the one that failed last first."""
    since = now() - terms.span
    rows = await session.scalars(
        select(MachineFailureRow)
        .where(MachineFailureRow.time >= since)
        .order_by(MachineFailureRow.time.desc())
    )
    failures: dict[str, list[MachineFailureRow]] = {}
    for row in rows:
        failures.setdefault(row.system_id, []).append(row)
    found = [_quarantined(of, terms) for of in failures.values() if len(of) >= terms.failures]
    return found[:MOST]


def _quarantined(failures: Sequence[MachineFailureRow], terms: Terms) -> Quarantined:
    last = failures[0]
    freed_by: datetime = failures[terms.failures - 1].time
    return Quarantined(
        system_id=last.system_id,
        hostname=last.hostname,
        failures=len(failures),
        last=last.time,
        until=freed_by + terms.span,
        why=last.why,
        cluster=last.cluster,
    )
