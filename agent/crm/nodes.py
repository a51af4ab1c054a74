"""The platform `nodes`: apps are instances on nodes of our own, asked for through
`scheduler.InstanceService` as anybody would. A cluster is no more than a name there."""

import asyncio
import hashlib
import json
import shlex
from collections.abc import Sequence
from typing import TypeAlias

import grpc
import grpc.aio
import structlog

from agent.bearing import opened
from agent.crm.platform import AppOrder, Output, Resources
from agent.crm.replica import ident
from domain.errors import Failed
from domain.naming import as_dns
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub

DOCKER = "docker"
POOL, RESTART, COMMAND = "windlass-pool", "windlass-restart", "windlass-command"
"""Metadata that says which nodes an instance may be placed on, when it is run again, and what it
runs instead of what its image says."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]

AGAIN_SECONDS = 2.0
CALL_SECONDS = 30.0
NAME_LENGTH = 40

AWAY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""It may answer later. Whoever asked us sets the time until when."""

OVER = frozenset({pb.FAILED, pb.TERMINATED})

log = structlog.get_logger()


class Nodes:
    def __init__(
        self, address: str, pool: str, resources: Resources, *, again_seconds: float = AGAIN_SECONDS
    ) -> None:
        """`resources` is what its operator says there is: the scheduler does not tell."""
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = opened(address, options)
        self._instances = InstanceServiceStub(self._channel)
        self._metadata: Metadata = ((RESTART, "always"), *(((POOL, pool),) if pool else ()))
        self._resources, self._again_seconds = resources, again_seconds

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
        asked = _instance(order)
        metadata = self._metadata
        if order.app.command:
            metadata = (*metadata, (COMMAND, json.dumps(shlex.split(order.app.command))))
        while True:
            try:
                await self._running(asked, metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.ALREADY_EXISTS:
                    return [asked.id]
                if error.code() not in AWAY:
                    raise Failed(f"Windlass refused the instance: {error.details()}") from error
                log.warning("windlass does not answer", error=error.details())
                await asyncio.sleep(self._again_seconds)
            else:
                return [asked.id]

    async def delete_app(self, order: AppOrder) -> None:
        named = pb.InstanceIdentifier(id=instance_id(order))
        while True:
            try:
                await self._instances.Destroy(named, timeout=CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return
                if error.code() not in AWAY:
                    raise Failed(f"Windlass refused to destroy it: {error.details()}") from error
                log.warning("windlass does not answer", error=error.details())
                await asyncio.sleep(self._again_seconds)
            else:
                return

    async def run(self, order: AppOrder, container: str, command: str) -> Output:  # noqa: ARG002 (the promise's signature)
        raise Failed("the platform nodes runs no commands")

    async def close(self) -> None:
        await self._channel.close()

    async def _running(self, asked: pb.Instance, metadata: Metadata) -> None:
        """Ask for an instance and return once it runs. Failed says why it does not."""
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


def instance_id(order: AppOrder) -> str:
    """What an app instance is called as an instance: the app's name, and what tells it from those
    of other developers, clusters and cloudlets."""
    own = as_dns(order.app.key.name)[:NAME_LENGTH].strip("-")
    return f"{own}-{hashlib.sha256(ident(order.instance.key)).hexdigest()[:8]}"


def _instance(order: AppOrder) -> pb.Instance:
    flavor = order.flavor
    limit = pb.ResourceSummary(cpu=flavor.vcpus * 1000, memory=flavor.ram, disk=flavor.disk)
    ports = [
        pb.Port(source=port.public_port, destination=port.internal_port)
        for port in order.instance.mapped_ports
    ]
    return pb.Instance(
        id=instance_id(order),
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
