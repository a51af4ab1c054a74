"""The platform `kaas`: cluster instances are Kubernetes clusters that Windlass makes, asked for
through `cnct.kaas.api` as anybody would; apps are what their manifests say, put there by
server-side apply."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio
import structlog

from agent.bearing import opened
from agent.crm import names
from agent.crm.cluster_inspection import ClusterInspection
from agent.crm.manifests import Manifests, Note
from agent.crm.names import Instance
from agent.crm.platform import AppOrder, Output, Resources, Standing, words
from domain.errors import Conflict, Failed
from domain.metadata import OWNER
from domain.ownership import foreign
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.common_pb2 import CREATE_REQUESTED
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from protos.gen.ops.clusters_pb2 import (
    ClaimClusterRequest,
    ClusterOwner,
    ListClusterOwnersRequest,
)
from protos.gen.ops.clusters_pb2_grpc import ClustersStub

POOL = "worker"
KUBERNETES = "kubernetes"

LOOK_SECONDS = 2.0
INSPECTED_AT_ONCE = 8
CALL_SECONDS = 30.0

log = structlog.get_logger()


class Kaas:
    def __init__(
        self,
        cloudlet: CloudletKey,
        address: str,
        resources: Resources,
        *,
        instance_types: Mapping[str, str] = MappingProxyType({}),
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`resources` is what its operator says there is: the API does not tell. `instance_types`
        says which kind of machine a flavor is there; of one that is not named any machine will
        do."""
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = opened(address, options)
        self._stub, self._owners = ClusterStub(self._channel), ClustersStub(self._channel)
        self._cloudlet, self._resources = cloudlet, resources
        self._instance_types = instance_types
        self._look_seconds = look_seconds
        self._manifests = Manifests(look_seconds)
        self._inspection = ClusterInspection(self._stub, self.name)
        self._earlier: dict[str, str] = {}
        """By its owner, the name of what an earlier release made."""
        self._makers: dict[str, str] = {}
        """By the name of what an earlier release made, its only possible owner."""
        self._disputed: set[str] = set()
        """Names of such, of which nobody can tell for which of two instances it was made."""

    async def resources(self) -> Resources:
        return self._resources

    async def create_cluster(self, cluster: ClusterInst) -> None:
        _refuse_unless_kubernetes(cluster.deployment)
        kind = self._instance_type(cluster)
        masters, nodes = cluster.num_masters, cluster.num_nodes
        order = pb.CreateClusterMsg(
            name=self.name(cluster),
            control_plane_nodes=pb.ControlPlaneMachineSpec(count=masters, instanceType=kind),
            worker_node_pools=[pb.MachineSpec(name=POOL, count=nodes, instanceType=kind)],
        )
        made_for = ((OWNER, names.owner(cluster)),)
        taken = grpc.StatusCode.ALREADY_EXISTS
        await self._ask(self._stub.CreateCluster, order, but=taken, metadata=made_for)
        await self._running(cluster)

    async def update_cluster(self, cluster: ClusterInst) -> None:
        size = pb.ScaleNodePoolSpec(name=POOL, count=cluster.num_nodes)
        order = pb.ScaleNodePoolMsg(clusterName=self.name(cluster), node_pools=[size])
        await self._refuse_foreign(cluster)
        await self._ask(self._stub.ScaleNodePool, order)
        await self._running(cluster)

    async def delete_cluster(self, cluster: ClusterInst) -> None:
        owner = names.owner(cluster)
        await self._delete(self.name(cluster), lambda found: found.owner == owner)
        self._earlier.pop(owner, None)

    async def create_app(self, order: AppOrder) -> Sequence[str]:
        _refuse_unless_kubernetes(order.app.deployment)
        kubeconfig = await self._opened(_cluster_of(order.instance))
        manifest = order.app.deployment_manifest
        return await self._manifests.apply(kubeconfig, self._note(order.instance), manifest)

    async def delete_app(self, order: AppOrder) -> None:
        """With a cluster goes all that is in it, and a cluster of another owner has nothing of
        this app."""
        if order.app.deployment != KUBERNETES:
            return
        with suppress(Conflict):
            if kubeconfig := await self._kubeconfig(_cluster_of(order.instance)):
                await self._manifests.delete(kubeconfig, self._note(order.instance))
        self._earlier.pop(names.owner(order.instance), None)

    @property
    def adopts(self) -> bool:
        return True

    async def adopt(self, known: Collection[Instance]) -> None:
        """What is in a cluster gets its owner when the cluster is looked into. Who has something of
        its own is not taken for the maker of anything else, nor is who has only just been asked
        for."""
        makers = names.only_makers(known)
        there = await self._list()
        owned = {each.owner: each.name for each in there if each.owner}
        for found in there:
            maker = makers.get(found.name)
            if found.owner or maker is None or maker.state == CREATE_REQUESTED:
                continue
            if (owner := names.owner(maker)) not in owned:
                claim = ClaimClusterRequest(name=found.name, owner=owner)
                await self._ask(self._owners.Claim, claim)
                owned[owner] = found.name
        self._earlier |= {
            owner: name for owner, name in owned.items() if names.is_earlier(self._cloudlet, name)
        }
        self._makers = {
            name: names.owner(maker)
            for name, maker in makers.items()
            if maker.state != CREATE_REQUESTED
        }
        self._disputed = {names.earlier(each) for each in known} - makers.keys()

    def name(self, instance: Instance) -> str:
        """An app is called after the cluster that it is in, too."""
        if isinstance(instance, AppInst):
            return f"{self.name(_cluster_of(instance))}/{self._note(instance).name}"
        return self._earlier.get(names.owner(instance)) or names.cluster(instance.key)

    async def carries(self) -> Collection[str]:
        """Of a cluster that does not answer it is not known which apps are in it."""
        there = await self._list()
        found = [each.name for each in there if self._is_ours(each.name, each.owner)]
        for cluster in list(found):
            try:
                if kubeconfig := await self._kubeconfig_of(cluster):
                    found += [f"{cluster}/{app}" for app in await self._apps(kubeconfig)]
            except Failed as error:
                log.warning("cluster passed over", cluster=cluster, error=error.message)
        return found

    async def remove(self, name: str) -> None:
        cluster, _, app = name.partition("/")
        if not app:
            await self._delete(cluster, lambda found: self._is_ours(found.name, found.owner))
        elif kubeconfig := await self._kubeconfig_of(cluster):
            noted = {each.name: each for each in await self._manifests.all(kubeconfig)}
            if app in noted and self._is_ours(app, noted[app].owner):
                await self._manifests.delete(kubeconfig, noted[app])

    async def inspect(
        self, clusters: Sequence[ClusterInst], apps: Sequence[AppOrder]
    ) -> Mapping[str, Standing]:
        turn, standings = asyncio.Semaphore(INSPECTED_AT_ONCE), dict[str, Standing]()

        async def inspected(cluster: ClusterInst) -> None:
            within = [each for each in apps if each.instance.key.cluster_inst_key == cluster.key]
            async with turn:
                standings.update(await self._inspection.of(cluster, within))

        await asyncio.gather(*map(inspected, clusters))
        return standings

    async def run(self, order: AppOrder, container: str, command: str) -> Output:
        _refuse_unless_kubernetes(order.app.deployment)
        kubeconfig = await self._opened(_cluster_of(order.instance))
        note = self._note(order.instance)
        return await self._manifests.run(kubeconfig, note, container, words(command))

    async def close(self) -> None:
        await self._channel.close()

    async def _apps(self, kubeconfig: str) -> list[str]:
        """The names of what was applied in a cluster for the cloudlet. What an earlier release
        applied gets its owner."""
        found = []
        for note in await self._manifests.all(kubeconfig):
            owner = note.owner or self._makers.get(note.name, "")
            if not note.owner and owner:
                await self._manifests.claim(kubeconfig, Note(note.name, owner))
            if owner and names.is_earlier(self._cloudlet, note.name):
                self._earlier[owner] = note.name
            if self._is_ours(note.name, owner):
                found.append(note.name)
        return found

    def _is_ours(self, name: str, owner: str) -> bool:
        """Whether something was made for the cloudlet."""
        if owner:
            return names.is_of(self._cloudlet, owner)
        return name not in self._disputed and names.is_earlier(self._cloudlet, name)

    def _note(self, instance: AppInst) -> Note:
        """Under which name it is noted in its cluster what was applied for an instance."""
        owner, earlier = names.owner(instance), names.earlier(instance)
        if owner in self._earlier:
            return Note(self._earlier[owner], owner)
        before = earlier if self._makers.get(earlier) == owner else ""
        return Note(names.app(instance.key), owner, earlier=before)

    async def _list(self, name: str = "") -> Sequence[ClusterOwner]:
        asked = ListClusterOwnersRequest(name=name)
        return (await self._ask(self._owners.ListOwners, asked)).clusters  # type: ignore[no-any-return]

    async def _refuse_foreign(self, cluster: ClusterInst) -> None:
        """Conflict if what is called as a cluster was made for another one."""
        owner, name = names.owner(cluster), self.name(cluster)
        if any(each.owner != owner for each in await self._list(name)):
            raise foreign(f"cluster {name}")

    async def _delete(self, name: str, is_meant: Callable[[ClusterOwner], bool]) -> None:
        """Delete a cluster and wait until it is gone. Another owner's is left alone."""
        if not all(map(is_meant, await self._list(name))):
            log.warning("cluster of another owner left alone", cluster=name)
            return
        gone = grpc.StatusCode.NOT_FOUND
        await self._ask(self._stub.DeleteCluster, pb.DeleteClusterMsg(name=name), but=gone)
        while True:
            if not await self._ask(self._stub.GetCluster, pb.GetClusterMsg(name=name), but=gone):
                return
            await asyncio.sleep(self._look_seconds)

    async def _running(self, cluster: ClusterInst) -> None:
        """Wait until a cluster runs, all of it. Failed says why it will not, Conflict that it is
        another's."""
        name = self.name(cluster)
        await self._refuse_foreign(cluster)
        while True:
            found = await self._get(name)
            match found.status:
                case pb.RUNNING if found.kubeconfig:
                    return
                case pb.ERROR | pb.DEGRADED | pb.STOPPING:
                    status = pb.ClusterStatus.Name(found.status)
                    raise Failed(f"cluster {name} is {status}: {found.status_message}")
            await asyncio.sleep(self._look_seconds)

    def _instance_type(self, cluster: ClusterInst) -> str:
        """By the machine that the controller chose for it, or by its own flavor."""
        own = self._instance_types.get(cluster.flavor.name, "")
        return self._instance_types.get(cluster.node_flavor, own)

    async def _opened(self, instance: ClusterInst) -> str:
        """The administrator's of a cluster that something is to be done in. Failed says why that
        cannot be, Conflict that it is another's."""
        await self._refuse_foreign(instance)
        cluster = self.name(instance)
        missing = grpc.StatusCode.NOT_FOUND
        reply = await self._ask(self._stub.GetCluster, pb.GetClusterMsg(name=cluster), but=missing)
        if reply is None:
            raise Failed(
                f"cluster {cluster} is gone: Windlass has none of that name",
                do="delete the cluster instance, and create it again",
            )
        found, do = reply.cluster, f"windlass cluster why {cluster}"
        if found.status == pb.STOPPING:
            raise Failed(f"cluster {cluster} is being deleted", do=do)
        if not found.kubeconfig:
            status = pb.ClusterStatus.Name(found.status)
            raise Failed(f"cluster {cluster} has no kubeconfig yet: it is {status}", do=do)
        return str(found.kubeconfig)

    async def _kubeconfig(self, cluster: ClusterInst) -> str:
        """The administrator's of a cluster. Empty: there is none. Conflict: it is another's."""
        await self._refuse_foreign(cluster)
        return await self._kubeconfig_of(self.name(cluster))

    async def _kubeconfig_of(self, cluster: str) -> str:
        missing = grpc.StatusCode.NOT_FOUND
        asked = pb.GetClusterMsg(name=cluster)
        reply = await self._ask(self._stub.GetCluster, asked, but=missing)
        return str(reply.cluster.kubeconfig) if reply else ""

    async def _get(self, name: str) -> pb.ClusterDetailItem:
        reply = await self._ask(self._stub.GetCluster, pb.GetClusterMsg(name=name))
        return reply.cluster  # type: ignore[no-any-return]

    async def _ask(
        self,
        method: Callable[..., Awaitable[Any]],
        request: Any,
        *,
        but: grpc.StatusCode | None = None,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """Ask until there is an answer. None: it was refused with `but`."""
        while True:
            try:
                return await method(request, timeout=CALL_SECONDS, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() is but:
                    return None
                if error.code() not in AWAY:
                    raise Failed(
                        f"Windlass refused {type(request).__name__}: {error.details()}"
                    ) from error
                log.warning("windlass does not answer", error=error.details())
            await asyncio.sleep(self._look_seconds)


AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""It may answer later. Whoever asked us sets the time until when."""


def _refuse_unless_kubernetes(deployment: str) -> None:
    if deployment != KUBERNETES:
        raise Failed(f"the platform kaas has no {deployment or 'unnamed'} deployments")


def _cluster_of(instance: AppInst) -> ClusterInst:
    """The cluster that an app's instance is in, by its key."""
    return ClusterInst(key=instance.key.cluster_inst_key)
