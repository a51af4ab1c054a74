"""The nodes service: the fleet that instances run on, seen, closed and emptied."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

from api.asking import Context
from api.belonging import Belonging
from api.errors import wrong
from api.launch import Launch
from api.ops import running
from domain.node import NodeView
from protos.gen.ops import nodes_pb2 as pb
from protos.gen.ops.nodes_pb2_grpc import NodesServicer
from store import nodes as stores
from workflows.drain_node import DrainNode

LOOK_SECONDS = 1.0
"""How late a follower is at most."""

LONGEST = timedelta(days=7)


class Nodes(NodesServicer):
    def __init__(self, nodes: stores.Nodes, launch: Launch, belonging: Belonging) -> None:
        self._nodes = nodes
        self._belonging = belonging
        self._launch = launch

    async def List(self, request: pb.ListNodesRequest, context: Context) -> pb.ListNodesResponse:
        found = await self._nodes.all(gone=request.everything)
        return pb.ListNodesResponse(nodes=map(running.node, found))

    async def Watch(
        self, request: pb.WatchNodesRequest, context: Context
    ) -> AsyncIterator[pb.FleetNode]:
        told: dict[str, NodeView] = {}
        while True:
            for view in await self._nodes.all(gone=bool(told)):
                if told.get(view.id) != _still(view):
                    told[view.id] = _still(view)
                    yield running.node(view)
            await asyncio.sleep(LOOK_SECONDS)

    async def Cordon(self, request: pb.CordonNodeRequest, context: Context) -> pb.FleetNode:
        return running.node(await self._nodes.cordon(request.id, cordoned=True))

    async def Uncordon(self, request: pb.UncordonNodeRequest, context: Context) -> pb.FleetNode:
        return running.node(await self._nodes.cordon(request.id, cordoned=False))

    async def Free(self, request: pb.FreeNodeRequest, context: Context) -> pb.FreeNodeResponse:
        await self._nodes.free(request.id)
        await self._belonging.free(request.id)
        return pb.FreeNodeResponse()

    async def Drain(self, request: pb.DrainNodeRequest, context: Context) -> pb.FleetNode:
        if not 0 <= request.within.seconds <= LONGEST.total_seconds():
            raise wrong("within", f"has to be between 0 and {LONGEST.days} days")
        within = timedelta(seconds=request.within.seconds)
        view = await self._nodes.drain(request.id, within)
        self._launch.rouse_soon(DrainNode, f"drain-{request.id}", request.id)
        return running.node(view)


def _still(view: NodeView) -> NodeView:
    """Without what changes with every beat."""
    return view.model_copy(update={"heard": view.heard.min, "used": view.limit})
