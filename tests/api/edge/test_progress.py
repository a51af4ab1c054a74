"""Streams of accepted changes go on for as long as what they follow."""

import asyncio
from pathlib import Path
from uuid import uuid4

from sqlalchemy import make_url, select, text
from sqlalchemy.ext.asyncio import create_async_engine
from structlog.testing import capture_logs

from api import build
from api.__main__ import Api
from api.launch import client
from domain.operation import OperationId
from protos.gen.edge.result_pb2 import Result
from settings import Settings, Temporal
from store import schema, tracked
from store.engine import Database
from store.rows import OperationRow
from tests.api.caller import NOBODY, Caller
from tests.api.edge.stubs import Edge, cloudlet, clusterinst, flavor, info
from tests.store.desk import until
from tests.store.wire import wire_to
from tests.support.load import limit


async def made(postgres_url: str) -> str:
    """A database of the test's own."""
    name = f"progress_{uuid4().hex[:8]}"
    engine = create_async_engine(postgres_url, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    await engine.dispose()
    url = make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    await schema.upgrade(url)
    return url


async def accepted(database: Database) -> OperationId:
    """The operation that a create was accepted as."""
    while True:
        async with database.session(writes=False) as session:
            if found := await session.scalar(select(OperationRow.id)):
                return OperationId(found)
        await asyncio.sleep(0.05)


async def test_b20_a_stream_of_an_accepted_create_outlives_a_database_that_is_away(
    postgres_url: str, tmp_path: Path
) -> None:
    direct = await made(postgres_url)
    database = Database(direct)
    async with limit(120), wire_to(make_url(direct)) as (wire, url):
        settings = Settings(
            database=url,
            key_file=tmp_path / "seal.key",
            grpc_address="127.0.0.1:0",
            http_address="127.0.0.1:0",
            temporal=Temporal(address=NOBODY),
        )
        api = Api(settings, await client(NOBODY, settings.temporal.namespace), build.Build())
        caller = Caller((await api.start())[0])
        edge = Edge(caller.channel)
        await edge("CreateFlavor", flavor())
        await edge("CreateCloudlet", cloudlet())
        await edge("InjectCloudletInfo", info())

        async def create() -> list[Result]:
            return [result async for result in edge.stream("CreateClusterInst", clusterinst())]

        creating = asyncio.create_task(create())
        operation = await accepted(database)
        with capture_logs() as logs:
            await wire.cut()
            await until(lambda: any(each["event"].startswith("read again") for each in logs))
        assert not creating.done()
        await wire.mend()
        async with database.session(writes=True) as session:
            await tracked.tell(session, operation, "it is made")
            await tracked.succeed(session, operation)
        assert (await creating)[-1].message == "it is made"
        await caller.close()
        await api.stop()
    await database.close()
