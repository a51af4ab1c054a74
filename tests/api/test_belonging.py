"""Whose a node is, where everybody has to sign in: agents speak for the nodes they registered."""

from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

from domain.agents import SECRET
from protos.gen.agent import node_pb2
from protos.gen.agent.node_pb2_grpc import WindowStub
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub
from protos.gen.ops import nodes_pb2
from protos.gen.ops.access_pb2 import ListAuditRequest
from protos.gen.ops.access_pb2_grpc import AuditStub
from protos.gen.ops.nodes_pb2_grpc import NodesStub
from tests.agents import enrolled
from tests.api.caller import refused
from tests.api.closed import Closed
from tests.api.signed import bearer

PROOF = (SECRET, "known to the agent")
RUNS = pb.NodeStatus(
    id="theirs",
    status=pb.RUNNING,
    resource=pb.Resource(limit=pb.ResourceSummary(cpu=1), usage=pb.ResourceSummary()),
)


class Agent:
    """A program that was let in as an agent, or as whom its token says."""

    def __init__(self, closed: Closed, name: str) -> None:
        self._closed = closed
        self._carries = bearer(closed.tokens[name])
        self._nodes, self._window = NodeServiceStub(closed.channel), WindowStub(closed.channel)
        self._fleet = NodesStub(closed.channel)

    async def register(self) -> int:
        beside = (PROOF, *self._carries)
        return (await enrolled(self._closed.channel, "theirs", self._closed.address, *beside)).code

    async def report(self) -> None:
        """It has seen what proves who the node is."""
        item = node_pb2.Item(number=1, image_gone="none")
        report = node_pb2.ReportRequest(node="theirs", epoch="first", items=[item])
        await self._window.Report(report, metadata=(PROOF, *self._carries), timeout=20)

    async def status(self) -> None:
        async def once() -> AsyncIterator[pb.NodeStatus]:
            yield RUNS

        await self._nodes.Status(once(), metadata=self._carries, timeout=20)

    async def unregister(self) -> int:
        request = pb.NodeUnregisterRequest(id="theirs")
        return (await self._nodes.Unregister(request, metadata=self._carries, timeout=20)).code

    async def free(self) -> None:
        request = nodes_pb2.FreeNodeRequest(id="theirs")
        await self._fleet.Free(request, metadata=self._carries, timeout=20)


async def test_which_node_comes_and_goes_is_written_down(closed: Closed) -> None:
    agent = Agent(closed, "agent-7")
    assert (await agent.register(), await agent.unregister()) == (0, 0)
    await Agent(closed, "ole").free()
    asked = ListAuditRequest(user="agent-7", latest=True, page_size=2)
    admin = bearer(closed.tokens["ada"])
    listed = await AuditStub(closed.channel).List(asked, metadata=admin, timeout=20)
    assert [(line.method, line.subject, line.code) for line in listed.lines] == [
        ("scheduler.NodeService/Unregister", "theirs", "OK"),
        ("scheduler.NodeService/Register", "theirs", "OK"),
    ]


@pytest.mark.parametrize("owner", ["agent-7", "ole"])
async def test_another_agent_does_not_speak_for_a_node(closed: Closed, owner: str) -> None:
    own, other, operator = Agent(closed, owner), Agent(closed, "agent-8"), Agent(closed, "ole")
    assert await own.register() == 0
    assert await other.register() == 2
    for call in (other.report(), other.status(), other.unregister()):
        refusal = await refused(call)
        assert (refusal.code, refusal.reason) == (
            grpc.StatusCode.PERMISSION_DENIED,
            "NODE_NOT_YOURS",
        )
    await own.status()
    await own.report()
    assert await own.register() == 0
    assert await operator.unregister() == 0
    assert await other.register() == 2, "an id stays with its registrar, who may be back"
    await operator.free()
    assert await other.register() == 0, "until an operator frees it"
    assert await other.unregister() == 0
    await operator.free()
