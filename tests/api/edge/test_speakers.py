"""Who speaks for a cloudlet, while the database is away."""

import pytest

from api.edge import streams
from api.edge.streams import Streams
from domain.errors import Unavailable
from domain.operation import Ask
from domain.record import Noun, Record
from store.engine import Database
from store.lookout import Lookout
from store.shelf import Shelf
from tests.store.desk import until
from tests.support.load import limit

WEST = '{"operator_key":{"name":"tele"},"name":"west"}'


async def test_who_lost_a_cloudlet_is_found_out_as_soon_as_that_can_be_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "AGAIN_SECONDS", 0.01)
    away = [Unavailable("the database did not answer")] * 2

    async def described(_cloudlet: str) -> int:
        """By a stream elsewhere."""
        if away:
            raise away.pop()
        return 0

    held = Streams(Lookout(database), described)
    async with held.opened([], filtered=True) as stream, limit(20):
        held.claim(stream, WEST)
        held.tell(stream, WEST)
        info = Record(noun=Noun.CLOUDLET_INFO, key=WEST, value=b"")
        await Shelf(database).create(info, [], Ask(method="test"))
        await until(lambda: held.owner(WEST) is None)
        assert not stream.cloudlets
