"""The other end of a resource manager's stream, as a test wants it: what it tells is said by the
test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInstInfo
from protos.gen.edge.common_pb2 import TrackedState
from protos.gen.edge.node_pb2 import Node
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiServicer
from tests.support.load import limit

SECONDS = 40


class Controller(NotifyApiServicer):
    def __init__(self) -> None:
        self.hellos: list[Notice] = []
        self.infos: dict[str, Any] = {}
        self.said: list[str] = []
        self.everything = 0
        self._heard = asyncio.Condition()
        self._to_say: asyncio.Queue[Notice] = asyncio.Queue()

    async def StreamNotice(  # noqa: N802 (the contract says so)
        self, request_iterator: AsyncIterator[Notice], _context: Any
    ) -> AsyncIterator[Notice]:
        self.hellos.append(await anext(request_iterator))
        yield Notice(action=VERSION, version=1)
        self._to_say = asyncio.Queue()
        reading = asyncio.create_task(self._read(request_iterator))
        try:
            while True:
                yield await self._to_say.get()
        finally:
            reading.cancel()

    def tell(self, message: Message | None, action: Any = UPDATE) -> None:
        packed = Packed()
        if message is not None:
            packed.Pack(message)
        self._to_say.put_nowait(Notice(action=action, any=packed))

    async def until(self, true: Callable[[], object]) -> None:
        async with limit(SECONDS), self._heard:
            await self._heard.wait_for(true)

    async def _read(self, notices: AsyncIterator[Notice]) -> None:
        async for notice in notices:
            async with self._heard:
                self._hear(notice)
                self._heard.notify_all()

    def _hear(self, notice: Notice) -> None:
        if notice.action == SENDALL_END:
            self.everything += 1
            return
        for kind in (CloudletInfo, Node, ClusterInstInfo):
            if notice.any.Is(kind.DESCRIPTOR):
                said: Any = kind()
                notice.any.Unpack(said)
                name = kind.DESCRIPTOR.name
                self.infos[name] = None if notice.action == DELETE else said
                if kind is ClusterInstInfo:
                    self.said.append(TrackedState.Name(said.state))
