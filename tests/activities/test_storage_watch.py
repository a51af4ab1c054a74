"""Several processes watch one simulated Ceph, and one of them looks."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities.storage_watch import StorageWatch
from clients.ceph import ProgramMons
from domain.storage import Light, Source
from sim.faults import Fault, How
from store import schema
from store.engine import Database
from store.observations import Observations
from tests.clients.ceph.manager import Manager
from tests.clients.ceph.program import FakeProgram
from tests.domain.ceph import recorded
from tests.support.load import limit

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
        async with limit(20):
            while True:
                if manager.heard(LOOK) >= 3:
                    break
                await asyncio.sleep(0.02)
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProgram:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return FakeProgram(tmp_path)


async def test_the_mons_are_asked_too_and_the_worse_word_is_shown(
    observations: Observations, program: FakeProgram
) -> None:
    async def shown() -> tuple[Light, Source, list[str]]:
        assert await watch.turn()
        seen, now = await observations.newest("ceph"), datetime.now(UTC)
        codes = [check.code for check in seen.look.observation.checks]
        longer = seen.model_copy(update={"every": LONG})
        return longer.light(now), longer.source(now), codes

    mons = ProgramMons(program.conf, program.keyring)
    async with Manager().serve() as manager, manager.storage() as storage:
        watch = StorageWatch(observations, storage, "ceph", OVER, mons=mons)
        program.says(recorded("status.mgr-just-killed"), *range(6))
        assert await shown() == (Light.OK, Source.MANAGER, [])
        program.says(recorded("status.osd-killed"), *range(6))
        assert await shown() == (Light.WARN, Source.MANAGER, ["OSD_DOWN"])

        program.says(None)  # the manager goes on saying that all is well
        assert await shown() == (Light.OFFLINE, Source.NOBODY, [])
        program.set("refused")  # this says nothing about the mons
        assert await shown() == (Light.OK, Source.MANAGER, [])
        (program.home / "refused").unlink()

        program.says(recorded("status.mgr-killed"), 0, 1, 2)
        manager.faults.add(Fault(where=LOOK, how=How.DROP, times=1))
        assert await shown() == (Light.WARN, Source.MONS, ["MGR_DOWN"])
        newest = await observations.newest("ceph")
        assert [osd.up for osd in newest.look.observation.osds.all] == [True] * 3 + [False] * 3
        assert "did not answer GET health/full" in newest.trouble
        program.says(recorded("status.mgr-just-killed"), *range(6))
        assert await shown() == (Light.OK, Source.MANAGER, [])
