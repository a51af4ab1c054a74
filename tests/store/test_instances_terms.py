"""What is only asked of instances where an operator wants it."""

import pytest

from domain import key_text
from domain.errors import Conflict, Exhausted
from domain.override import Override
from domain.record import Noun, Record
from store.shelf import Shelf
from store.tracked import Terms
from tests.store.desk import Desk
from tests.workflows.edge import ASK, described

pytestmark = pytest.mark.parametrize("migrated", ["sqlite"], indirect=True)


async def test_a_cloudlet_can_be_full_where_that_counts(desk: Desk) -> None:
    """The site's has said nothing of how much there is, as the first ones did."""
    site = described(desk.database, desk.tail, Terms(enforces=True))
    await site.describe()
    with pytest.raises(Exhausted, match="not enough ram left on the cloudlet"):
        await site.create_cluster(override=Override.CRM)
    generous = described(desk.database, desk.tail)
    assert await generous.create_cluster(override=Override.CRM)
    with pytest.raises(Exhausted, match="not enough ram left on the cloudlet"):
        await site.resize_cluster(nodes=3, override=Override.CRM)
    assert (await site.nodes("blue"), (await site.usage()).ram) == (1, 4096)
    assert await generous.resize_cluster(nodes=3, override=Override.CRM)
    assert await site.resize_cluster(nodes=2, override=Override.CRM)  # it gives something back


async def test_developers_have_to_exist_where_that_counts(desk: Desk) -> None:
    site = described(desk.database, desk.tail, Terms(strict=True))
    await site.describe()
    with pytest.raises(Conflict, match="Specified developer not found"):
        await site.create_cluster(override=Override.CRM)
    key = key_text.name_text("acme")
    strict = Shelf(desk.database, strict=True)
    await strict.create(Record(noun=Noun.DEVELOPER, key=key, value=b""), [], ASK)
    await site.create_cluster(override=Override.CRM)
    with pytest.raises(Conflict, match="Developer in use by ClusterInst"):
        await strict.delete(Noun.DEVELOPER, key, ASK)
    await site.delete_cluster(override=Override.CRM)
    await strict.delete(Noun.DEVELOPER, key, ASK)
