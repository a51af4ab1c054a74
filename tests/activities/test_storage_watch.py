"""Several processes watch one simulated Ceph, and one of them looks."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from activities.storage_watch import StorageWatch
from domain.storage import Light
from sim.faults import Fault, How
from store import schema
from store.engine import Database
from store.observations import Observations
from tests.clients.ceph.manager import Manager

LOOK = "ceph GET health/full"
LONG, SHORT, OVER = timedelta(hours=1), timedelta(seconds=0.2), timedelta(0)


@pytest.fixture
async def observations(tmp_path: Path) -> AsyncIterator[Observations]:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    yield Observations(database)
    await database.close()


async def test_of_many_watches_one_looks(observations: Observations) -> None:
    async with Manager().serve() as manager, manager.storage() as storage:
        watches = [StorageWatch(observations, storage, "ceph", LONG) for _ in range(5)]
        turns = await asyncio.gather(*(watch.turn() for watch in watches))
        assert turns.count(True) == 1
        assert manager.heard(LOOK) == 1
        assert (await observations.newest("ceph")).look.observation.light is Light.OK


async def test_trouble_is_told_and_passes(observations: Observations) -> None:
    async with Manager().serve() as manager, manager.storage() as storage:
        watch = StorageWatch(observations, storage, "ceph", OVER)
        assert await watch.turn()
        manager.faults.add(Fault(where=LOOK, how=How.DROP, times=2))
        for _ in range(2):
            assert await watch.turn()
            assert "did not answer GET health/full" in (await observations.newest("ceph")).trouble
        manager.faults.add(Fault(where="ceph osd.3", how=How.FAIL, times=1000))
        assert await watch.turn()
        newest = await observations.newest("ceph")
        assert (newest.trouble, newest.look.observation.light) == ("", Light.WARN)


async def test_it_goes_on_until_it_is_told_to_stop(observations: Observations) -> None:
    async with Manager().serve() as manager, manager.storage() as storage:
        watching = asyncio.create_task(StorageWatch(observations, storage, "ceph", SHORT).run())
        async with asyncio.timeout(20):
            while True:
                if manager.heard(LOOK) >= 3:
                    break
                await asyncio.sleep(0.02)
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled()
