"""The instances service: orders with all that may be said of one, plans, and how they stand."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime

from api.asking import Context, asked
from api.launch import Launch
from api.ops import running
from domain.agents import Agents
from domain.errors import Conflict, Invalid
from domain.instance import InstanceSpec, Restart
from domain.plight import Plight, explain
from protos.gen.ops import instances_pb2 as pb
from protos.gen.ops.instances_pb2_grpc import InstancesServicer
from store import instances as stores
from store.instances import PAGE
from store.nodes import Nodes
from store.placing import Placing
from workflows.run_instance import RunInstance


class Instances(InstancesServicer):
    def __init__(
        self,
        instances: stores.Instances,
        nodes: Nodes,
        placing: Placing,
        agents: Agents,
        launch: Launch,
        restart: Restart,
        *,
        keeps: bool,
    ) -> None:
        self._instances = instances
        self._nodes = nodes
        self._placing = placing
        self._agents = agents
        self._launch = launch
        self._restart = restart
        self._keeps = keeps

    async def Create(self, request: pb.InstanceOrder, context: Context) -> pb.InstanceView:
        view = await self._instances.request_create(self._order(request), asked(request))
        self._launch.rouse_soon(RunInstance, f"i-{view.uid}", view.uid)
        return running.instance(view)

    async def Plan(self, request: pb.InstanceOrder, context: Context) -> pb.PlanInstanceResponse:
        return running.plan(await self._placing.plan(self._order(request)))

    async def List(
        self, request: pb.ListInstancesRequest, context: Context
    ) -> pb.ListInstancesResponse:
        found = await self._instances.page(
            asked(request).tenant,
            node=request.node,
            everything=request.everything,
            after=request.after,
        )
        runtimes = await self._nodes.runtimes({view.node for view in found})
        shown = [running.instance(view, runtime=runtimes.get(view.node, "")) for view in found]
        return pb.ListInstancesResponse(instances=shown, more=len(found) == PAGE)

    async def Get(self, request: pb.GetInstanceRequest, context: Context) -> pb.InstanceView:
        view = await self._instances.get(asked(request).tenant, request.id)
        node = await self._nodes.find(view.node)
        return (
            running.instance(view, node.address, node.runtime) if node else running.instance(view)
        )

    async def Claim(self, request: pb.ClaimInstanceRequest, context: Context) -> pb.InstanceView:
        tenant = asked(request).tenant
        return running.instance(await self._instances.claim(tenant, request.id, request.owner))

    async def Watch(
        self, request: pb.WatchInstanceRequest, context: Context
    ) -> AsyncIterator[pb.InstanceEvent]:
        view = await self._instances.get(asked(request).tenant, request.id)
        following = self._instances.follow(view.uid, after=request.after)
        async with aclosing(following) as seen:
            async for _, events in seen:
                for event in events:
                    yield running.event(event)

    async def Why(self, request: pb.WhyInstanceRequest, context: Context) -> pb.WhyInstanceResponse:
        view = await self._instances.get(asked(request).tenant, request.id)
        plight = Plight(
            view=view,
            node=await self._nodes.find(view.node),
            leftovers=tuple(await self._instances.leftovers(view.uid)),
            verdicts=() if view.node else tuple(await self._placing.plan(view.spec)),
        )
        return running.why(explain(plight, datetime.now(UTC)))

    async def Exec(
        self, request: pb.ExecInstanceRequest, context: Context
    ) -> AsyncIterator[pb.ExecInstanceOutput]:
        if not request.command:
            raise Invalid("there is no command", subject=request.id, do="say what is to be run")
        view = await self._instances.get(asked(request).tenant, request.id)
        node = await self._nodes.find(view.node)
        if node is None:
            raise Conflict(
                f"instance {request.id} is on no node",
                subject=request.id,
                reason="INSTANCE_STATE",
                do=f"windlass instance why {request.id}",
            )
        output = await self._agents.execute(
            node.id, node.address, request.id, request.command, request.timeout_seconds
        )
        yield pb.ExecInstanceOutput(
            stdout=output.stdout, stderr=output.stderr, ended=True, exit_code=output.exit_code
        )

    def _order(self, request: pb.InstanceOrder) -> InstanceSpec:
        return running.order(request, self._restart, keeps=self._keeps)
