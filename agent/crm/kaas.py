"""The platform `kaas`: cluster instances are Kubernetes clusters that Windlass makes, asked for
through `cnct.kaas.api` as anybody would; apps are what their manifests say, put there by
server-side apply."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio
import structlog

from agent.bearing import opened
from agent.crm import names
from agent.crm.manifests import Manifests
from agent.crm.names import Instance
from agent.crm.platform import AppOrder, Output, Resources, words
from domain.errors import Failed
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import CloudletKey
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub

POOL = "worker"
KUBERNETES = "kubernetes"

LOOK_SECONDS = 2.0
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
        self._stub = ClusterStub(self._channel)
        self._cloudlet, self._resources = cloudlet, resources
        self._instance_types = instance_types
        self._look_seconds = look_seconds
        self._manifests = Manifests(look_seconds)

    async def resources(self) -> Resources:
        return self._resources

    async def create_cluster(self, cluster: ClusterInst) -> None:
        _refuse_unless_kubernetes(cluster.deployment)
        kind = self._instance_type(cluster)
        masters, nodes = cluster.num_masters, cluster.num_nodes
        order = pb.CreateClusterMsg(
            name=names.cluster(cluster.key),
            control_plane_nodes=pb.ControlPlaneMachineSpec(count=masters, instanceType=kind),
            worker_node_pools=[pb.MachineSpec(name=POOL, count=nodes, instanceType=kind)],
        )
        await self._ask(self._stub.CreateCluster, order, but=grpc.StatusCode.ALREADY_EXISTS)
        await self._running(cluster)

    async def update_cluster(self, cluster: ClusterInst) -> None:
        size = pb.ScaleNodePoolSpec(name=POOL, count=cluster.num_nodes)
        order = pb.ScaleNodePoolMsg(clusterName=names.cluster(cluster.key), node_pools=[size])
        await self._ask(self._stub.ScaleNodePool, order)
        await self._running(cluster)

    async def delete_cluster(self, cluster: ClusterInst) -> None:
        await self._delete(names.cluster(cluster.key))

    async def create_app(self, order: AppOrder) -> Sequence[str]:
        _refuse_unless_kubernetes(order.app.deployment)
        key = order.instance.key
        kubeconfig = await self._opened(names.cluster(key.cluster_inst_key))
        name = names.app(key)
        return await self._manifests.apply(kubeconfig, name, order.app.deployment_manifest)

    async def delete_app(self, order: AppOrder) -> None:
        if order.app.deployment == KUBERNETES:
            await self.remove(self.name(order.instance))

    def name(self, instance: Instance) -> str:
        """An app is called after the cluster that it is in, too."""
        if isinstance(instance, AppInst):
            cluster = names.cluster(instance.key.cluster_inst_key)
            return f"{cluster}/{names.app(instance.key)}"
        return names.cluster(instance.key)

    async def carries(self) -> Collection[str]:
        """Of a cluster that does not answer it is not known which apps are in it."""
        reply = await self._ask(self._stub.GetClusterList, pb.GetClusterListMsg())
        found = [each.name for each in reply.clusters if names.is_of(self._cloudlet, each.name)]
        for cluster in list(found):
            try:
                if kubeconfig := await self._kubeconfig(cluster):
                    apps = await self._manifests.all(kubeconfig)
                    found += [f"{cluster}/{app}" for app in apps]
            except Failed as error:
                log.warning("cluster passed over", cluster=cluster, error=error.message)
        return found

    async def remove(self, name: str) -> None:
        cluster, _, app = name.partition("/")
        if not app:
            await self._delete(cluster)
        elif kubeconfig := await self._kubeconfig(cluster):
            await self._manifests.delete(kubeconfig, app)

    async def run(self, order: AppOrder, container: str, command: str) -> Output:
        _refuse_unless_kubernetes(order.app.deployment)
        key = order.instance.key
        kubeconfig = await self._opened(names.cluster(key.cluster_inst_key))
        return await self._manifests.run(kubeconfig, names.app(key), container, words(command))

    async def close(self) -> None:
        await self._channel.close()

    async def _delete(self, name: str) -> None:
        """Delete a cluster, and wait until it is gone."""
        gone = grpc.StatusCode.NOT_FOUND
        await self._ask(self._stub.DeleteCluster, pb.DeleteClusterMsg(name=name), but=gone)
        while True:
            if not await self._ask(self._stub.GetCluster, pb.GetClusterMsg(name=name), but=gone):
                return
            await asyncio.sleep(self._look_seconds)

    async def _running(self, cluster: ClusterInst) -> None:
        """Wait until a cluster runs, all of it. Failed says why it will not."""
        name = names.cluster(cluster.key)
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

    async def _opened(self, cluster: str) -> str:
        """The administrator's of a cluster that something is to be done in. Failed says why that
        cannot be."""
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

    async def _kubeconfig(self, cluster: str) -> str:
        """The administrator's of a cluster. Empty: there is none."""
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
    ) -> Any:
        """Ask until there is an answer. None: it was refused with `but`."""
        while True:
            try:
                return await method(request, timeout=CALL_SECONDS)
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
