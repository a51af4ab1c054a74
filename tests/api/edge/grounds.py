"""A server of one mode with everything in place that a refusal can be about, and nobody who carries
anything out. All who ask share it, since a refusal changes nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import update

from api import build
from api.__main__ import Api
from api.edge import keys
from api.launch import client
from domain.usage import FIRST, LAST
from protos.gen.edge import app_pb2, cloudlet_pb2, common_pb2
from protos.gen.edge.flavor_pb2 import FlavorKey
from settings import Edge as Terms
from settings import Settings, Temporal
from store import schema
from store.cloudlet_refs import written_ports
from store.edge_rows import CloudletRefsRow
from store.engine import Database
from tests.api.caller import NOBODY, Caller
from tests.api.edge.stubs import (
    Edge,
    app,
    appinst,
    cloudlet,
    clusterinst,
    developer,
    flavor,
    info,
    operator,
    template,
)
from tests.store.desk import until
from tests.support.load import limit

NOBODY_ASKED: dict[str, Any] = {"crm_override": common_pb2.IGNORE_CRM}
DEDICATED = common_pb2.IP_ACCESS_DEDICATED
VM: dict[str, Any] = {
    "image_type": app_pb2.IMAGE_TYPE_QCOW,
    "image_path": "http://images/x.qcow2#md5:1",
    "access_ports": "",
}

SITE: list[tuple[str, Any]] = [
    ("CreateFlavor", flavor()),
    ("CreateFlavor", flavor("vast", ram=999_999)),
    ("CreateFlavor", flavor("pinned")),
    ("CreateFlavor", flavor("worn")),
    ("CreateFlavor", flavor("lent")),
    *(("CreateCloudlet", cloudlet(name)) for name in ("west", "mute", "off", "dim", "crammed")),
    ("CreateCloudlet", cloudlet("tiny", num_dynamic_ips=1)),
    ("CreateCloudlet", cloudlet("lone")),
    *(("InjectCloudletInfo", info(name)) for name in ("west", "tiny", "lone", "crammed")),
    ("InjectCloudletInfo", info("off", state=cloudlet_pb2.CLOUDLET_STATE_OFFLINE)),
    ("InjectCloudletInfo", info("dim", state=cloudlet_pb2.CLOUDLET_STATE_UNKNOWN)),
    ("InjectCloudletInfo", info("nowhere")),
    ("CreateCluster", template("blue")),
    ("CreateApp", app()),
    ("CreateApp", app("machine", **VM)),
    ("CreateApp", app("dock", deployment="docker")),
    ("CreateApp", app("worn", default_flavor=FlavorKey(name="pinned"))),
    ("CreateApp", app("shell", access_ports="tcp:22")),
    ("CreateDeveloper", developer()),
    ("CreateOperator", operator("tele")),
    ("CreateClusterInst", clusterinst(**NOBODY_ASKED)),
    ("CreateClusterInst", clusterinst("worn", flavor=FlavorKey(name="worn"), **NOBODY_ASKED)),
    (
        "CreateClusterInst",
        clusterinst("sole", num_masters=0, num_nodes=0, deployment="docker", **NOBODY_ASKED),
    ),
    *(
        ("CreateClusterInst", clusterinst(name, key={"place": name}, **NOBODY_ASKED))
        for name in ("lone", "crammed")
    ),
    ("CreateAppInst", appinst(flavor=FlavorKey(name="lent"), **NOBODY_ASKED)),
    ("CreateAppInst", appinst("machine", "", **NOBODY_ASKED)),
]
"""What there is. `off` is offline, `dim` says nothing of its state, `mute` has no resource manager,
`nowhere` is no cloudlet, and of `crammed` all public ports are taken."""

HANGING: list[tuple[str, Any]] = [
    ("CreateClusterInst", clusterinst("busy")),
    ("CreateAppInst", appinst("worn")),
]
"""What is begun and never ends, since nobody does it."""

CROWD: list[tuple[str, Any]] = [
    ("CreateCloudlet", cloudlet("crowd")),
    ("InjectCloudletInfo", info("crowd")),
    *(
        (
            "CreateClusterInst",
            clusterinst(name, key={"place": "crowd"}, ip_access=DEDICATED, **NOBODY_ASKED),
        )
        for name in ("one", "two")
    ),
]
"""A cloudlet with addresses in use."""


@asynccontextmanager
async def standing(home: Path, *, legacy: bool) -> AsyncIterator[Edge]:
    """The server, as a client of it has it."""
    url = f"sqlite+aiosqlite:///{home}/windlass.db"
    await schema.upgrade(url)
    settings = Settings(
        database=url,
        key_file=home / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address=NOBODY),
        edge=Terms(legacy_codes=legacy),
    )
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    caller = Caller((await api.start())[0])
    edge = Edge(caller.channel)
    await prepared(edge, SITE)
    for method, request in HANGING:
        await begun(edge, method, request)
    await prepared(edge, CROWD)
    await cram(url)
    yield edge
    await caller.close()
    await api.stop()


async def cram(url: str) -> None:
    """Have all ports of a cloudlet taken that are kept for those whose own is not to be had."""
    ports = written_ports(dict.fromkeys(range(FIRST, LAST + 1), 1))
    database, key = Database(url), keys.of(cloudlet("crammed"))
    async with database.session(writes=True) as session:
        row = update(CloudletRefsRow).where(CloudletRefsRow.cloudlet == key)
        await session.execute(row.values(ports=ports))
    await database.close()


async def prepared(edge: Edge, calls: Sequence[tuple[str, Any]]) -> None:
    for method, request in calls:
        await edge(method, request)


async def begun(edge: Edge, method: str, request: Any) -> None:
    """Ask for something and hang up once it is accepted."""
    noun = method.removeprefix("Create")
    stream = edge.stream(method, request)
    reading = asyncio.ensure_future(anext(stream))

    async def there() -> bool:
        return bool(await edge(f"Show{noun}", type(request)(key=request.key)))

    async with limit(20):
        await until(there)
    reading.cancel()
    await asyncio.wait([reading])
