"""Two API processes at one address: the second is refused while the first is alive."""

import asyncio
from datetime import timedelta
from time import monotonic

import pytest

from api.edge.presence import Presence
from domain.errors import Conflict
from domain.operation import Ask
from domain.record import Link, Noun, Record
from store.claim import Claim
from store.controllers import Controllers
from store.engine import Database
from store.shelf import Shelf
from tests.programs.running import ended, running, told

pytestmark = pytest.mark.timeout(300)

API = ("-m", "api")
EXTERNAL = "api.example:443"
LEASE = timedelta(minutes=1)
TAKE_OVER_SECONDS = 1.0


@pytest.fixture
def known(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "WINDLASS_EDGE__EXTERNAL_ADDRESS": EXTERNAL}


async def infos(database: Database) -> list[str]:
    return [kept.key for kept in await Shelf(database).page(Noun.CLOUDLET_INFO, "", 10)]


async def reported(database: Database, key: str) -> None:
    """What a resource manager told the process at the address."""
    link = Link(to=Noun.CONTROLLER, key=EXTERNAL, yields=True)
    info = Record(noun=Noun.CLOUDLET_INFO, key=key, value=b"", links=(link,))
    await Shelf(database).put(Noun.CLOUDLET_INFO, key, lambda _: info, Ask(method="any"))


async def test_b6_a_second_process_at_an_address_is_refused_while_the_first_is_alive(
    known: dict[str, str], database: Database
) -> None:
    """What was told to the first one stays, and nobody could call the second one."""
    first = Claim(database, EXTERNAL)
    assert await first.take()
    await Controllers(database).enter(EXTERNAL, LEASE)
    await reported(database, "west")
    said = "\n".join((await ended(*API, environment=known)).refusal)
    assert f"another API process is alive that serves as {EXTERNAL}" in said
    assert "WINDLASS_EDGE__EXTERNAL_ADDRESS" in said
    assert await infos(database) == ["west"]
    await first.release()


async def test_b6_who_was_killed_and_comes_back_takes_over_at_once(database: Database) -> None:
    """It need not wait for its lease, of which there is a minute left."""
    dead = Claim(database, EXTERNAL)
    assert await dead.take()
    assert await dead.take()
    back = Claim(database, EXTERNAL)
    assert not await back.take()
    await dead.release()
    begun = monotonic()
    while not await back.take():  # noqa: ASYNC110 - nobody announces it
        await asyncio.sleep(0.01)
    assert monotonic() - begun < 30
    await back.release()


async def test_b6_a_process_that_was_killed_leaves_its_address_free(
    known: dict[str, str], database: Database
) -> None:
    async with running(*API, environment=known) as first:
        await told(first, "ready")
        claim = Claim(database, EXTERNAL)
        assert not await claim.take()
        await reported(database, "west")
        first.kill()
        await first.wait()
        begun = monotonic()
        while not await claim.take():  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.01)
        passed = monotonic() - begun
        assert passed < TAKE_OVER_SECONDS * 10  # of a machine that is busy
    presence = Presence(Controllers(database), LEASE, _at_once)
    keeping = asyncio.create_task(presence.run(EXTERNAL))
    await presence.entered()
    assert await infos(database) == []
    keeping.cancel()
    await asyncio.wait([keeping])
    await claim.release()


async def test_b6_who_finds_its_address_taken_once_the_database_is_back_says_so(
    database: Database,
) -> None:
    first, presence = (
        Claim(database, EXTERNAL),
        Presence(
            Controllers(database),
            LEASE,
            _at_once,
            claims=lambda address: Claim(database, address),
        ),
    )
    assert await first.take()
    with pytest.raises(Conflict):
        await presence.claim(EXTERNAL)
    keeping = asyncio.create_task(presence.run(EXTERNAL))
    await asyncio.wait_for(presence.refused.wait(), 120)
    assert await Controllers(database).alive() == []
    keeping.cancel()
    await asyncio.wait([keeping])
    await presence.close()
    await first.release()


async def _at_once() -> None:
    """Nothing has to be waited for."""
