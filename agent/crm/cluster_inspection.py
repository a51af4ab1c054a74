"""Inspecting clusters of the platform `kaas`: what Windlass tells of them and of their nodes, and
what their own API tells of the apps in them. All is asked once, and nothing is waited for."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import grpc
import grpc.aio
import httpx2
import structlog
from lightkube import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.resources.apps_v1 import Deployment

from agent.crm.manifests import NOT_FOUND, connected, pods_of
from agent.crm.names import Instance
from agent.crm.objects import describe, holder_of, read
from agent.crm.platform import AppOrder, Standing
from agent.crm.restarts import Restarts
from domain.errors import Failed
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub

INSPECT_SECONDS = 3.0
"""A cluster that does not answer within that keeps nobody from being told of the others."""

READY = "Ready"
NAMED = 8
"""Of the nodes that are not, so many are named."""

AILING = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"}
)
"""Why a container waits that does not come to run by itself."""

log = structlog.get_logger()


class ClusterInspection:
    def __init__(self, stub: ClusterStub, called: Callable[[Instance], str]) -> None:
        """`called`: what an instance is called on the platform."""
        self._stub, self._called, self._restarts = stub, called, Restarts()

    async def of(self, cluster: ClusterInst, apps: Sequence[AppOrder]) -> dict[str, Standing]:
        """How a cluster stands, and what is in it."""
        name = self._called(cluster)
        found = await self._found(name)
        if found is None:
            gone = Standing((f"is gone: Windlass has no cluster {name}",), (), 0)
            lost = Standing((f"does not run: its cluster {name} is gone",), ())
            return {name: gone, **{self._called(app.instance): lost for app in apps}}
        faults: list[str] = []
        if found.status != pb.RUNNING:
            status = pb.ClusterStatus.Name(found.status)
            faults.append(f"is {status}: {found.status_message}")
        nodes, lacking = await self._nodes(cluster, name)
        faults += lacking
        inside: dict[str, Standing] = {}
        if found.kubeconfig and apps:
            try:
                inside = await self._inside(str(found.kubeconfig), apps)
            except Failed as error:
                silent = Standing((f"may not run: {error.message}",))
                inside = {self._called(app.instance): silent for app in apps}
        return {name: Standing(tuple(faults), nodes=nodes), **inside}

    async def _inside(self, kubeconfig: str, apps: Sequence[AppOrder]) -> dict[str, Standing]:
        manifests = {self._called(app.instance): app.app.deployment_manifest for app in apps}
        try:
            async with asyncio.timeout(INSPECT_SECONDS):
                return await self._standings(kubeconfig, manifests)
        except TimeoutError as error:
            why = f"Kubernetes did not answer within {INSPECT_SECONDS:g} s"
            raise Failed(why) from error

    async def _found(self, name: str) -> pb.ClusterDetailItem | None:
        """A cluster as it is at once, or None if there is none."""
        try:
            asked = pb.GetClusterMsg(name=name)
            reply = await self._stub.GetCluster(asked, timeout=INSPECT_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise Failed(f"Windlass does not tell of its clusters: {error.details()}") from error
        return reply.cluster

    async def _nodes(self, cluster: ClusterInst, name: str) -> tuple[int | None, list[str]]:
        """How many nodes a cluster has, and what is wrong with them. None: that is not told."""
        try:
            asked = pb.GetClusterNodesStatusMsg(clusterName=name)
            reply = await self._stub.GetClusterNodesStatus(asked, timeout=INSPECT_SECONDS)
        except grpc.aio.AioRpcError as error:
            log.info("nodes not told", cluster=name, error=error.details())
            return None, []
        faults, count = [], len(reply.machines)
        wanted = cluster.num_masters + cluster.num_nodes
        if count != wanted:
            faults.append(f"has {count} nodes, and not {wanted}")
        lacking = [each for each in reply.machines if each.k8sNodeStatus != READY]
        if unready := [each.maasHostname or "?" for each in lacking]:
            named = ", ".join(sorted(unready)[:NAMED])
            faults.append(f"has {len(unready)} nodes that are not Ready: {named}")
        return count, faults

    async def _standings(
        self, kubeconfig: str, manifests: Mapping[str, str]
    ) -> dict[str, Standing]:
        """How what was applied stands, of each name by its manifest. Failed if the API does not
        answer."""
        async with connected(kubeconfig) as client:
            try:
                return {
                    name: await self._standing(client, name, manifest)
                    for name, manifest in manifests.items()
                }
            except ApiError as error:
                raise Failed(f"Kubernetes refused to tell of it: {error}") from error
            except httpx2.TransportError as error:
                raise Failed(f"Kubernetes does not answer: {type(error).__name__}") from error

    async def _standing(self, client: AsyncClient, name: str, manifest: str) -> Standing:
        faults: list[str] = []
        containers: list[str] = []
        for each in read(manifest):
            if isinstance(each, Deployment):
                found = await _deployment(client, each)
                if found is None:
                    faults.append(f"does not run: {describe(each)} is gone")
                    continue
                faults += _lacking(found)
                pods = await pods_of(client, found, holder_of(found))
                containers += [str(pod.metadata.name) for pod in pods if pod.metadata]
                faults += [fault for pod in pods for fault in self._ailing(name, pod)]
        return Standing(tuple(faults), tuple(containers))

    def _ailing(self, name: str, pod: Any) -> Iterator[str]:
        for each in (pod.status and pod.status.containerStatuses) or ():
            called = f"{pod.metadata.name}/{each.name}"
            waits = each.state.waiting if each.state else None
            loops = self._restarts.is_loop(f"{name}/{called}", each.restartCount or 0)
            anew = f"started anew {each.restartCount or 0} times"
            if waits and waits.reason in AILING:
                yield f"has container {called} in {waits.reason}, {anew}"
            elif loops:
                yield f"has container {called}, {anew} by now"


async def _deployment(client: AsyncClient, wanted: Any) -> Deployment | None:
    name, namespace = wanted.metadata.name, wanted.metadata.namespace
    try:
        return await client.get(Deployment, name, namespace=namespace)
    except ApiError as error:
        if error.status.code != NOT_FOUND:
            raise
        return None


def _lacking(found: Any) -> list[str]:
    """What is said of a deployment that is not all there."""
    available = (found.status and found.status.availableReplicas) or 0
    wanted = found.spec.replicas or 0
    if available >= max(wanted, 1):
        return []
    return [f"has {available} of {max(wanted, 1)} replicas of deployment {found.metadata.name}"]
