"""An API process whose connections are all in use goes on being alive for the others."""

from contextlib import AsyncExitStack
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, text
from structlog.testing import capture_logs

from api.__main__ import Api
from settings import Edge, Settings
from store.engine import Database
from store.rows import ControllerRow
from tests.store.desk import until
from tests.support.load import limit

LEASE = timedelta(seconds=3)
CONNECTIONS = 2


@pytest.fixture
def settings(settings: Settings) -> Settings:
    edge = Edge(controller_lease=LEASE)
    return settings.model_copy(update={"edge": edge, "database_connections": CONNECTIONS})


async def lease(database: Database) -> datetime:
    async with database.session(writes=False) as session:
        return (await session.scalars(select(ControllerRow.until))).one()


async def test_b20_a_process_whose_pool_is_busy_keeps_its_lease(
    api: Api, database: Database
) -> None:
    await api.start()
    await api.presence.entered()
    async with limit(60), AsyncExitStack() as stack:
        for _ in range(CONNECTIONS):
            busy = await stack.enter_async_context(api._database.session(writes=False))
            await busy.execute(text("SELECT 1"))
        with capture_logs() as logs:
            before = await lease(database)

            async def is_kept() -> bool:
                return await lease(database) > before + LEASE

            await until(is_kept)
    assert not any(each["event"] in ("taken for dead", "lease not kept") for each in logs)
