"""A crowd of resource managers at one API process, over real sockets, and a network between that
may go quiet."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from time import monotonic

import grpc.aio

from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from tests.api.edge import stubs
from tests.api.edge.peer import Peer
from tests.api.edge.stubs import Edge
from tests.support.load import limit

PER_CONNECTION = 20
OWN = [("grpc.use_local_subchannel_pool", 1)]
PATIENCE_SECONDS = 300.0


def knows(peer: Peer, kind: str, name: str) -> bool:
    return name in peer.names(kind)


class Crowd:
    """Peers that each speak for a cloudlet of their own."""

    def __init__(self, edge: Edge, address: str) -> None:
        self.edge = edge
        self._address = address
        self._channels: list[grpc.aio.Channel] = []
        self.peers: list[Peer] = []

    async def describe(self, cloudlets: int) -> None:
        for number in range(cloudlets):
            await self.edge("CreateCloudlet", stubs.cloudlet(f"place-{number}"))

    async def connect(self, peers: int) -> float:
        """Connect so many, and return how long it took until each knew its cloudlet."""
        began = monotonic()
        for number in range(peers):
            if number % PER_CONNECTION == 0:
                self._channels.append(grpc.aio.insecure_channel(self._address, options=OWN))
            peer = Peer(self._channels[-1], filtered=True)
            peer.tell(stubs.info(f"place-{number}"))
            self.peers.append(peer)
        async with limit(PATIENCE_SECONDS):
            for number, peer in enumerate(self.peers):
                await peer.until(
                    partial(knows, peer, "Cloudlet", f"place-{number}"), PATIENCE_SECONDS
                )
        return monotonic() - began

    async def told(self, name: str) -> list[float]:
        """Create a flavor, and return after how long each has heard of it."""
        began = monotonic()

        async def heard(peer: Peer) -> float:
            await peer.until(partial(knows, peer, "Flavor", name), PATIENCE_SECONDS)
            return monotonic() - began

        waiting = [asyncio.create_task(heard(peer)) for peer in self.peers]
        await self.edge("CreateFlavor", stubs.flavor(name))
        return sorted(await asyncio.gather(*waiting))

    async def states(self) -> set[int]:
        infos = await self.edge("ShowCloudletInfo", CloudletInfo(), timeout=PATIENCE_SECONDS)
        return {info.state for info in infos}

    async def close(self) -> None:
        for peer in self.peers:
            await peer.lose()
        for channel in self._channels:
            await channel.close()


class Cable:
    """Between peers and a server, byte by byte. Cut off, it is silent: nobody is told."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self._whole = asyncio.Event()
        self._whole.set()
        self._ends: set[asyncio.Task[None]] = set()
        self.address = ""

    @contextmanager
    def cut(self) -> Iterator[None]:
        self._whole.clear()
        try:
            yield
        finally:
            self._whole.set()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
        await self._whole.wait()  # who dials meanwhile waits too
        with suppress(OSError):
            there, back = await asyncio.open_connection(*self._to)
            try:
                halves = (self._carry(reader, back), self._carry(there, writer))
                await asyncio.gather(*halves)
            finally:
                back.close()
                writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.close()

    @classmethod
    @asynccontextmanager
    async def laid(cls, to: str) -> AsyncIterator["Cable"]:
        cable = cls(to)
        server = await asyncio.start_server(cable._join, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        cable.address = f"{host}:{port}"
        try:
            yield cable
        finally:
            server.close()
            for task in list(cable._ends):
                task.cancel()
