"""Desks to work at."""

from collections.abc import AsyncIterator

import pytest

from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.store.desk import Desk


@pytest.fixture
async def desk(database: Database, vault: Secrets) -> AsyncIterator[Desk]:
    desk = Desk(database, vault)
    yield desk
    await desk.close()


@pytest.fixture
async def other_desk(database_url: str, seal: Seal) -> AsyncIterator[Desk]:
    """Another process at the same database, as far as the database can tell."""
    database = Database(database_url)
    desk = Desk(database, Secrets(database, seal))
    yield desk
    await desk.close()
    await database.close()
