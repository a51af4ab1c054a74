# ruff: noqa: N802 - the methods are named by the contracts
"""A server that speaks the contracts, on a port of its own, with just enough memory for a command.

It is a peer on the wire: nothing of ours but the generated code is in it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import grpc
import grpc.aio
from google.longrunning import (  # type: ignore[import-untyped]
    operations_pb2 as longrunning,
)
from google.longrunning import operations_pb2_grpc as longrunning_grpc
from google.protobuf import any_pb2, empty_pb2
from google.protobuf.message import Message
from google.rpc import (  # type: ignore[import-untyped]
    code_pb2,
    error_details_pb2,
    status_pb2,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_status import rpc_status

from protos.gen.kaas import api_pb2 as kaas
from protos.gen.kaas import api_pb2_grpc as kaas_grpc
from protos.gen.ops import clusters_pb2 as seen
from protos.gen.ops import clusters_pb2_grpc as clusters_grpc
from protos.gen.ops import health_pb2 as care
from protos.gen.ops import health_pb2_grpc as care_grpc
from protos.gen.ops import operations_pb2 as ops
from protos.gen.ops import operations_pb2_grpc as ops_grpc

NOON = datetime(2026, 3, 14, 12, 3, 4, tzinfo=UTC)


@dataclass
class Refusal:
    """The error with which the next call of a method is answered."""

    code: grpc.StatusCode
    message: str
    details: tuple[Message, ...] = ()
    trailers: tuple[tuple[str, str], ...] = ()


@dataclass
class Story:
    """An operation as it is told: event by event, with the places where the telling breaks off."""

    operation: ops.Operation
    events: list[ops.OperationEvent]
    breaks: list[int] = field(default_factory=list)
    """After these events the stream breaks, once each."""
    holds: dict[int, asyncio.Event] = field(default_factory=dict)
    """Before these events it waits."""


@dataclass
class Peer:
    """What the server knows, what it was asked, and where it is."""

    address: str = ""
    http: str = ""
    clusters: dict[str, kaas.ClusterDetailItem] = field(default_factory=dict)
    machines: list[kaas.GetClusterNodesStatusReply.MachineStatus] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    why: str = "the catalogue offers nothing newer than 1.33.0"
    views: list[seen.ClusterView | None] = field(default_factory=list)
    """How a cluster is seen, one after the other; None: the stream breaks."""
    owners: dict[str, str] = field(default_factory=dict)
    """What clusters were made for, by their names."""
    quiet: float = 0.0
    """So long nothing is said before a stream of views breaks."""
    stories: dict[str, Story] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    hung: set[str] = field(default_factory=set)
    """Methods that never answer."""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    next_operation: str = ""
    reading: care.WhyResponse = field(default_factory=care.WhyResponse)
    policy: care.Policy.ValueType = care.PROPOSE
    quarantined: list[care.QuarantinedMachine] = field(default_factory=list)
    plan: ops.PlanResponse = field(default_factory=ops.PlanResponse)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    version: str = "v0.1.0+abc"
    doors: dict[str, tuple[int, str]] = field(
        default_factory=lambda: {"/livez": (200, "ok\n"), "/readyz?verbose": (200, "[+]db ok\n")}
    )
    clock_ahead: timedelta = timedelta()
    serving: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("cnct.kaas.api.Cluster", "windlass.v1.Operations", "google.longrunning.Operations"),
            health_pb2.HealthCheckResponse.SERVING,
        )
    )

    def requests(self, method: str) -> list[Any]:
        return [request for name, _, request in self.asked if name == method]

    async def until_asked(self, method: str, times: int = 1) -> None:
        """Wait until a method was called so often."""
        while len(self.requests(method)) < times:
            await self._arrived.wait()

    async def take(self, method: str, request: Message, context: Any) -> None:
        """Remember a call, and refuse it if told to."""
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        self.asked.append((method, metadata, request))
        self._arrived.set()
        self._arrived = asyncio.Event()
        if method in self.hung:
            await asyncio.Event().wait()
        refusal = self.refusals.get(method)
        if refusal is None:
            return
        if not refusal.details:
            await context.abort(refusal.code, refusal.message, refusal.trailers)
        status = status_pb2.Status(
            code=getattr(code_pb2, refusal.code.name), message=refusal.message
        )
        for detail in refusal.details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        answer = rpc_status.to_status(status)
        await context.abort(
            answer.code, answer.details, (*answer.trailing_metadata, *refusal.trailers)
        )


class Clusters(kaas_grpc.ClusterServicer):
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def CreateCluster(self, request: Any, context: Any) -> kaas.CreateClusterReply:
        await self.peer.take("CreateCluster", request, context)
        self._name_operation(context)
        item = kaas.ClusterItem(
            name=request.name, status=kaas.PROVISIONING, status_message="queued"
        )
        return kaas.CreateClusterReply(ok=True, cluster=item)

    async def GetCluster(self, request: Any, context: Any) -> kaas.GetClusterReply:
        await self.peer.take("GetCluster", request, context)
        if request.name not in self.peer.clusters:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"cluster {request.name} does not exist")
        return kaas.GetClusterReply(ok=True, cluster=self.peer.clusters[request.name])

    async def DeleteCluster(self, request: Any, context: Any) -> kaas.DeleteClusterReply:
        await self.peer.take("DeleteCluster", request, context)
        self._name_operation(context)
        return kaas.DeleteClusterReply(ok=True, status="Deleting")

    async def GetClusterList(self, request: Any, context: Any) -> kaas.GetClusterListReply:
        await self.peer.take("GetClusterList", request, context)
        return kaas.GetClusterListReply(
            ok=True,
            clusters=[
                kaas.ClusterItem(
                    name=each.name, status=each.status, status_message=each.status_message
                )
                for each in self.peer.clusters.values()
            ],
        )

    async def AddNodePool(self, request: Any, context: Any) -> kaas.AddNodePoolReply:
        await self.peer.take("AddNodePool", request, context)
        self._name_operation(context)
        return kaas.AddNodePoolReply(ok=True)

    async def ScaleNodePool(self, request: Any, context: Any) -> kaas.ScaleNodePoolReply:
        await self.peer.take("ScaleNodePool", request, context)
        self._name_operation(context)
        return kaas.ScaleNodePoolReply(ok=True)

    async def DeleteNodePool(self, request: Any, context: Any) -> kaas.DeleteNodePoolReply:
        await self.peer.take("DeleteNodePool", request, context)
        self._name_operation(context)
        return kaas.DeleteNodePoolReply(ok=True)

    async def UpgradeCluster(self, request: Any, context: Any) -> kaas.UpgradeClusterReply:
        await self.peer.take("UpgradeCluster", request, context)
        self._name_operation(context)
        return kaas.UpgradeClusterReply(ok=True)

    async def GetUpgradeClusterInformation(
        self, request: Any, context: Any
    ) -> kaas.GetUpgradeClusterInformationReply:
        await self.peer.take("GetUpgradeClusterInformation", request, context)
        offered = self.peer.offered
        if not offered:
            context.set_trailing_metadata((("windlass-why", self.peer.why),))
        return kaas.GetUpgradeClusterInformationReply(ok=bool(offered), versions=offered)

    async def GetClusterNodesStatus(
        self, request: Any, context: Any
    ) -> kaas.GetClusterNodesStatusReply:
        await self.peer.take("GetClusterNodesStatus", request, context)
        return kaas.GetClusterNodesStatusReply(
            Name=request.clusterName, count=len(self.peer.machines), machines=self.peer.machines
        )

    async def GetVersionInformation(self, request: Any, context: Any) -> kaas.GetVersionReply:
        await self.peer.take("GetVersionInformation", request, context)
        return kaas.GetVersionReply(
            ok=True,
            version_information=kaas.GetVersionReply.VersionInformation(
                git_version=self.peer.version,
                git_commit="abc",
                git_tree_state="clean",
                build_date="2026-03-14T00:00:00Z",
                go_version="3.11.9",
                compiler="CPython",
                platform="linux/amd64",
            ),
        )

    def _name_operation(self, context: Any) -> None:
        if self.peer.next_operation:
            context.set_trailing_metadata((("windlass-operation", self.peer.next_operation),))


class Health(care_grpc.HealthServicer):
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def GetPolicy(self, request: Any, context: Any) -> care.HealthPolicy:
        await self.peer.take("GetPolicy", request, context)
        return care.HealthPolicy(cluster=request.cluster, policy=self.peer.policy)

    async def SetPolicy(self, request: Any, context: Any) -> care.HealthPolicy:
        await self.peer.take("SetPolicy", request, context)
        self.peer.policy = request.policy
        return care.HealthPolicy(cluster=request.cluster, policy=self.peer.policy)

    async def Repair(self, request: Any, context: Any) -> care.RepairResponse:
        await self.peer.take("Repair", request, context)
        if not self.peer.next_operation:
            return care.RepairResponse()
        context.set_trailing_metadata((("windlass-operation", self.peer.next_operation),))
        return care.RepairResponse(operation=f"operations/{self.peer.next_operation}")

    async def Why(self, request: Any, context: Any) -> care.WhyResponse:
        await self.peer.take("Why", request, context)
        return self.peer.reading

    async def Quarantined(self, request: Any, context: Any) -> care.QuarantinedResponse:
        await self.peer.take("Quarantined", request, context)
        return care.QuarantinedResponse(machines=self.peer.quarantined)

    async def Lift(self, request: Any, context: Any) -> care.LiftResponse:
        await self.peer.take("Lift", request, context)
        return care.LiftResponse()


class Operations(ops_grpc.OperationsServicer):
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def List(self, request: Any, context: Any) -> ops.ListOperationsResponse:
        await self.peer.take("List", request, context)
        stories = list(self.peer.stories.values())
        first = int(request.page_token or 0)
        page = stories[first : first + min(request.page_size, 2)]
        shown = [ops.Operation.FromString(each.operation.SerializeToString()) for each in page]
        for operation in shown:
            del operation.steps[:]
        more = str(first + len(page)) if first + len(page) < len(stories) else ""
        return ops.ListOperationsResponse(operations=shown, next_page_token=more)

    async def Get(self, request: Any, context: Any) -> ops.Operation:
        await self.peer.take("Get", request, context)
        return (await self._story(request.name, context)).operation

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[ops.OperationEvent]:
        await self.peer.take("Watch", request, context)
        story = await self._story(request.name, context)
        for event in story.events:
            if event.number <= request.after:
                continue
            if event.number in story.holds:
                await story.holds[event.number].wait()
            yield event
            if event.number in story.breaks:
                story.breaks.remove(event.number)
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server goes away")

    async def Cancel(self, request: Any, context: Any) -> ops.Operation:
        await self.peer.take("Cancel", request, context)
        return (await self._story(request.name, context)).operation

    async def Pause(self, request: Any, context: Any) -> ops.Operation:
        await self.peer.take("Pause", request, context)
        operation = (await self._story(request.name, context)).operation
        operation.paused_by = "ann"
        return operation

    async def Resume(self, request: Any, context: Any) -> ops.Operation:
        await self.peer.take("Resume", request, context)
        operation = (await self._story(request.name, context)).operation
        operation.paused_by = ""
        return operation

    async def Approve(self, request: Any, context: Any) -> ops.Operation:
        await self.peer.take("Approve", request, context)
        operation = (await self._story(request.name, context)).operation
        operation.gate = ""
        return operation

    async def Plan(self, request: Any, context: Any) -> ops.PlanResponse:
        await self.peer.take("Plan", request, context)
        return self.peer.plan

    async def _story(self, name: str, context: Any) -> Story:
        identity = name.removeprefix("operations/")
        if identity not in self.peer.stories:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"operation {identity} does not exist")
        return self.peer.stories[identity]


class Views(clusters_grpc.ClustersServicer):
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[seen.ClusterView]:
        await self.peer.take("WatchCluster", request, context)
        if not self.peer.views:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no cluster {request.name}")
        while self.peer.views:
            view = self.peer.views.pop(0)
            if view is not None:
                yield view
            else:
                await asyncio.sleep(self.peer.quiet)
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server goes away")

    async def ListOwners(self, request: Any, _: Any) -> seen.ListClusterOwnersResponse:
        """Not remembered: every change of a cluster asks first."""
        named = {request.name: self.peer.owners.get(request.name, "")}
        clusters = (seen.ClusterOwner(name=name, owner=owner) for name, owner in named.items())
        return seen.ListClusterOwnersResponse(clusters=clusters)


class LongRunning(longrunning_grpc.OperationsServicer):  # type: ignore[misc]
    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    async def CancelOperation(
        self, request: longrunning.CancelOperationRequest, context: Any
    ) -> empty_pb2.Empty:
        await self.peer.take("CancelOperation", request, context)
        return empty_pb2.Empty()


@asynccontextmanager
async def served(peer: Peer, port: int = 0) -> AsyncIterator[grpc.aio.Server]:
    """Serve the peer over gRPC until the block ends."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    kaas_grpc.add_ClusterServicer_to_server(Clusters(peer), server)
    ops_grpc.add_OperationsServicer_to_server(Operations(peer), server)
    clusters_grpc.add_ClustersServicer_to_server(Views(peer), server)  # type: ignore[abstract]
    care_grpc.add_HealthServicer_to_server(Health(peer), server)
    longrunning_grpc.add_OperationsServicer_to_server(LongRunning(peer), server)
    health = health_aio.HealthServicer()
    for service, status in peer.serving.items():
        await health.set(service, status)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    peer.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


@asynccontextmanager
async def http_served(peer: Peer) -> AsyncIterator[None]:
    """Serve what the doctor asks over HTTP."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status, body = peer.doors.get(head.split()[1], (404, "not found\n"))
        date = format_datetime(datetime.now(UTC) + peer.clock_ahead, usegmt=True)
        writer.write(
            f"HTTP/1.1 {status} Said\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n{body}".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    peer.http = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield


def at(seconds: float) -> datetime:
    """So many seconds past three past noon."""
    return NOON + timedelta(seconds=seconds)


def refused(reason: str, **facts: str) -> Message:
    info: Message = error_details_pb2.ErrorInfo(
        reason=reason, domain="windlass", metadata={k.rstrip("_"): v for k, v in facts.items()}
    )
    return info


def step(
    verb: str,
    subject: str,
    state: "ops.StepState.ValueType",
    began: float | None = None,
    ended: float | None = None,
    **more: Any,
) -> ops.Step:
    made = ops.Step(verb=verb, subject=subject, state=state, **{"turn": 1, **more})
    if began is not None:
        made.started.FromDatetime(at(began))
    if ended is not None:
        made.ended.FromDatetime(at(ended))
    return made


def operation(
    identity: str,
    stage: "ops.Stage.ValueType" = ops.RUNNING,
    percent: int = 0,
    ended: float | None = None,
    **more: Any,
) -> ops.Operation:
    fields = {"kind": "create-cluster", "subject": "cluster/hello", "requester": "anonymous"}
    made = ops.Operation(
        name=f"operations/{identity}", stage=stage, percent=percent, **{**fields, **more}
    )
    made.created.FromDatetime(at(0))
    made.started.FromDatetime(at(0.5))
    if ended is not None:
        made.ended.FromDatetime(at(ended))
    return made


def told(identity: str, *, end: "ops.Stage.ValueType" = ops.SUCCEEDED) -> Story:
    """A short operation: two steps, one of them at the second attempt."""
    deploy, join = ("machines.deploy", "worker-a-x7k2p"), ("kubeadm.join", "worker-a-x7k2p")
    said: list[tuple[float, int, str, ops.Step | None]] = [
        (0, 0, "accepted", None),
        (1, 0, "", step(*deploy, ops.ACTIVE, 1, attempts=1)),
        (5.1, 42, "", step(*deploy, ops.DONE, 1, 5.1, attempts=1)),
        (6, 42, "", step(*join, ops.STUMBLED, 5.5, attempts=1, note="port 6443 is closed")),
        (9, 90, "", step(*join, ops.DONE, 5.5, 9, attempts=2)),
    ]
    events = []
    for number, (seconds, percent, note, about) in enumerate(said, start=1):
        event = ops.OperationEvent(
            number=number, note=note, step=about, operation=operation(identity, percent=percent)
        )
        event.time.FromDatetime(at(seconds))
        events.append(event)
    done = end == ops.SUCCEEDED
    failure = None if done else ops.Failure(code=8, kind="Exhausted", message="no machine is left")
    final = operation(
        identity,
        end,
        100 if done else 90,
        ended=10.5,
        steps=[said[2][3], said[4][3]],
        failure=failure,
        last_event=6,
        request_id="key-1",
    )
    last = ops.OperationEvent(number=6, note="the end", operation=final, last=True)
    del last.operation.steps[:]
    last.time.FromDatetime(at(10.5))
    return Story(final, [*events, last])
