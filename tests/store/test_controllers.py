"""Who is alive, and for how long."""

from datetime import timedelta

from store.controllers import Controllers
from store.engine import Database

LONG, OVER = timedelta(minutes=1), timedelta(0)


async def test_who_keeps_the_lease_is_alive(database: Database) -> None:
    controllers = Controllers(database)
    for address in ("b:1", "a:1", "a:1"):
        await controllers.keep(address, LONG)
    assert await controllers.alive() == ["a:1", "b:1"]
    await controllers.leave("a:1")
    await controllers.leave("a:1")
    assert await controllers.alive() == ["b:1"]


async def test_who_lets_it_run_out_is_not_and_may_come_back(database: Database) -> None:
    controllers = Controllers(database)
    await controllers.keep("a:1", OVER)
    assert await controllers.alive() == []
    await controllers.keep("b:1", LONG)
    await controllers.keep("a:1", LONG)
    assert await controllers.alive() == ["a:1", "b:1"]
