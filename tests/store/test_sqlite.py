"""What is peculiar to SQLite: a transaction that only writes any more goes out in one piece."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from store import schema
from store.engine import Database
from store.rows import StockRow, now, table_of

STOCK = table_of(StockRow)


def _row(pool: str) -> dict[str, Any]:
    return {"pool": pool, "machines": 1, "tagged": "{}", "seen": now()}


async def _nothing(_: AsyncSession) -> None:
    """For a transaction that ends there."""


async def _write(
    file: Database,
    *pools: str,
    first: str = "",
    then: Callable[[AsyncSession], Awaitable[object]] = _nothing,
) -> None:
    """Write pools, all but the first held back, and go on."""
    async with file.session(writes=True) as session:
        if first:
            await session.execute(insert(STOCK), [_row(first)])
        await file.hold(session)
        await session.execute(insert(STOCK), [_row(pool) for pool in pools])
        await then(session)


async def _pools(file: Database) -> list[str]:
    async with file.session(writes=False) as session:
        return list(await session.scalars(select(StockRow.pool).order_by(StockRow.pool)))


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[Database]:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    yield database
    await database.close()


async def test_what_is_held_back_is_written_with_the_commit(file: Database) -> None:
    async def add(session: AsyncSession) -> None:
        session.add(StockRow(**_row("added")))
        await session.flush()
        assert await _pools(file) == []

    await _write(file, "held", "too", first="before", then=add)
    assert await _pools(file) == ["added", "before", "held", "too"]


async def test_what_fails_in_it_fails_all_of_it(file: Database) -> None:
    with pytest.raises(IntegrityError):
        await _write(file, "twice", "twice", first="before")
    assert await _pools(file) == []
    await _write(file, "next")
    assert await _pools(file) == ["next"]


async def test_a_question_after_the_promise_not_to_ask_is_a_mistake(file: Database) -> None:
    with pytest.raises(DBAPIError, match="whose answer somebody wants"):
        await _write(file, "held", then=lambda session: session.execute(select(STOCK)))
    assert await _pools(file) == []


async def test_what_an_error_left_behind_is_not_written_by_the_next(file: Database) -> None:
    """The pool hands the same connection on."""

    async def fail(_: AsyncSession) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await _write(file, "forgotten", then=fail)
    await _write(file, "kept")
    assert await _pools(file) == ["kept"]


async def test_a_reading_transaction_sees_one_state_to_its_end(file: Database) -> None:
    async with file.session(writes=False) as session:
        assert list(await session.scalars(select(StockRow.pool))) == []
        await _write(file, "new")
        assert list(await session.scalars(select(StockRow.pool))) == []
    assert await _pools(file) == ["new"]
