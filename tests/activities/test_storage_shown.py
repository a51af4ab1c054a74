"""Reads follow writes: a pool that was made is seen by whoever lists pools then."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from activities.storage import Shown, Storage
from activities.storage_watch import StorageWatch
from domain.share import PoolTerms, Share
from store import schema
from store.engine import Database
from store.observations import Observations
from tests.clients.ceph.manager import Manager

NEVER = timedelta(hours=1)
"""The watch takes one look, and no other while a test runs."""


@pytest.fixture
async def observations(tmp_path: Path) -> AsyncIterator[Observations]:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    yield Observations(database)
    await database.close()


async def listed(observations: Observations) -> set[str]:
    look = (await observations.newest("ceph")).look
    return {pool.name for pool in look.observation.pools}


async def test_a_pool_is_listed_once_it_is_made_and_not_once_it_is_gone(
    observations: Observations,
) -> None:
    wanted = Share.of("1f6f6f2c-9d5e-4a7b", PoolTerms()).pool
    async with Manager().serve() as manager, manager.storage() as storage:
        assert await StorageWatch(observations, storage, "ceph", NEVER).turn()
        hands = Storage(storage, shown=Shown(observations, "ceph"))
        await hands.ensure_pool(wanted)
        assert wanted.name in await listed(observations)
        await hands.delete_pool(wanted)
        assert wanted.name not in await listed(observations)


async def test_a_pool_is_made_though_nobody_has_looked_at_ceph_yet(
    observations: Observations,
) -> None:
    wanted = Share.of("1f6f6f2c-9d5e-4a7b", PoolTerms()).pool
    async with Manager().serve() as manager, manager.storage() as storage:
        made = await Storage(storage, shown=Shown(observations, "ceph")).ensure_pool(wanted)
        assert made.wanted.name == wanted.name
