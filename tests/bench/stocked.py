"""Many instances that were made before: the rows of one that really was, again and again under
other names, past the door."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    String,
    cast,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from domain.access_ports import Protocol
from domain.cloudlet import CloudletKey
from domain.key_text import cloudlet_text
from domain.record import Noun
from domain.usage import BITS, FIRST
from store.cloudlet_refs import written_ports
from store.edge_rows import AppInstRow, CloudletRefsRow
from store.engine import Database
from store.rows import JournalRow, LinkRow, OperationRow, RecordRow, table_of
from tests.bench.edge import app_name, place_name

ID_KEPT = 24
"""Letters of an operation's id that its copies share; the rest is their number."""


async def stock(url: str, count: int, *, places: int) -> None:
    """Have so many instances there, spread over places and apps like `edge.instances`, the first of
    which has been made. All of them are READY, and the ports that they took are taken. Only what
    their resource manager said of them is in the words of the first."""
    database = Database(url)
    async with database.session(writes=True) as session:
        await _copy(session, count, places)
        for number in range(places):
            taken = dict.fromkeys(range(FIRST, FIRST + count // places), BITS[Protocol.TCP])
            key = cloudlet_text(CloudletKey(operator="tele", name=place_name(number)))
            its = CloudletRefsRow.cloudlet == key
            ports = written_ports(taken)
            await session.execute(update(CloudletRefsRow).where(its).values(ports=ports))
    async with database.session(writes=True) as session:
        if not database.is_sqlite:
            await session.execute(text("ANALYZE"))  # as it would be found after some minutes
    await database.close()


async def _copy(session: AsyncSession, count: int, places: int) -> None:
    first = (await session.scalars(select(AppInstRow))).one()
    copies = _Copies(count, places, first.operation)
    its = first.key
    for row, which in (
        (AppInstRow, AppInstRow.key == its),
        (LinkRow, (LinkRow.noun == Noun.APP_INST) & (LinkRow.key == its)),
        (RecordRow, (RecordRow.noun == Noun.APP_INST_INFO) & (RecordRow.key == its)),
        (OperationRow, OperationRow.id == first.operation),
        (JournalRow, JournalRow.operation == first.operation),
    ):
        table = table_of(row)
        await session.execute(
            insert(table).from_select(list(table.columns), copies.of(table).where(which))
        )


class _Copies:
    def __init__(self, count: int, places: int, operation: str) -> None:
        first = select(literal(1).label("n")).cte("numbers", recursive=True)
        more = select((first.c.n + 1).label("n")).where(first.c.n < count - 1)
        self._number = first.union_all(more).c.n
        self._renamed = (
            (app_name(0), "app-", _digits(self._number // places, 4)),
            (place_name(0), "place-", _digits(self._number % places, 3)),
            (operation, operation[:ID_KEPT], _digits(self._number, len(operation) - ID_KEPT)),
        )

    def of(self, table: Any) -> Select[Any]:
        """As many copies of its rows, each with names of its own."""
        return select(*map(self._copied, table.columns)).join_from(
            table, self._number.table, literal(value=True)
        )

    def _copied(self, column: Any) -> ColumnElement[Any]:
        said: ColumnElement[Any] = column
        if not isinstance(getattr(column.type, "impl", column.type), String):
            return said
        for name, stem, digits in self._renamed:
            said = func.replace(said, name, literal(stem).concat(digits))
        return said


def _digits(number: Any, width: int) -> ColumnElement[str]:
    """A number with zeros before it, in words of both databases."""
    return func.substr(cast(number + literal(10**width, BigInteger), String), 2)
