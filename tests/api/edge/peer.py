"""The other end of a notify stream, as existing resource managers and their like are: made of the
contract alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc.aio
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from protos.gen.edge import (
    app_inst_pb2,
    app_pb2,
    cloudlet_pb2,
    cluster_pb2,
    clusterinst_pb2,
    flavor_pb2,
)
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub
from tests.support.load import limit

SECONDS = 40
KINDS: tuple[Any, ...] = (
    *(flavor_pb2.Flavor, cloudlet_pb2.Cloudlet, cluster_pb2.Cluster, app_pb2.App),
    *(clusterinst_pb2.ClusterInst, app_inst_pb2.AppInst),
)


class Peer:
    """A stream, and what it has been told: notices in order, and what there is by its name."""

    def __init__(self, channel: grpc.aio.Channel, *, filtered: bool = False) -> None:
        self.notices: list[Notice] = []
        self.there: dict[str, dict[str, Any]] = {each.DESCRIPTOR.name: {} for each in KINDS}
        self.messages: list[Packed] = []
        self._told = asyncio.Condition()
        self._to_say: asyncio.Queue[Notice | None] = asyncio.Queue()
        self.say(
            Notice(
                action=VERSION,
                version=1,
                want_objs=[each.DESCRIPTOR.full_name for each in KINDS],
                filter_cloudlet_key=filtered,
            )
        )
        self.call = NotifyApiStub(channel).StreamNotice(self._said())
        self._reading = asyncio.create_task(self._read())

    def say(self, notice: Notice) -> None:
        self._to_say.put_nowait(notice)

    def tell(self, message: Message, action: Any = UPDATE) -> None:
        """Say that there is this, or that it is gone."""
        name = message.DESCRIPTOR.full_name
        packed = Packed(type_url=f"type.googleapis.com/{name}", value=message.SerializeToString())
        self.say(Notice(action=action, any=packed))

    async def until(self, true: Callable[[], object], seconds: float = SECONDS) -> None:
        """Wait until what has been told makes something true."""
        async with limit(seconds), self._told:
            await self._told.wait_for(true)

    async def synced(self) -> None:
        await self.until(lambda: any(each.action == SENDALL_END for each in self.notices))

    def names(self, kind: str) -> set[str]:
        return set(self.there[kind])

    async def lose(self) -> None:
        """Be gone without a word."""
        self.call.cancel()
        await asyncio.wait([self._reading])

    async def close(self) -> None:
        """End one's own half, and wait for the other to end."""
        self._to_say.put_nowait(None)
        await asyncio.wait([self._reading], timeout=SECONDS)

    async def _said(self) -> AsyncIterator[Notice]:
        while (notice := await self._to_say.get()) is not None:
            yield notice

    async def _read(self) -> None:
        with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            async for notice in self.call:
                async with self._told:
                    self._take(notice)
                    self._told.notify_all()

    def _take(self, notice: Notice) -> None:
        self.notices.append(notice)
        kind = notice.any.type_url.rpartition(".")[2]
        if kind not in self.there:
            self.messages.append(notice.any)
            return
        [message] = [each for each in KINDS if each.DESCRIPTOR.name == kind]
        said = message.FromString(notice.any.value)
        name = _named(said.key)
        if notice.action == DELETE:
            self.there[kind].pop(name, None)
        else:
            self.there[kind][name] = said


def _named(key: Any) -> str:
    """What something is called in a test."""
    match key:
        case app_inst_pb2.AppInstKey():
            return f"{key.app_key.name}@{key.cluster_inst_key.cluster_key.name}"
        case clusterinst_pb2.ClusterInstKey():
            return str(key.cluster_key.name)
    return str(key.name)
