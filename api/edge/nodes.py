"""The programs that are connected to a controller: to this one, or to any."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import grpc
import grpc.aio
import structlog

from api.asking import Context
from api.edge.fellows import Metadata, called, on_behalf
from api.edge.matching import matches
from api.tls import PLAIN, Peers
from domain.errors import Unavailable
from protos.gen.edge.node_pb2 import Node
from protos.gen.edge.node_pb2_grpc import NodeApiServicer, NodeApiStub
from store.controllers import Controllers

AT_ONCE = 20
"""How many controllers are asked at the same time."""

MOST = 10_000
"""Nodes that are taken from one controller."""

log = structlog.get_logger()


class Attached:
    """The nodes whose streams this process holds, by what each stream calls itself. They are gone
    with their streams."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, str], Node] = {}

    def put(self, stream: int, node: Node) -> None:
        """A node that came by a stream. The same one again takes the place of the first."""
        self._nodes[_name(stream, node)] = node

    def remove(self, stream: int, node: Node) -> None:
        """A node that is gone while its stream is not. There being none is success."""
        self._nodes.pop(_name(stream, node), None)

    def drop(self, stream: int) -> None:
        """Forget all that came by a stream."""
        self._nodes = {key: node for key, node in self._nodes.items() if key[0] != stream}

    def like(self, example: Node) -> list[Node]:
        return [node for node in self._nodes.values() if matches(example, node)]


class NodeApi(NodeApiServicer):
    def __init__(
        self,
        attached: Attached,
        controllers: Controllers,
        patience: timedelta,
        here: Callable[[], str],
        peers: Peers = PLAIN,
    ) -> None:
        """`patience` is what each controller gets to answer, `here` tells this one's address."""
        self._attached = attached
        self._controllers = controllers
        self._here = here
        self._peers = peers
        self._seconds = patience.total_seconds()

    async def ShowNodeLocal(self, request: Node, context: Context) -> AsyncIterator[Node]:
        for node in self._attached.like(request):
            yield node

    async def ShowNode(self, request: Node, context: Context) -> AsyncIterator[Node]:
        """What this controller knows itself, and then what every other one answers that is alive.
        Who does not answer is left out."""
        for node in self._attached.like(request):
            yield node
        turn = asyncio.Semaphore(AT_ONCE)

        async def answered(address: str) -> list[Node]:
            async with turn:
                return await self._asked(address, request, on_behalf(context))

        others = [each for each in await self._controllers.alive() if each != self._here()]
        for nodes in await asyncio.gather(*map(answered, others)):
            for node in nodes:
                yield node

    async def _asked(self, address: str, request: Node, metadata: Metadata) -> list[Node]:
        """The nodes of one controller, or of them those that came before it broke off."""
        found: list[Node] = []
        try:
            async with called(address, self._peers) as channel:
                asked = NodeApiStub(channel).ShowNodeLocal(
                    request, timeout=self._seconds, metadata=metadata
                )
                async for node in asked:
                    found.append(node)
                    if len(found) == MOST:
                        break
        except grpc.aio.AioRpcError as error:
            log.warning("controller does not answer", controller=address, error=error.details())
        except Unavailable as error:
            log.warning("controller not asked", controller=address, error=error.message)
        return found


def _name(stream: int, node: Node) -> tuple[int, str]:
    return stream, node.key.SerializeToString(deterministic=True).hex()
