"""Changes: which records were written or deleted, in an order in which they may be followed.

Followers look at what a record is now, so a change says no more than whose it was. On PostgreSQL
numbers are given out before transactions commit, so whoever went by them alone would pass one that
is still open; therefore nobody is shown what is not older than every open transaction of ours
(`store/visibility.py`), and what was written after something else had been committed never comes
before it. On SQLite writers take turns, and the numbers will do."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, delete, func, insert, select, text, true, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from domain.frozen import Frozen
from domain.record import Noun
from store.engine import Store, reading, transaction
from store.rows import ChangeRow, now, table_of
from store.visibility import horizon

PAGE = 1000

CHANNEL = "windlass_changes"
"""Where PostgreSQL tells those who listen that something has been committed."""

_ERA = text("pg_current_xact_id()::text::bigint")


class Place(Frozen):
    """Up to where somebody has followed."""

    era: int = 0
    number: int = 0


class Change(Frozen):
    noun: Noun
    key: str
    place: Place


async def note(session: AsyncSession, noun: Noun, keys: Iterable[str]) -> None:
    """Let followers know of records, with the transaction that writes them."""
    tells = session.get_bind().dialect.name == "postgresql"
    moment = now()
    for key in keys:
        row = {"era": _ERA if tells else 0, "noun": noun, "key": key, "time": moment}
        statement = insert(table_of(ChangeRow)).values(row).inline()
        if tells:
            await session.execute(statement.returning(func.pg_notify(CHANNEL, "")))
        else:
            await session.execute(statement)


class Changes(Store):
    @reading
    async def newest(self, session: AsyncSession) -> Place:
        """A place past which is everything that is not committed yet, for those who are about to
        read all there is."""
        if self._database.is_sqlite:
            return Place(number=await session.scalar(select(func.max(ChangeRow.number))) or 0)
        return Place(era=await horizon(session))

    @reading
    async def since(self, session: AsyncSession, place: Place) -> Sequence[Change]:
        """What was changed past a place, the earliest first, and a page of it at most."""
        over: ColumnElement[bool] = true()
        if not self._database.is_sqlite:
            over = ChangeRow.era < await horizon(session)  # before what is read by it
        past = tuple_(ChangeRow.era, ChangeRow.number) > tuple_(place.era, place.number)
        rows = await session.scalars(
            select(ChangeRow)
            .where(past, over)
            .order_by(ChangeRow.era, ChangeRow.number)
            .limit(PAGE)
        )
        return [
            Change(noun=Noun(row.noun), key=row.key, place=Place(era=row.era, number=row.number))
            for row in rows
        ]

    @transaction
    async def forget(self, session: AsyncSession, older_than: timedelta) -> None:
        """Drop changes that whoever follows has seen long ago."""
        await session.execute(delete(ChangeRow).where(ChangeRow.time < now() - older_than))
