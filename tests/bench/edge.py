"""Cloudlets to measure on, and a resource manager for all of them that is done at once."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import grpc.aio

from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
from protos.gen.edge.common_pb2 import CREATE_REQUESTED, CREATING, IGNORE_CRM, READY
from protos.gen.edge.notice_pb2 import UPDATE, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from tests.api.edge import stubs
from tests.api.edge.stubs import Edge

READY_SECONDS = 60.0
LOOK_SECONDS = 0.05
AT_ONCE = 16
WANTED = ["edgeproto.Cloudlet", "edgeproto.AppInst"]
TO_BE_MADE = frozenset({CREATE_REQUESTED, CREATING})


def place_name(number: int) -> str:
    return f"place-{number:03}"


def app_name(number: int) -> str:
    return f"app-{number:04}"


def instance(app: int, place: int) -> AppInst:
    """An instance of one of the apps, in the cluster of one of the cloudlets."""
    return stubs.appinst(app_name(app), key={"place": place_name(place)})


def instances(places: int, *, first: int = 0) -> Iterator[AppInst]:
    """One after the other, each on another cloudlet than the one before."""
    return (instance(number // places, number % places) for number in count(first))


@asynccontextmanager
async def edge_of(address: str, *, places: int, apps: int) -> AsyncIterator[Edge]:
    """So many cloudlets with a cluster each, and so many apps to run there. Whatever is asked for
    is READY as soon as their resource manager has heard of it."""
    async with grpc.aio.insecure_channel(address) as channel:
        edge = Edge(channel)
        await _describe(edge, places, apps)
        managing = asyncio.create_task(_manage(channel, [*map(place_name, range(places))]))
        try:
            await _connected(edge, places, managing)
            keys = [{"place": place_name(number)} for number in range(places)]
            clusters = [stubs.clusterinst(key=key, crm_override=IGNORE_CRM) for key in keys]
            await _all(edge, "CreateClusterInst", clusters)
            yield edge
        finally:
            managing.cancel()
            with suppress(asyncio.CancelledError):
                await managing


async def _describe(edge: Edge, places: int, apps: int) -> None:
    await edge("CreateDeveloper", stubs.developer())
    await edge("CreateOperator", stubs.operator())
    await edge("CreateFlavor", stubs.flavor())
    there = [stubs.cloudlet(place_name(number)) for number in range(places)]
    await _all(edge, "CreateCloudlet", there)
    await _all(edge, "CreateApp", [stubs.app(app_name(number)) for number in range(apps)])


async def _all(edge: Edge, method: str, requests: Sequence[Any]) -> None:
    """Some of them at a time."""
    for begin in range(0, len(requests), AT_ONCE):
        await asyncio.gather(
            *(edge(method, request) for request in requests[begin : begin + AT_ONCE])
        )


async def _manage(channel: grpc.aio.Channel, places: Iterable[str]) -> None:
    """Speak for cloudlets, and say of every instance that is to be made that it is."""
    said = [_told(CloudletInfo, stubs.info(place)) for place in places]
    call = NotifyApiStub(channel).StreamNotice()
    await call.write(Notice(action=VERSION, version=1, want_objs=WANTED))
    for notice in said:
        await call.write(notice)
    async for notice in call:
        if not notice.any.type_url.endswith(".AppInst"):
            continue
        told = AppInst.FromString(notice.any.value)
        if told.state in TO_BE_MADE:
            await call.write(_told(AppInstInfo, AppInstInfo(key=told.key, state=READY)))


def _told(kind: Any, message: Any) -> Notice:
    notice = Notice(action=UPDATE)
    notice.any.type_url = f"type.googleapis.com/{kind.DESCRIPTOR.full_name}"
    notice.any.value = message.SerializeToString()
    return notice


async def _connected(edge: Edge, places: int, managing: "asyncio.Task[None]") -> None:
    """Return once all of the cloudlets are spoken for."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            if managing.done():
                await managing
            infos = await edge("ShowCloudletInfo", CloudletInfo())
            if [each.state for each in infos] == [CLOUDLET_STATE_READY] * places:
                return
            await asyncio.sleep(LOOK_SECONDS)
