"""The instance service: have something run, and hear what becomes of it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from google.protobuf.empty_pb2 import Empty

from api.asking import Context, asked
from api.kudo import convert
from api.launch import Launch
from domain.instance import Call, InstanceUid, Phase, Restart
from domain.placement import Amounts
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceServicer
from store.instances import Instances
from workflows.run_instance import RunInstance


class InstanceService(InstanceServiceServicer):
    def __init__(
        self, instances: Instances, launch: Launch, restart: Restart, *, keeps: bool
    ) -> None:
        self._instances = instances
        self._launch = launch
        self._restart = restart
        self._keeps = keeps

    async def Create(
        self, request: pb.Instance, context: Context
    ) -> AsyncIterator[pb.InstanceStatus]:
        beside = {name: str(value) for name, value in context.invocation_metadata() or ()}
        spec = convert.instance(request, self._restart, beside, keeps=self._keeps)
        view = await self._instances.request_create(spec, asked(request))
        self._rouse(view.uid)
        async with aclosing(self._told(view.uid)) as statuses:
            async for status in statuses:
                yield status

    async def Start(self, request: pb.InstanceIdentifier, context: Context) -> Empty:
        return await self._ask(request, Call.START)

    async def Stop(self, request: pb.InstanceIdentifier, context: Context) -> Empty:
        return await self._ask(request, Call.STOP)

    async def Destroy(self, request: pb.InstanceIdentifier, context: Context) -> Empty:
        return await self._ask(request, Call.DESTROY)

    async def _told(self, uid: InstanceUid) -> AsyncGenerator[pb.InstanceStatus, None]:
        """Every line of the journal, once and in order; while it runs also what it uses, once a
        second at most, if that has changed."""
        runs, used = False, Amounts()
        async with aclosing(self._instances.follow(uid)) as seen:
            async for view, events in seen:
                for event in events:
                    runs, used = event.phase is Phase.RUNNING, view.used
                    yield convert.status(event, view)
                if runs and not events and view.used != used:
                    used = view.used
                    yield convert.sample(view)

    async def _ask(self, request: pb.InstanceIdentifier, call: Call) -> Empty:
        view, new = await self._instances.ask_for(asked(request).tenant, request.id, call)
        if new:
            self._rouse(view.uid)
        return Empty()

    def _rouse(self, uid: InstanceUid) -> None:
        self._launch.rouse_soon(RunInstance, f"i-{uid}", uid)
