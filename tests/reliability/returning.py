"""A resource manager with ten thousand instances that loses its connection, and comes back when
some of them are gone and others are there."""

import asyncio
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from agent.crm.crm import Crm
from agent.crm.replica import ident
from api.edge import convert
from domain.operation import Ask
from domain.record import Record
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.app_pb2 import App
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.common_pb2 import IGNORE_CRM
from sim.crm import practice
from sim.faults import Faults
from store.engine import Database
from store.shelf import Shelf
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge
from tests.bench.edge import app_name, instance, place_name
from tests.bench.stocked import stock
from tests.reliability.crowd import PATIENCE_SECONDS, Cable
from tests.reliability.outcome import say
from tests.support.load import limit

CHANGED = 50
"""So many go while it is away, and as many come."""

WRITERS = 50
LOOK_SECONDS = 0.05
PLACE = stubs.cloudlet(place_name(0))

Known = Mapping[bytes, bytes]
"""Instances by their keys, each in the words of the contract."""


class Return(NamedTuple):
    told_seconds: float
    """Until it knew all of them, when it first was told."""
    back_seconds: float
    """The same once it was back."""
    broken: list[str]


async def write(shelf: Shelf, records: Iterable[Record]) -> None:
    """Have these records there, past the door."""
    waiting = list(records)

    async def some() -> None:
        while waiting:
            await shelf.create(waiting.pop(), [], Ask(method="drill"))

    await asyncio.gather(*(some() for _ in range(WRITERS)))


async def returned(edge: Edge, database: str, address: str, instances: int) -> Return:
    """Have so many instances on one cloudlet, whose resource manager comes, goes and is back."""
    async with Cable.laid(address) as cable:
        crm = practice(PLACE.key, [cable.address], Faults())
        managing = asyncio.create_task(crm.run())
        try:
            await _stocked(edge, database, instances)
            say(f"{instances} instances are there")
            crm.stream.lose()
            told = await _until_knows(crm, await _shown(edge))
            with cable.cut():
                crm.stream.lose()
                await _change(edge, instances)
                wanted = await _shown(edge)
            back = await _until_knows(crm, wanted)
        finally:
            managing.cancel()
            await asyncio.wait([managing])
    return Return(told, back, _differing(crm, wanted))


async def _stocked(edge: Edge, database: str, instances: int) -> None:
    """One is made by calls, the others are copies of it, past the door."""
    await edge("CreateFlavor", stubs.flavor())
    await edge("CreateCloudlet", PLACE)
    await edge("CreateApp", stubs.app(app_name(0)))
    await _until_ready(edge)
    key = {"place": place_name(0)}
    await edge("CreateClusterInst", stubs.clusterinst(key=key, crm_override=IGNORE_CRM))
    await edge("CreateAppInst", _at_once(0))
    [app] = await edge("ShowApp", App())
    opened = Database(database)
    await write(Shelf(opened), (_app_like(app, number) for number in range(1, instances)))
    await opened.close()
    await stock(database, instances, places=1)


def _app_like(app: App, number: int) -> Record:
    other = App.FromString(app.SerializeToString())
    other.key.name = app_name(number)
    return convert.kept_app(other)


async def _change(edge: Edge, instances: int) -> None:
    """What happens while it is away. Nobody waits for it."""
    for number in range(CHANGED):
        await edge("DeleteAppInst", _at_once(number))
        await edge("CreateApp", stubs.app(app_name(instances + number)))
        await edge("CreateAppInst", _at_once(instances + number))


def _at_once(number: int) -> AppInst:
    wanted = instance(number, 0)
    wanted.crm_override = IGNORE_CRM
    return wanted


async def _shown(edge: Edge) -> Known:
    shown: list[Any] = await edge("ShowAppInst", AppInst(), timeout=PATIENCE_SECONDS)
    return {ident(each.key): _words(each) for each in shown}


def _words(message: AppInst) -> bytes:
    return message.SerializeToString(deterministic=True)


async def _until_knows(crm: Crm, wanted: Known) -> float:
    """How long it takes until it knows these and no others."""
    began = monotonic()
    async with limit(PATIENCE_SECONDS):
        while True:
            if crm.replica.keys(AppInst) == wanted.keys():
                return monotonic() - began
            await asyncio.sleep(LOOK_SECONDS)


def _differing(crm: Crm, wanted: Known) -> list[str]:
    """What it knows otherwise than it is, and the apps that it was not told of."""
    there = [each for each in crm.replica.instances() if isinstance(each, AppInst)]
    other = [each for each in there if wanted[ident(each.key)] != _words(each)]
    unknown = [each for each in there if crm.replica.app(each.key.app_key) is None]
    return [
        *([f"{len(other)} instances are known otherwise than they are"] if other else []),
        *([f"{len(unknown)} instances are of apps that are not known"] if unknown else []),
    ]


async def _until_ready(edge: Edge) -> None:
    async with limit(PATIENCE_SECONDS):
        while True:
            infos = await edge("ShowCloudletInfo", CloudletInfo(key=PLACE.key))
            if [each.state for each in infos] == [CLOUDLET_STATE_READY]:
                return
            await asyncio.sleep(LOOK_SECONDS)
