import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import insert, make_url, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import AlreadyExists, Invalid, NotFound, Unavailable
from domain.operation import OperationId
from store import engine, schema
from store.engine import TRIES, Database, Store, reading, transaction
from store.gather import Gather
from store.operations import Operations
from store.rows import StockRow, now
from tests.store.desk import Desk, until
from tests.store.wire import wire_to

Meeting = Callable[[], Awaitable[object]]


def _row(pool: str, machines: int = 0) -> dict[str, object]:
    return {"pool": pool, "machines": machines, "tagged": "{}", "seen": now()}


class Tables(Store):
    """Methods that collide."""

    attempts = 0

    @transaction
    async def take(self, session: AsyncSession, number: int, meet: Meeting) -> int:
        """Whoever comes first has their number; meets the other between looking and taking."""
        self.attempts += 1
        row = await session.get(StockRow, "table")
        if self.attempts == 1:
            await meet()
        if row is None:
            session.add(StockRow(**_row("table", number)))
            return number
        return row.machines

    @transaction
    async def hold(self, session: AsyncSession, pools: Sequence[str], meet: Meeting) -> None:
        """Lock rows in this order; meets the other between the first and the second."""
        self.attempts += 1
        for pool in pools:
            await session.get(StockRow, pool, with_for_update=True)
            if self.attempts == 1 and pool == pools[0]:
                await meet()

    @transaction
    async def clash(self, session: AsyncSession) -> None:
        self.attempts += 1
        await session.execute(insert(StockRow), [_row("same"), _row("same")])

    @reading
    async def mistake(self, session: AsyncSession) -> None:
        self.attempts += 1
        await session.execute(text("SELECT nothing FROM nowhere"))

    @transaction
    async def linger(self, session: AsyncSession, meet: Meeting) -> None:
        session.add(StockRow(**_row("slow")))
        await session.flush()
        await meet()

    @reading
    async def pools(self, session: AsyncSession) -> list[str]:
        return list(await session.scalars(select(StockRow.pool).order_by(StockRow.pool)))


async def test_the_loser_of_a_collision_sees_what_the_winner_wrote(
    desk: Desk, other_desk: Desk
) -> None:
    together = asyncio.Barrier(1 if desk.database.is_sqlite else 2)
    tables = [Tables(desk.database), Tables(other_desk.database)]
    taken = await asyncio.gather(
        *(table.take(number, together.wait) for number, table in enumerate(tables))
    )
    assert taken[0] == taken[1]
    # SQLite's second writer has not even begun to look when the first one ends.
    assert sum(table.attempts for table in tables) == (2 if desk.database.is_sqlite else 3)


async def test_a_deadlock_is_run_again(desk: Desk, other_desk: Desk) -> None:
    together = asyncio.Barrier(1 if desk.database.is_sqlite else 2)
    async with desk.database.session(writes=True) as session:
        await session.execute(insert(StockRow), [_row("a"), _row("b")])
    tables = [Tables(desk.database), Tables(other_desk.database)]
    await asyncio.gather(
        tables[0].hold(["a", "b"], together.wait), tables[1].hold(["b", "a"], together.wait)
    )
    assert sum(table.attempts for table in tables) >= (2 if desk.database.is_sqlite else 3)


async def test_a_collision_without_end_is_the_callers(database: Database) -> None:
    tables = Tables(database)
    with pytest.raises(IntegrityError):
        await tables.clash()
    assert tables.attempts == TRIES
    assert await tables.pools() == []


async def test_a_wrong_statement_is_a_bug_and_is_not_run_again(database: Database) -> None:
    tables = Tables(database)
    with pytest.raises(DBAPIError):
        await tables.mistake()
    assert tables.attempts == 1


async def test_a_domain_error_undoes_the_transaction_and_is_not_run_again(desk: Desk) -> None:
    await desk.create()
    with pytest.raises(AlreadyExists):
        await desk.create()
    with pytest.raises(NotFound):
        await desk.operations.get(OperationId("none"))


async def test_a_reader_waits_for_no_writer_and_sees_nothing_half_done(
    desk: Desk, other_desk: Desk
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def meet() -> None:
        reached.set()
        await go_on.wait()

    writing = asyncio.create_task(Tables(desk.database).linger(meet))
    await reached.wait()
    for at in (desk, other_desk):
        assert await Tables(at.database).pools() == []
    go_on.set()
    await writing
    assert await Tables(other_desk.database).pools() == ["slow"]


async def test_a_caller_who_hangs_up_leaves_nothing_locked(desk: Desk, other_desk: Desk) -> None:
    chance = random.Random(1)  # noqa: S311
    for number in range(20):
        hanging_up = asyncio.create_task(desk.create(f"c{number}"))
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        hanging_up.cancel()
        await asyncio.wait([hanging_up])
        done = [cluster.name for cluster in await other_desk.clusters.all()]
        if f"c{number}" not in done:
            await other_desk.create(f"c{number}")
    assert len(await desk.clusters.all()) == 20


async def test_a_busy_file_is_waited_for_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr(engine, "TRIES", 2)
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    holder, waiter = Database(url), Database(url)
    try:
        async with holder.session(writes=True) as session:
            session.add(StockRow(**_row("held")))
            await session.flush()
            with pytest.raises(Unavailable, match="the database did not answer"):
                await Tables(waiter).take(1, asyncio.Event().wait)
        assert await Tables(waiter).pools() == ["held"]
    finally:
        await holder.close()
        await waiter.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://ann:secret@127.0.0.1:1/windlass",
        "postgresql+asyncpg://ann:secret@/windlass?host=/nowhere",
        "sqlite+aiosqlite:////nowhere/windlass.db",
        f"sqlite+aiosqlite:///{__file__}",
    ],
)
async def test_a_database_that_is_not_there_is_unavailable(url: str) -> None:
    database = Database(url)
    with pytest.raises(Unavailable) as refused:
        await Operations(database).page(size=1)
    assert refused.value.reason == "DATABASE_UNAVAILABLE"
    assert "secret" not in refused.value.message
    await database.close()


@pytest.mark.parametrize("wrong", [{"database": "none"}, {"username": "nobody"}])
async def test_a_server_that_does_not_let_us_in_is_unavailable(
    postgres_url: str, wrong: dict[str, str]
) -> None:
    url = make_url(postgres_url).set(**wrong)  # type: ignore[arg-type]
    database = Database(url.render_as_string(hide_password=False))
    with pytest.raises(Unavailable):
        await Operations(database).page(size=1)
    await database.close()


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "mysql://root:secret@host/x", "postgresql://ann:secret@host/x", "sqlite:///x"],
)
def test_an_address_of_no_database_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(Invalid, match="begins with neither") as refused:
        Database(url)
    assert refused.value.reason == "DATABASE_URL_INVALID"
    assert "secret" not in str(refused.value)


class Line(Store):
    """Methods that need a server and no table."""

    @transaction
    async def talk(self, session: AsyncSession, meanwhile: Meeting) -> None:
        await session.execute(text("SELECT 1"))
        await meanwhile()
        await session.execute(text("SELECT 1"))

    @reading
    async def ask(self, session: AsyncSession) -> object:
        return await session.scalar(text("SELECT 1"))


async def test_a_server_that_goes_and_comes_back_is_used_again(postgres_url: str) -> None:
    async with wire_to(make_url(postgres_url)) as (wire, url):
        database = Database(url)
        line = Line(database)
        assert await line.ask() == 1
        with pytest.raises(Unavailable):
            await line.talk(wire.cut)
        with pytest.raises(Unavailable):
            await line.ask()
        await wire.mend()
        assert await line.ask() == 1
        await wire.cut()
        await wire.mend()
        await line.talk(line.ask)  # what the pool holds is dead, and it finds out
        await database.close()


@pytest.mark.parametrize("pooled", [True, False])
async def test_a_server_that_hangs_is_unavailable_and_used_again_once_it_answers(
    postgres_url: str, pooled: bool
) -> None:
    """No connection ends and nothing is refused: only time tells. So it is with one that is held,
    one that is in the pool and one that has yet to be made."""
    async with wire_to(make_url(postgres_url)) as (wire, url):
        database = Database(url, connections=2, answer_seconds=2)
        line = Line(database)

        async def hang() -> None:
            wire.hang()

        if pooled:
            assert await line.ask() == 1
        with pytest.raises(Unavailable, match="within 2 s") as refused:
            await line.talk(hang)
        assert refused.value.reason == "DATABASE_UNAVAILABLE"
        asked = [asyncio.create_task(line.ask()) for _ in range(4)]
        done, hanging = await asyncio.wait(asked, timeout=60)
        assert not hanging
        for task in done:
            error = task.exception()
            assert isinstance(error, Unavailable)
            assert error.reason == "DATABASE_UNAVAILABLE"
        wire.flow()
        assert await line.ask() == 1
        await database.close()


async def test_a_question_is_answered_by_a_batch_that_begins_after_it() -> None:
    batches: list[list[int]] = []
    go_on = asyncio.Event()

    async def answer(questions: Sequence[int]) -> list[int | Exception]:
        batches.append(list(questions))
        await go_on.wait()
        return [number * 2 for number in questions]

    gather = Gather[int, int](answer, most=3)
    asked = [asyncio.create_task(gather.ask(number)) for number in range(6)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = asyncio.create_task(gather.ask(6))
    await asyncio.sleep(0)
    asked[4].cancel()
    go_on.set()
    answers = await asyncio.gather(*asked, late, return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, int)] == [0, 2, 4, 6, 10, 12]
    assert batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_those_who_were_answered_together_are_waited_for_and_nobody_else_is() -> None:
    batches: list[list[int]] = []

    async def answer(questions: Sequence[int]) -> list[int | Exception]:
        batches.append(list(questions))
        return list(questions)

    gather = Gather[int, int](answer)

    async def ask(number: int, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await gather.ask(number)

    await asyncio.gather(*(ask(number, turns=0) for number in (1, 2, 3)))
    await asyncio.gather(*(ask(number, turns=5 * number) for number in (1, 2, 3)))
    await gather.ask(4)
    await asyncio.gather(*(ask(number, turns=5 * number) for number in (5, 6)))
    assert batches == [[1, 2, 3], [1, 2, 3], [4], [5], [6]]


async def test_whoever_asked_is_told_when_the_answering_is_called_off() -> None:
    answering: list[asyncio.Task[object] | None] = []

    async def answer(_questions: Sequence[int]) -> list[int | Exception]:
        answering.append(asyncio.current_task())
        await asyncio.Event().wait()
        return []

    asked = asyncio.create_task(Gather[int, int](answer).ask(1))
    await until(lambda: bool(answering))
    assert answering[0]
    answering[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_batch_that_fails_is_told_to_all_in_it_and_the_next_goes_on() -> None:
    async def answer(questions: Sequence[str]) -> list[str | Exception]:
        if "bad" in questions:
            raise Unavailable("no")
        return [NotFound(word) if word == "none" else word for word in questions]

    gather = Gather[str, str](answer)
    told = await asyncio.gather(gather.ask("good"), gather.ask("bad"), return_exceptions=True)
    assert [type(answer) for answer in told] == [Unavailable, Unavailable]
    told = await asyncio.gather(gather.ask("good"), gather.ask("none"), return_exceptions=True)
    assert [type(answer) for answer in told] == [str, NotFound]
