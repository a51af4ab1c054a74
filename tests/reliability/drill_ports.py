"""A thousand apps at once for two hundred ports of one cloudlet, asked for at two API processes on
one database: neither knows what the other is about to give."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

import grpc
import grpc.aio
from sqlalchemy import update

from agent.crm.crm import Crm
from agent.crm.simulated import Simulated
from domain import key_text
from domain.cloudlet import CloudletKey
from domain.usage import FIRST, LAST
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.common_pb2 import IGNORE_CRM, READY
from protos.gen.edge.refs_pb2 import CloudletRefs
from sim.crm import practice
from sim.faults import Faults
from store.cloudlet_refs import written_ports
from store.edge_rows import CloudletRefsRow
from store.engine import Database
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.reliability.installation import EDGE, Installation, installed
from tests.reliability.outcome import Outcome, say
from tests.support.load import limit

PORTS = 200
GIVEN = range(LAST + 1 - PORTS, LAST + 1)
DOORS = ("api", "api-2")
PROGRAMS = ("temporal", "site", *DOORS, "worker-1", "worker-2")
READY_TEXT, REFUSED = "Created successfully", "no free external ports"
REFUSED_CODE = grpc.StatusCode.RESOURCE_EXHAUSTED

PATIENCE_SECONDS = 600
"""Nobody is slow on purpose here: what takes long waits for its turn."""

AT_ONCE = 32
"""Of what is asked for before and after."""

LOOK_SECONDS = 0.05


async def on_sqlite(seed: int) -> Outcome:
    return await drill("ports", seed, postgres=False, apps=400)


async def on_postgresql(seed: int) -> Outcome:
    return await drill("ports-postgresql", seed, postgres=True, apps=1000)


async def drill(name: str, seed: int, *, postgres: bool, apps: int) -> Outcome:
    """Everything is a process of its own, but for the callers and the resource manager; nothing is
    killed here."""
    draw = random.Random(seed)  # noqa: S311 - not to be unguessable but to be repeated
    async with installed(machines=1, draw=draw, postgres=postgres) as there:
        there.said_besides = {f"EDGE__TIMEOUTS__{each}": f"PT{PATIENCE_SECONDS}S" for each in EDGE}
        await there.start(*PROGRAMS)
        async with callers(there) as doors, managed(there) as crm:
            await prepare(there, doors, apps)
            say(f"{name}: {apps} ask at {len(doors)} API processes")
            began = monotonic()
            ends = await asyncio.gather(*(ask(doors, app) for app in range(apps)))
            seconds = monotonic() - began
            found = [
                *told_wrong(ends, apps),
                *await standing_wrong(doors, crm),
                *await left_over(doors, crm),
                *there.fallen(),
            ]
        there.keeps_logs = bool(found)
        by_door = Counter(app % len(doors) for app, end in enumerate(ends) if end == READY_TEXT)
        figures = {
            "seed": seed,
            "seconds": round(seconds, 1),
            "apps": apps,
            "ports": PORTS,
            "ready": by_door.total(),
            "ready_by_process": [by_door[door] for door in range(len(doors))],
            "refused": sum(end.endswith(REFUSED) for end in ends),
        }
        return Outcome(name, figures, found)


@asynccontextmanager
async def callers(there: Installation) -> AsyncIterator[list[Edge]]:
    """Somebody at each API process."""
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(there.doors[door].grpc))
            for door in DOORS
        ]
        yield [Edge(channel) for channel in channels]


@asynccontextmanager
async def managed(there: Installation) -> AsyncIterator[Crm]:
    """A resource manager that is done at once. It is connected to one of the processes, and so
    hears of half of its work from the other."""
    crm = practice(stubs.cloudlet().key, [there.grpc], Faults())
    managing = asyncio.create_task(crm.run())
    try:
        yield crm
    finally:
        managing.cancel()
        await asyncio.wait([managing])


async def prepare(there: Installation, doors: Sequence[Edge], apps: int) -> None:
    """A cluster, as many apps as there will be callers, and just so many ports left."""
    await doors[0]("CreateFlavor", stubs.flavor())
    await doors[0]("CreateCloudlet", stubs.cloudlet())
    wanted = [stubs.app(f"app{number}", access_ports="tcp:22") for number in range(apps)]
    await dealt(doors, "CreateApp", wanted)
    async with limit(PATIENCE_SECONDS):
        while True:
            infos = await doors[0]("ShowCloudletInfo", CloudletInfo())
            if [info.state for info in infos] == [CLOUDLET_STATE_READY]:
                break
            await asyncio.sleep(LOOK_SECONDS)
    await doors[0]("CreateClusterInst", stubs.clusterinst(crm_override=IGNORE_CRM))
    taken = written_ports(dict.fromkeys(range(FIRST, GIVEN.start), 3))
    west = key_text.cloudlet_text(CloudletKey(operator="tele", name="west"))
    database = Database(there.database)
    async with database.session(writes=True) as session:
        its = CloudletRefsRow.cloudlet == west
        await session.execute(update(CloudletRefsRow).where(its).values(ports=taken))
    await database.close()


async def dealt(doors: Sequence[Edge], method: str, requests: Sequence[Any]) -> None:
    """Some of them at a time, at each process in turn."""
    for begin in range(0, len(requests), AT_ONCE):
        some = enumerate(requests[begin : begin + AT_ONCE])
        await asyncio.gather(
            *(doors[n % len(doors)](method, each, timeout=PATIENCE_SECONDS) for n, each in some)
        )


async def ask(doors: Sequence[Edge], number: int) -> str:
    """What a caller is told in the end."""
    door, wanted = doors[number % len(doors)], stubs.appinst(f"app{number}")
    try:
        told = await door("CreateAppInst", wanted, timeout=PATIENCE_SECONDS)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {error.details()}"
    return str(told[-1].message) if told else "nothing"


def told_wrong(ends: Sequence[str], apps: int) -> list[str]:
    wanted = {READY_TEXT: PORTS, f"{REFUSED_CODE.name} {REFUSED}": apps - PORTS}
    told = Counter(ends)
    return [] if told == wanted else [f"callers were told {dict(told)}"]


async def standing_wrong(doors: Sequence[Edge], crm: Crm) -> list[str]:
    """What is not as promised, by what each process shows and by what runs."""
    found = []
    for name, door in zip(DOORS, doors, strict=True):
        shown = await door("ShowAppInst", AppInst(), timeout=PATIENCE_SECONDS)
        given = Counter(port.public_port for each in shown for port in each.mapped_ports)
        if sorted(given) != list(GIVEN) or given.total() != PORTS:
            found.append(f"{name} shows {given.total()} ports, {len(given)} of them different")
        if any(each.state != READY for each in shown):
            found.append(f"not all that {name} shows are READY")
    if (running := len(runs(crm))) != PORTS:
        found.append(f"{running} run")
    return found


async def left_over(doors: Sequence[Edge], crm: Crm) -> list[str]:
    """All is deleted by ordinary calls, at both processes. What is still there then."""
    shown = await doors[0]("ShowAppInst", AppInst(), timeout=PATIENCE_SECONDS)
    await dealt(doors, "DeleteAppInst", shown)
    await doors[0]("DeleteClusterInst", stubs.clusterinst(crm_override=IGNORE_CRM))
    found = []
    for name, door in zip(DOORS, doors, strict=True):
        if await door("ShowAppInst", AppInst()):
            found.append(f"{name} shows instances that were deleted")
        [refs] = await door("ShowCloudletRefs", CloudletRefs())
        if set(refs.root_lb_ports) & set(GIVEN) or refs.used_vcores:
            found.append(f"what was given back is still taken, {name} shows")
    if left := len(runs(crm)):
        found.append(f"{left} still run")
    return found


def runs(crm: Crm) -> dict[str, Sequence[str]]:
    assert isinstance(crm.platform, Simulated)
    return crm.platform.apps
