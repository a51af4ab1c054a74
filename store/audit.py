"""The audit trail: a line for everything that somebody changed or tried to, in one order.

The database itself refuses to change or delete a line, but for old ones that `prune` removes: then
the last of these is kept as where the chain begins, and a line of its own says so. Whoever gets
around that breaks the chain, which `verify` walks along. A trail whose end was cut off is whole,
too, and so is one that was written anew from its beginning; only who kept a chain elsewhere can
tell.

A call that changes something has a line before it does, and one once it is over, which names the
first. Whoever reads gets the second, if there is one."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from domain.audit import PRUNED, Anchor, Deed, Line, Verdict, chained
from domain.errors import Conflict
from store.access_rows import AuditBeginningRow, AuditRow
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.rows import now, table_of

ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtext('windlass audit'))")
PAGE = 1000


class Audit(Store):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._together: Gather[Deed, int] = Gather(self._written)

    async def write(self, deed: Deed) -> int:
        """Add a line, and return its number. What is to be written at the same time is written
        together."""
        return await self._together.ask(deed)

    @transaction
    async def _written(self, session: AsyncSession, deeds: Sequence[Deed]) -> list[int]:
        await self._take_turn(session)
        return await _add(session, deeds)

    async def _take_turn(self, session: AsyncSession) -> None:
        if not self._database.is_sqlite:
            await session.execute(ONE_AT_A_TIME)

    @reading
    async def list(
        self,
        session: AsyncSession,
        *,
        after: int,
        most: int,
        latest: bool = False,
        user: str = "",
    ) -> Sequence[Line]:
        """Lines past a number, or the latest, which come first then; of one user, or of all. That a
        call began is left out once it is known how it ended."""
        end = aliased(AuditRow)
        ended = select(end.number).where(end.began == AuditRow.number).exists()
        query = select(AuditRow).where(~ended).limit(most)
        if user:
            query = query.where(AuditRow.user_name == user)
        if latest:
            query = query.order_by(AuditRow.number.desc())
        else:
            query = query.where(AuditRow.number > after).order_by(AuditRow.number)
        rows = await session.scalars(query)
        return [Line(number=row.number, deed=Deed.model_validate_json(row.line)) for row in rows]

    async def verify(self, anchor: Anchor | None = None) -> Verdict:
        """Walk along the whole trail, a page at a time, and past the line that was seen earlier."""
        while True:
            beginning = await self._beginning()
            verdict = await self._walk(beginning, anchor)
            if not verdict.broken or beginning == await self._beginning():
                return verdict  # else lines were removed meanwhile

    async def _walk(self, beginning: Anchor, anchor: Anchor | None) -> Verdict:
        number, chain = beginning.number, beginning.chain
        first, lost = number + 1, anchor.number if anchor and anchor != beginning else 0
        is_witnessed = not number
        while rows := await self._page(number):
            for row in rows:
                if row.number != number + 1 or not _follows(row, chain):
                    return Verdict(lines=number, broken=number + 1, chain=chain, first=first)
                number, chain = row.number, row.chain
                is_witnessed = is_witnessed or _removes(row, beginning)
                if anchor == Anchor(number=number, chain=chain):
                    lost = 0
        broken = 0 if is_witnessed else first
        return Verdict(lines=number, broken=broken, chain=chain, lost=lost, first=first)

    async def prune(self, before: datetime, user: str) -> Anchor | None:
        """Remove the lines of before that time, for this user, and return the last of them: the
        trail begins behind it. None: there are none. Conflict if the trail is not whole, since what
        is removed cannot be looked at any more. If it is cut off in the middle, the next one goes
        on."""
        if (verdict := await self.verify()).broken:
            raise Conflict(
                f"line {verdict.broken} of the audit trail does not follow from the one before",
                subject=str(verdict.broken),
                reason="AUDIT_BROKEN",
                do="find out who changed it: nothing is removed from a trail that is not whole",
            )
        begun = await self._begin_behind(before, user)
        while await self._remove((begun or await self._beginning()).number):
            pass
        return begun

    @transaction
    async def _begin_behind(
        self, session: AsyncSession, before: datetime, user: str
    ) -> Anchor | None:
        await self._take_turn(session)
        beginning = await _beginning(session)
        kept = select(func.min(AuditRow.number)).where(
            AuditRow.time >= before, AuditRow.number > beginning.number
        )
        last = select(AuditRow).where(AuditRow.number > beginning.number)
        if (first := await session.scalar(kept)) is not None:
            last = last.where(AuditRow.number < first)
        row = await session.scalar(last.order_by(AuditRow.number.desc()).limit(1))
        if row is None:
            return None
        begun = Anchor(number=row.number, chain=row.chain)
        await session.execute(insert(table_of(AuditBeginningRow)).values(begun.model_dump()))
        await _add(session, [Deed(time=now(), user=user, method=PRUNED, subject=str(begun))])
        return begun

    @transaction
    async def _remove(self, session: AsyncSession, last: int) -> bool:
        """Remove some of the lines up to this one. Whether there were any."""
        some = select(AuditRow.number).where(AuditRow.number <= last)
        numbers = (await session.scalars(some.order_by(AuditRow.number).limit(PAGE))).all()
        if numbers:
            await session.execute(delete(AuditRow).where(AuditRow.number <= numbers[-1]))
        return bool(numbers)

    @reading
    async def _beginning(self, session: AsyncSession) -> Anchor:
        return await _beginning(session)

    @reading
    async def _page(self, session: AsyncSession, after: int) -> Sequence[AuditRow]:
        query = select(AuditRow).where(AuditRow.number > after).order_by(AuditRow.number)
        return (await session.scalars(query.limit(PAGE))).all()


async def _beginning(session: AsyncSession) -> Anchor:
    """The last line that was removed. The first trail begins behind none."""
    newest = select(AuditBeginningRow).order_by(AuditBeginningRow.number.desc()).limit(1)
    row = await session.scalar(newest)
    return Anchor(number=row.number, chain=row.chain) if row else Anchor(number=0, chain="")


async def _add(session: AsyncSession, deeds: Sequence[Deed]) -> list[int]:
    row = await session.scalar(select(AuditRow).order_by(AuditRow.number.desc()).limit(1))
    number, chain = (row.number, row.chain) if row else (0, "")
    first = number + 1
    for deed in deeds:
        number, line = number + 1, deed.model_dump_json(exclude_defaults=True)
        chain = chained(chain, number, line)
        values = {
            "number": number,
            "time": deed.time,
            "user_name": deed.user,
            "began": deed.began or None,
            "line": line,
            "chain": chain,
        }
        await session.execute(insert(table_of(AuditRow)).values(values).inline())
    return list(range(first, number + 1))


def _removes(row: AuditRow, beginning: Anchor) -> bool:
    """Whether a row says that the lines up to there were removed."""
    deed = Deed.model_validate_json(row.line)
    return (deed.method, deed.subject) == (PRUNED, str(beginning))


def _follows(row: AuditRow, before: str) -> bool:
    """Whether a row holds on to the one before it, and says nothing that its line does not: what
    is looked for by columns has to be found."""
    if row.chain != chained(before, row.number, row.line):
        return False
    try:
        deed = Deed.model_validate_json(row.line)
    except ValueError:  # no deed at all
        return False
    return (row.time, row.user_name, row.began or 0) == (deed.time, deed.user, deed.began)
