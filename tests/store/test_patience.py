"""Who follows what was accepted waits for a database that does not answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from uuid import uuid4

import pytest
from sqlalchemy import make_url
from structlog.testing import capture_logs

from domain.cluster import Phase
from domain.errors import NotFound, Unavailable
from domain.operation import Event, OperationId, Reached
from store import patience, schema
from store.engine import Database
from store.following import Following
from store.patience import Accepted, read_patiently
from store.sealing import Seal
from store.secrets import Secrets
from store.watches import Watches
from tests.store.desk import Desk, until
from tests.store.wire import Wire, wire_to
from tests.support.load import limit

WAITS = "read again, the database did not answer"
ACCEPTED = Accepted("operation 7", "windlass op watch 7")


@asynccontextmanager
async def remote(postgres_url: str, seal: Seal) -> AsyncIterator[tuple[Wire, Desk]]:
    """A desk whose database is at the end of a wire."""
    await schema.upgrade(postgres_url)
    async with wire_to(make_url(postgres_url)) as (wire, url):
        database = Database(url)
        desk = Desk(database, Secrets(database, seal))
        yield wire, desk
        await desk.close()
        await database.close()


async def rest(desk: Desk, operation: OperationId, after: int, *, accepted: bool) -> list[Event]:
    following = desk.journal.follow(operation, after=after, accepted=accepted)
    return [event async for event in following]


async def test_b20_a_follower_outlives_a_database_that_is_away(
    postgres_url: str, seal: Seal
) -> None:
    async with remote(postgres_url, seal) as (wire, desk):
        operation = await desk.creating(f"c-{uuid4().hex[:8]}")
        async with limit(60), aclosing(desk.journal.follow(operation.id)) as events:
            seen = [await anext(events)]
            await wire.cut()
            following = asyncio.create_task(rest(desk, operation.id, 0, accepted=True))
            with capture_logs() as logs:
                seen += [await anext(events)]  # it had been read
                more = asyncio.create_task(anext(events))
                await until(lambda: sum(each["event"] == WAITS for each in logs) >= 2)
            assert not more.done()
            assert not following.done()
            await wire.mend()
            await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
            assert (await more).last
            assert (await following)[-1].last


async def test_b20_who_begins_to_follow_learns_at_once_that_the_database_is_away(
    postgres_url: str, seal: Seal
) -> None:
    async with remote(postgres_url, seal) as (wire, desk):
        operation = await desk.creating(f"c-{uuid4().hex[:8]}")
        await wire.cut()
        with pytest.raises(Unavailable):
            await rest(desk, operation.id, 0, accepted=False)


async def test_b20_who_follows_a_cluster_outlives_a_database_that_is_away(
    postgres_url: str, seal: Seal
) -> None:
    async with remote(postgres_url, seal) as (wire, desk):
        name = f"c-{uuid4().hex[:8]}"
        operation = await desk.creating(name)
        following = Following(desk.clusters, Watches(desk.database))
        async with limit(60), aclosing(following.follow(name)) as views:
            assert (await anext(views)).cluster.phase is Phase.PROVISIONING
            with capture_logs() as logs:
                more = asyncio.create_task(anext(views))
                await wire.cut()
                await until(lambda: any(each["event"] == WAITS for each in logs))
            await wire.mend()
            await desk.clusters.reach(Reached.well(operation.id, Phase.RUNNING, "ready"))
            assert (await more).cluster.phase is Phase.RUNNING


async def test_b20_a_follower_that_ends_names_the_operation_that_goes_on() -> None:
    async def read() -> None:
        raise Unavailable("the database did not answer", reason="DATABASE_UNAVAILABLE")

    with pytest.raises(Unavailable) as caught:
        await read_patiently(read, ACCEPTED, patience=0)
    error = caught.value
    assert error.message == "the database did not answer; operation 7 goes on"
    assert error.do == "do not ask for it again, windlass op watch 7 shows how it stands"
    assert error.reason == "DATABASE_UNAVAILABLE"


async def test_b20_what_is_not_there_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read() -> None:
        raise NotFound("there is no operation 7")

    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 1e9)
    with pytest.raises(NotFound):
        await read_patiently(read, ACCEPTED)
