"""The stream to a controller: taken up at the next one whenever it ends."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from time import monotonic

import grpc
import grpc.aio
import structlog

from agent.bearing import opened
from agent.crm.replica import KINDS
from agent.crm.reports import Reports
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.notice_pb2 import SENDALL_END, VERSION, Notice
from protos.gen.edge.notice_pb2_grpc import NotifyApiStub

PROTOCOL = 1
PAUSE_SECONDS = 0.25
"""After a controller that could not be reached, or that did not hold the stream."""

DIAL_SECONDS = 5.0
OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # a minute unless it is said
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
]
"""So that a controller that is gone without a word is noticed within a minute."""

log = structlog.get_logger()

WANTED = [message.DESCRIPTOR.full_name for message in (*KINDS, ExecRequest)]


class Stream:
    def __init__(
        self,
        addresses: Sequence[str],
        reports: Reports,
        begin: Callable[[], None],
        heard: Callable[[Notice], None],
    ) -> None:
        """`begin` is told that a stream begins, `heard` gets all that comes by it."""
        self._addresses = addresses
        self._reports = reports
        self._begin = begin
        self._heard = heard
        self._holding: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()

    async def run(self) -> None:
        """Hold the stream until cancelled."""
        turn = random.randrange(len(self._addresses))  # noqa: S311 (spreads load)
        while True:
            address = self._addresses[turn % len(self._addresses)]
            if not await self._kept(address):
                turn += 1
                await asyncio.sleep(PAUSE_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311 (jitter)

    def lose(self) -> None:
        """Break the stream off, as if the network had."""
        if self._holding is not None:
            self._holding.cancel()

    async def _kept(self, address: str) -> bool:
        """Hold a stream, which may be broken off. Whether it came to anything."""
        began, self._holding = monotonic(), asyncio.create_task(self._hold(address))
        try:
            await asyncio.wait([self._holding])
        finally:
            self._holding.cancel()
        if not self._holding.cancelled() and (error := self._holding.exception()) is not None:
            log.error("the stream went wrong", controller=address, exc_info=error)
        held = self.connected.is_set() and monotonic() - began > PAUSE_SECONDS
        self.connected.clear()
        return held

    async def _hold(self, address: str) -> None:
        """Hold a stream to a controller as long as it lasts."""
        async with opened(address, OPTIONS) as channel:
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    await _dialled(channel)
                async for notice in NotifyApiStub(channel).StreamNotice(self._said()):
                    self._take(notice, address)
                log.info("the stream has ended", controller=address)
            except TimeoutError:
                log.warning("controller not reached", controller=address)
            except grpc.aio.AioRpcError as error:
                log.warning("the stream is lost", controller=address, error=error.details())

    def _take(self, notice: Notice, address: str) -> None:
        if notice.action == VERSION:
            log.info("connected", controller=address, version=min(notice.version, PROTOCOL))
            self._begin()
            self.connected.set()
        else:
            self._heard(notice)

    async def _said(self) -> AsyncIterator[Notice]:
        yield Notice(action=VERSION, version=PROTOCOL, want_objs=WANTED, filter_cloudlet_key=True)
        await self.connected.wait()
        for notice in self._reports.all():
            yield notice
        yield Notice(action=SENDALL_END)
        while True:
            for notice in await self._reports.next():
                yield notice


async def _dialled(channel: grpc.aio.Channel) -> None:
    """Wait for a connection, or say by TimeoutError that there is none to be had: the library would
    go on trying."""
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise TimeoutError
        await channel.wait_for_state_change(state)
