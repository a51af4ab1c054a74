"""The platform `nodes`: apps are instances on nodes of our own, asked for through
`scheduler.InstanceService` as anybody would. A cluster is no more than a name there."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import grpc
import grpc.aio
import structlog

from agent.bearing import opened
from agent.crm import names
from agent.crm.names import Instance
from agent.crm.platform import RUN_SECONDS, AppOrder, Output, Resources, Standing, words
from agent.crm.restarts import Restarts
from domain.errors import Failed
from domain.metadata import COMMAND, OWNER, POOL, RESTART
from domain.ownership import foreign
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import CREATE_REQUESTED
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from protos.gen.ops.instances_pb2 import (
    ClaimInstanceRequest,
    ExecInstanceRequest,
    GetInstanceRequest,
    InstanceEvent,
    InstanceView,
    ListInstancesRequest,
    WatchInstanceRequest,
)
from protos.gen.ops.instances_pb2_grpc import InstancesStub

DOCKER = "docker"
Metadata: TypeAlias = tuple[tuple[str, str], ...]

AGAIN_SECONDS = 2.0
CALL_SECONDS = 30.0
SLACK_SECONDS = 5.0
"""What a node gets to answer when a command's time is up."""

AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""It may answer later. Whoever asked us sets the time until when."""

INSPECTED_AT_ONCE = 8
INSPECT_SECONDS = 4.0

OVER = frozenset({pb.FAILED, pb.TERMINATED})
RUNNING = "RUNNING"
LEAVING = frozenset({"DESTROYING", "TERMINATED"})
"""It was told to go, and makes room for another of that name."""

STILL = frozenset({"FAILED", "TERMINATED", "STOPPED"})
"""It does not come to run by itself. What is STOPPING ends in one of these, or is placed anew if it
was its node that stopped it."""

WHAT_TO_DO = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "run something that is done sooner",
    grpc.StatusCode.PERMISSION_DENIED: "give the resource manager a token that may change things",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "run something that writes less",
    grpc.StatusCode.UNAVAILABLE: "try again later",
}
"""About a command that was not run."""

log = structlog.get_logger()


class Nodes:
    def __init__(
        self,
        cloudlet: CloudletKey,
        address: str,
        pool: str,
        resources: Resources,
        *,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        """`resources` is what its operator says there is: the scheduler does not tell."""
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = opened(address, options)
        self._instances, self._all = (
            InstanceServiceStub(self._channel),
            InstancesStub(self._channel),
        )
        self._cloudlet = cloudlet
        self._metadata: Metadata = ((RESTART, "always"), *(((POOL, pool),) if pool else ()))
        self._resources, self._again_seconds = resources, again_seconds
        self._restarts = Restarts()
        self._earlier: dict[str, str] = {}
        """By its owner, the name of what an earlier release made."""
        self._disputed: set[str] = set()
        """Names of such, of which nobody can tell for which of two instances it was made."""

    async def resources(self) -> Resources:
        return self._resources

    async def create_cluster(self, cluster: ClusterInst) -> None:
        """There is nothing to make."""
        _refuse_unless_docker(cluster.deployment)

    async def update_cluster(self, cluster: ClusterInst) -> None:
        _refuse_unless_docker(cluster.deployment)

    async def delete_cluster(self, cluster: ClusterInst) -> None:
        """There is nothing to take away."""

    async def create_app(self, order: AppOrder) -> Sequence[str]:
        _refuse_unless_docker(order.app.deployment)
        owner = names.owner(order.instance)
        asked = _instance(order, self.name(order.instance))
        metadata = (*self._metadata, (OWNER, owner))
        if order.app.command:
            metadata = (*metadata, (COMMAND, json.dumps(shlex.split(order.app.command))))
        while True:
            try:
                if await self._running(asked, owner, metadata):
                    return [asked.id]
            except grpc.aio.AioRpcError as error:
                if error.code() not in AWAY:
                    raise Failed(f"Windlass refused the instance: {error.details()}") from error
                log.warning("windlass does not answer", error=error.details())
            await asyncio.sleep(self._again_seconds)

    async def delete_app(self, order: AppOrder) -> None:
        owner = names.owner(order.instance)
        await self._remove(self.name(order.instance), lambda recorded: recorded == owner)
        self._earlier.pop(owner, None)

    @property
    def adopts(self) -> bool:
        return True

    async def adopt(self, known: Collection[Instance]) -> None:
        """What has an owner already is only remembered by its name. Who has something of its own is
        not taken for the maker of anything else, nor is who has only just been asked for."""
        apps = [each for each in known if isinstance(each, AppInst)]
        there = [each async for each in self._listed()]
        owned = {each.owner: each.id for each in there if each.owner}
        makers = names.only_makers(apps)
        for view in there:
            maker = makers.get(view.id)
            if view.owner or maker is None or maker.state == CREATE_REQUESTED:
                continue
            if (owner := names.owner(maker)) not in owned:
                await self._claim(view.id, owner)
                owned[owner] = view.id
        self._earlier = {
            owner: name for owner, name in owned.items() if names.is_earlier(self._cloudlet, name)
        }
        self._disputed = {names.earlier(each) for each in apps} - makers.keys()

    def name(self, instance: Instance) -> str:
        """An app is an instance that is called so. Of a cluster there is nothing else."""
        if isinstance(instance, AppInst):
            return self._earlier.get(names.owner(instance)) or names.app(instance.key)
        return names.cluster(instance.key)

    async def carries(self) -> Collection[str]:
        return [each.id async for each in self._listed() if self._is_ours(each.id, each.owner)]

    async def remove(self, name: str) -> None:
        """Have an instance end, and return once it has: what is told as gone runs no more."""
        await self._remove(name, lambda owner: self._is_ours(name, owner))

    def _is_ours(self, name: str, owner: str) -> bool:
        """Whether an instance was made for the cloudlet."""
        if owner:
            return names.is_of(self._cloudlet, owner)
        return name not in self._disputed and names.is_earlier(self._cloudlet, name)

    async def _remove(self, name: str, is_meant: Callable[[str], bool]) -> None:
        """Destroy an instance if its owner is the one that is meant. Another's is left alone."""
        named = pb.InstanceIdentifier(id=name)
        while True:
            try:
                view = await self._all.Get(GetInstanceRequest(id=name), timeout=CALL_SECONDS)
                if not is_meant(view.owner):
                    log.warning("instance of another owner left alone", instance=name)
                    return
                await self._instances.Destroy(named, timeout=CALL_SECONDS)
                await self._over(name)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return
                if error.code() not in AWAY:
                    raise Failed(f"Windlass refused to destroy it: {error.details()}") from error
                log.warning("windlass does not answer", error=error.details())
                await asyncio.sleep(self._again_seconds)
            else:
                return

    async def inspect(
        self, clusters: Sequence[ClusterInst], apps: Sequence[AppOrder]
    ) -> Mapping[str, Standing]:
        """A cluster is no more than a name, with which nothing can be wrong."""
        turn, names_ = asyncio.Semaphore(INSPECTED_AT_ONCE), [self.name(it.instance) for it in apps]

        async def inspected(name: str, owner: str) -> Standing:
            async with turn:
                return await self._standing(name, owner)

        self._restarts.keep_only(set(names_))
        owners = [names.owner(it.instance) for it in apps]
        found = await asyncio.gather(*map(inspected, names_, owners))
        standings = {self.name(cluster): Standing() for cluster in clusters}
        return {**standings, **dict(zip(names_, found, strict=True))}

    async def _standing(self, name: str, owner: str) -> Standing:
        try:
            view = await self._all.Get(GetInstanceRequest(id=name), timeout=INSPECT_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return Standing((f"is gone: Windlass has no instance {name}",), ())
            raise Failed(f"Windlass does not tell of its instances: {error.details()}") from error
        if view.owner not in ("", owner):
            return Standing((f"is gone: {name} belongs to another owner",), ())
        if self._restarts.is_loop(name, view.restarts):
            told = f"is started again and again, {view.restarts} times by now"
            return Standing((told,), (name,))
        if view.status != RUNNING:
            return Standing((f"does not run: instance {name} is {view.status}: {view.says}",), ())
        return Standing(containers=(name,))

    async def run(self, order: AppOrder, container: str, command: str) -> Output:
        """Asked for once: a command that is repeated runs twice."""
        name = self.name(order.instance)
        if container not in ("", name):
            raise Failed(f"there is no container {container}", do=f"say {name}, or none")
        asked = ExecInstanceRequest(id=name, command=words(command), timeout_seconds=RUN_SECONDS)
        stdout, stderr, code = b"", b"", 0
        try:
            view = await self._all.Get(GetInstanceRequest(id=name), timeout=CALL_SECONDS)
            _refuse_foreign(view, names.owner(order.instance))
            async for told in self._all.Exec(asked, timeout=RUN_SECONDS + SLACK_SECONDS):
                stdout, stderr = stdout + told.stdout, stderr + told.stderr
                code = told.exit_code
        except grpc.aio.AioRpcError as error:
            do = WHAT_TO_DO.get(error.code(), f"look at windlass instance why {name}")
            raise Failed(f"instance {name}: {error.details()}", do=do) from error
        return Output(code, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    async def close(self) -> None:
        await self._channel.close()

    async def _listed(self) -> AsyncIterator[InstanceView]:
        """Every instance that is not over."""
        asked, more = ListInstancesRequest(), True
        while more:
            page = await self._page(asked)
            for each in page.instances:
                yield each
            more = page.more
            if page.instances:
                asked.after = page.instances[-1].id

    async def _claim(self, name: str, owner: str) -> None:
        try:
            await self._all.Claim(ClaimInstanceRequest(id=name, owner=owner), timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise Failed(
                f"Windlass did not record the owner of instance {name}: {error.details()}",
                do="run an API of the same release",
            ) from error
        log.info("owner recorded", instance=name, owner=owner)

    async def _page(self, asked: ListInstancesRequest) -> Any:
        try:
            return await self._all.List(asked, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise Failed(f"Windlass did not list its instances: {error.details()}") from error

    async def _over(self, name: str) -> None:
        call = self._all.Watch(WatchInstanceRequest(id=name))
        try:
            async for _ in call:
                pass  # the last line is its end
        finally:
            call.cancel()

    async def _running(self, asked: pb.Instance, owner: str, metadata: Metadata) -> bool:
        """Ask for an instance and return once it runs, also if it had been asked for before. False:
        that one was on its way out, and is gone now. Failed says why it does not run."""
        try:
            await self._made(asked, metadata)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            return await self._comes_to_run(asked.id, owner)
        return True

    async def _comes_to_run(self, name: str, owner: str) -> bool:
        """The same of an instance that is there already. Conflict if it is another's."""
        view = await self._all.Get(GetInstanceRequest(id=name), timeout=CALL_SECONDS)
        if view.status in LEAVING:
            await self._over(name)
            return False
        _refuse_foreign(view, owner)
        if _runs(name, view):
            return True
        call = self._all.Watch(WatchInstanceRequest(id=name, after=view.last_event))
        try:
            async for event in call:
                if _runs(name, event):
                    return True
        finally:
            call.cancel()
        raise Failed(f"instance {name} was not heard of again")

    async def _made(self, asked: pb.Instance, metadata: Metadata) -> None:
        call = self._instances.Create(asked, metadata=metadata)
        try:
            async for status in call:
                if status.status == pb.RUNNING:
                    return
                if status.status in OVER:
                    raise Failed(f"instance {asked.id}: {status.statusDescription}")
        finally:
            call.cancel()  # it runs on
        raise Failed(f"instance {asked.id} was not heard of again")


def _runs(name: str, seen: InstanceView | InstanceEvent) -> bool:
    """Failed, if it does not and will not by itself."""
    if seen.status in STILL:
        raise Failed(f"instance {name} is {seen.status}: {seen.says}")
    return bool(seen.status == RUNNING)


def _refuse_foreign(view: InstanceView, owner: str) -> None:
    if view.owner != owner:
        raise foreign(f"instance {view.id}")


def _instance(order: AppOrder, name: str) -> pb.Instance:
    flavor = order.flavor
    limit = pb.ResourceSummary(cpu=flavor.vcpus * 1000, memory=flavor.ram, disk=flavor.disk)
    ports = [
        pb.Port(source=port.public_port, destination=port.internal_port)
        for port in order.instance.mapped_ports
    ]
    return pb.Instance(
        id=name,
        name=order.app.key.name,
        uri=_uri(order.app.image_path),
        resource=pb.Resource(limit=limit),
        ports=ports,
    )


def _uri(path: str) -> str:
    """An image as an app names it; without a scheme it lies in a registry."""
    has_scheme = "://" in path or path.startswith(("builtin:", "oci-archive:"))
    return path if has_scheme else f"docker://{path}"


def _refuse_unless_docker(deployment: str) -> None:
    if deployment != DOCKER:
        raise Failed(f"the platform nodes has no {deployment or 'unnamed'} deployments")
