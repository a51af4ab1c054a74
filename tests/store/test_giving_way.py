"""What runs of an app gives way to its cloudlet as the app does by now, and not as it did when that
began to run."""

import asyncio

from sqlalchemy import select

from domain import key_text
from domain.app import App, ImageType
from domain.operation import Ask
from domain.override import Override
from domain.record import Noun, Record
from store.apps import Apps
from store.engine import Database
from store.rows import LinkRow
from store.tail import Tail
from tests.workflows.edge import Site, appinst_key, described

ASK = Ask(method="test")
ROUNDS = 15


def box(*, yields: bool) -> Record:
    """An app that needs no cluster."""
    facts = App(
        developer="acme",
        name="box",
        version="1.0",
        image_type=ImageType.QCOW,
        default_flavor="small",
        deployment="vm",
        auto_delete=yields,
    ).model_dump_json()
    key = key_text.app_text(appinst_key("box"))
    return Record(noun=Noun.APP, key=key, value=facts.encode(), facts=facts)


async def running(database: Database) -> Site:
    """A site with an app of which one runs, and which gives way."""
    site = described(database, Tail(database))
    await site.describe()
    await Apps(database).create(box(yields=True), None, [], ASK)
    await site.create_app("box", "", Override.CRM)
    return site


async def turn(database: Database, *, yields: bool) -> None:
    before, after = box(yields=not yields), box(yields=yields)
    assert await Apps(database).replace(before, after, None, [], ASK)


async def test_what_became_firm_keeps_its_cloudlet(database: Database) -> None:
    site = await running(database)
    await turn(database, yields=False)
    refusal = "Cloudlet in use by static Application Instance"
    assert await site.delete_cloudlet_refused() == refusal
    await turn(database, yields=True)
    assert await site.delete_cloudlet() is not None


async def test_what_is_made_meanwhile_gives_way_like_the_others(database: Database) -> None:
    site = await running(database)
    yields = True
    for number in range(ROUNDS):
        yields = not yields
        await asyncio.gather(
            site.create_app("box", f"c{number}", Override.CRM), turn(database, yields=yields)
        )
        of_places = select(LinkRow.yields).where(
            LinkRow.noun == Noun.APP_INST, LinkRow.target_noun == Noun.CLOUDLET
        )
        async with database.session(writes=False) as session:
            assert set(await session.scalars(of_places)) == {yields}
