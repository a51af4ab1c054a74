"""Show of very many: in order, every one once, and with little memory at any time."""

import psutil
import pytest
from sqlalchemy import insert

from domain.record import Noun
from protos.gen.edge.developer_pb2 import Developer
from store.engine import Database
from store.rows import RecordRow, table_of
from tests.api.edge.stubs import Edge, developer

MANY = 100_000
WEIGHT = 1000
"""Bytes of each, so that all of them would be 100 MB."""

MOST_BYTES = 40 * 1024 * 1024

AT_ONCE = 5000


@pytest.mark.timeout(180)
async def test_a_hundred_thousand_stream_in_order(edge: Edge, database: Database) -> None:
    for start in range(0, MANY, AT_ONCE):
        async with database.session(writes=True) as session:
            rows = [_row(number) for number in range(start, start + AT_ONCE)]
            await session.execute(insert(table_of(RecordRow)), rows)
    process = psutil.Process()
    before = most = process.memory_info().rss
    shown, last = 0, ""
    async for each in edge.stream("ShowDeveloper", Developer()):
        assert each.key.name > last
        shown, last = shown + 1, each.key.name
        if shown % 1000 == 0:
            most = max(most, process.memory_info().rss)
    assert shown == MANY
    assert most - before < MOST_BYTES


def _row(number: int) -> dict[str, object]:
    made = developer(f"{number:06}", address="x" * WEIGHT)
    key = f'{{"name":"{made.key.name}"}}'
    value = made.SerializeToString()
    return {"noun": Noun.DEVELOPER, "key": key, "value": value, "facts": ""}
