"""Only who described a cloudlet last is listened to about what is on it, by what stands in the rows
when the word is written."""

import pytest

from domain.cloudlet_info import CloudletInfo, CloudletState, Speaker
from domain.key_text import appinst_text, cloudlet_text
from domain.operation import Ask
from domain.override import Override
from domain.record import Noun, Record
from domain.standing import Report
from domain.tracking import Phase
from store.engine import Database
from store.tail import Tail
from tests.workflows.edge import WEST, Site, appinst_key, described

ASK = Ask(method="test")
KEY = appinst_text(appinst_key("shop"))
WORDS = Record(noun=Noun.APP_INST_INFO, key=KEY, value=b"words")


def speaker(stream: int, controller: str) -> Speaker:
    return Speaker(cloudlet=cloudlet_text(WEST), stream=stream, controller=controller)


async def spoken_for(database: Database, stream: int, controller: str) -> Site:
    """A site where an app is to be deleted, and whose cloudlet is described by a stream."""
    site = described(database, Tail(database))
    await site.describe()
    await site.create_cluster(override=Override.CRM)
    await site.create_app(override=Override.CRM)
    await site.delete_app()
    info = CloudletInfo(
        key=WEST, state=CloudletState.READY, stream=stream, controller=controller
    ).model_dump_json()
    record = Record(
        noun=Noun.CLOUDLET_INFO, key=cloudlet_text(WEST), value=info.encode(), facts=info
    )
    await site.shelf.put(Noun.CLOUDLET_INFO, record.key, lambda _: record, ASK)
    return site


@pytest.mark.parametrize(("stream", "controller"), [(1, "b"), (2, "a")])
async def test_who_was_displaced_is_not_listened_to(
    database: Database, stream: int, controller: str
) -> None:
    site = await spoken_for(database, 2, "b")
    older, newer = speaker(stream, controller), speaker(2, "b")
    report = Report(key=KEY, phase=Phase.DELETING)
    assert await site.apps.observe(report, WORDS, older) is None
    assert await site.apps.forget(KEY, older) is None
    assert (await site.phases())["shop@blue"] is Phase.DELETE_REQUESTED
    assert await site.shelf.get(WORDS.noun, KEY) is None
    await site.apps.observe(report, WORDS, newer)
    assert (await site.phases())["shop@blue"] is Phase.DELETING
    await site.apps.forget(KEY, older)
    assert await site.shelf.get(WORDS.noun, KEY) == WORDS.value
    await site.apps.forget(KEY, newer)
    assert "shop@blue" not in await site.phases()
    assert await site.shelf.get(WORDS.noun, KEY) is None


async def test_what_came_another_way_displaces_nobody(database: Database) -> None:
    site = await spoken_for(database, 0, "")
    await site.apps.forget(KEY, speaker(1, "a"))
    assert "shop@blue" not in await site.phases()
