"""The audit trail: a line for everything that somebody changed or tried to, in one order.

The database itself refuses to change or delete a line. Whoever gets around that breaks the chain,
which `verify` walks along. A trail whose end was cut off is whole, too, and so is one that was
written anew from its beginning; only who kept a chain elsewhere can tell.

A call that changes something has a line before it does, and one once it is over, which names the
first. Whoever reads gets the second, if there is one."""

from collections.abc import Sequence

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from domain.audit import Anchor, Deed, Line, Verdict, chained
from store.access_rows import AuditRow
from store.engine import Database, Store, reading, transaction
from store.gather import Gather
from store.rows import table_of

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
        if not self._database.is_sqlite:
            await session.execute(ONE_AT_A_TIME)
        last = select(AuditRow).order_by(AuditRow.number.desc()).limit(1)
        row = await session.scalar(last)
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
        number, chain, lost = 0, "", anchor.number if anchor else 0
        while rows := await self._page(number):
            for row in rows:
                if row.number != number + 1 or not _follows(row, chain):
                    return Verdict(lines=number, broken=number + 1, chain=chain)
                number, chain = row.number, row.chain
                if anchor == Anchor(number=number, chain=chain):
                    lost = 0
        return Verdict(lines=number, chain=chain, lost=lost)

    @reading
    async def _page(self, session: AsyncSession, after: int) -> Sequence[AuditRow]:
        query = select(AuditRow).where(AuditRow.number > after).order_by(AuditRow.number)
        return (await session.scalars(query.limit(PAGE))).all()


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
