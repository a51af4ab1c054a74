"""Who is alive, and for how long."""

from datetime import timedelta

from domain.cloudlet import CloudletKey
from domain.cloudlet_info import CloudletInfo, CloudletState
from domain.operation import Ask
from domain.record import Link, Noun, Record
from store.controllers import Controllers
from store.engine import Database
from store.shelf import Shelf

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


async def test_what_was_said_to_a_controller_goes_with_it(database: Database) -> None:
    controllers, shelf = Controllers(database), Shelf(database)

    async def said(cloudlet: str, controller: str) -> None:
        link = Link(to=Noun.CONTROLLER, key=controller, yields=True)
        info = Record(noun=Noun.CLOUDLET_INFO, key=cloudlet, value=b"", links=(link,))
        await shelf.put(Noun.CLOUDLET_INFO, cloudlet, lambda _: info, Ask(method="any"))

    async def known() -> list[str]:
        return [kept.key for kept in await shelf.page(Noun.CLOUDLET_INFO, "", 10)]

    await controllers.enter("b:1", LONG)
    await controllers.enter("a:1", OVER)
    await said("of a", "a:1")
    await said("of b", "b:1")
    assert await controllers.keep("b:1", LONG)
    assert await known() == ["of b"]
    assert not await controllers.keep("a:1", LONG)
    await controllers.enter("b:1", LONG)  # it was killed and started again
    assert await known() == []


async def test_what_was_said_to_a_controller_goes_when_it_starts_again(database: Database) -> None:
    """Also when it had left by itself, so that no row of it is there any more."""
    controllers, shelf = Controllers(database), Shelf(database)
    west = CloudletKey(operator="tele", name="west")
    info = CloudletInfo(key=west, state=CloudletState.OFFLINE, stream=7, controller="host@a:1")
    link = Link(to=Noun.CONTROLLER, key="a:1", yields=True)
    facts = info.model_dump_json()
    record = Record(noun=Noun.CLOUDLET_INFO, key="west", value=b"", links=(link,), facts=facts)
    assert await controllers.enter("a:1", LONG) == 0
    await shelf.put(Noun.CLOUDLET_INFO, "west", lambda _: record, Ask(method="any"))
    await controllers.leave("a:1")
    assert [kept.key for kept in await shelf.page(Noun.CLOUDLET_INFO, "", 10)] == ["west"]
    assert await controllers.enter("a:1", LONG) == 7
    assert await shelf.page(Noun.CLOUDLET_INFO, "", 10) == []
