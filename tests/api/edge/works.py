"""A site that is served twice, as it is and with legacy codes, with workers and a resource manager
at work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import grpc.aio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.client import Client

from api import build
from api.__main__ import Api
from protos.gen.edge import app_pb2
from settings import Edge as Terms
from settings import Settings, Temporal
from store import schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from store.tail import Tail
from tests.api.caller import Caller, Refusal, read
from tests.api.edge.stubs import Edge, app, at, cloudlet, flavor, info
from tests.workflows.edge import Site, described
from tests.workflows.yard import yard


class Served(NamedTuple):
    proper: Edge
    legacy: Edge
    site: Site
    address: str
    """Where the first of them is."""


@asynccontextmanager
async def serving(temporal: Client, home: Path) -> AsyncIterator[Served]:
    url = f"sqlite+aiosqlite:///{home}/windlass.db"
    await schema.upgrade(url)
    database, prefix = Database(url), f"{uuid4().hex[:8]}-"
    seal = Seal(AESGCM.generate_key(bit_length=256))
    tail = Tail(database)
    site = described(database, tail, None, temporal, prefix)
    apis = [
        Api(
            Settings(
                database=url,
                key_file=home / "seal.key",
                grpc_address="127.0.0.1:0",
                http_address="127.0.0.1:0",
                temporal=Temporal(queue_prefix=prefix),
                edge=Terms(legacy_codes=legacy),
            ),
            temporal,
            build.Build(),
        )
        for legacy in (False, True)
    ]
    callers = [Caller((await api.start())[0]) for api in apis]
    edges = [Edge(caller.channel) for caller in callers]
    async with yard(temporal, database, Secrets(database, seal), prefix):
        managing = asyncio.create_task(site.manage())
        for method, request in (
            ("CreateFlavor", flavor("tiny", ram=1024, vcpus=1, disk=1)),
            ("CreateFlavor", flavor()),
            ("CreateFlavor", flavor("medium", ram=4096, vcpus=4, disk=4)),
            ("CreateCloudlet", cloudlet(location=at(47.5, 19, altitude=9))),
            ("InjectCloudletInfo", info()),
            ("CreateApp", app(access_ports="http:443,tcp:10002,udp:10002")),
            ("CreateApp", app("other", access_ports="tcp:80,http:443")),
            ("CreateApp", app("agent", access_ports="", del_opt=app_pb2.AUTO_DELETE)),
        ):
            await edges[0](method, request)
        yield Served(edges[0], edges[1], site, callers[0].address)
        managing.cancel()
        await asyncio.wait([managing])
        for caller, api in zip(callers, apis, strict=True):
            await caller.close()
            await api.stop()
    await tail.close()
    await database.close()


async def followed(
    edge: Edge, method: str, request: object
) -> tuple[tuple[str, ...], Refusal | None]:
    """What a stream tells, and how it fails if it does."""
    heard: list[str] = []
    try:
        async for result in edge.stream(method, request):
            heard += [result.message]
    except grpc.aio.AioRpcError as error:
        return tuple(heard), read(error)
    return tuple(heard), None
