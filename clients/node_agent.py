"""The agents on nodes, asked at their own addresses: the original contract for what runs, and our
extension of it, where an agent has it, for what is kept.

Scheduler and agent number the same words differently, so what crosses is the word."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from domain.agents import STALE, Copy, Order, Output, Trust, trust_of
from domain.errors import (
    Conflict,
    DomainError,
    Exhausted,
    Invalid,
    NotFound,
    Unavailable,
    Unsupported,
)
from domain.instance import Phase, Report
from domain.metadata import COMMAND, HEALTH, INCARNATION, TENANT, WORKLOAD
from domain.placement import Amounts
from domain.ports import Vault
from domain.probing import Probe
from domain.registries import CREDENTIALS, kept_under, registry_of
from protos.gen.agent import instance_pb2 as pb
from protos.gen.agent import node_pb2
from protos.gen.agent.instance_pb2_grpc import InstanceServiceStub
from protos.gen.agent.node_pb2_grpc import NodeStub

WORDS: dict[str, Phase] = {
    "RUNNING": Phase.RUNNING,
    "STARTING": Phase.STARTING,
    "STOPPING": Phase.STOPPING,
    "DESTROYING": Phase.DESTROYING,
    "TERMINATED": Phase.TERMINATED,
    "CRASHED": Phase.FAILED,
    "FAILED": Phase.FAILED,
    "SCHEDULING": Phase.SCHEDULING,
    "SCHEDULED": Phase.SCHEDULED,
}
"""What an agent's word means to us."""

ANSWER_SECONDS = 10.0
"""How long an agent may take to say its first word. It says it before it fetches anything."""

CALL_SECONDS = 30.0
REACH_SECONDS = 3.0
EXEC_SECONDS, SLACK_SECONDS = 30.0, 5.0
EXEC_BYTES = 2**20 + 1024
"""The most that is taken of either output of a command, whatever an agent sends."""


KEEPALIVE = [
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
"""Who listens to an instance may hear nothing for hours: a connection that is dead is found out.
And a node that is back is soon found to be so, where the library would let two minutes pass."""

MOST_AMOUNT = 2**31 - 1

KINDS: dict[grpc.StatusCode, type[DomainError]] = {
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
}
"""Whatever else an agent answers may pass."""

Known = tuple[tuple[str, str], ...]
Reply = TypeVar("Reply")


class Way(NamedTuple):
    """How an agent is reached."""

    channel: grpc.aio.Channel
    known: Known
    """What has it take our calls."""


class NodeAgents:
    """The agents of `domain.agents`, over gRPC. One channel for each address and certificate. Every
    call carries the secret that its agent told when it registered; original agents told none."""

    def __init__(self, vault: Vault, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._vault = vault
        self._answer_seconds = answer_seconds
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    async def reach(self, node: str, address: str, certificate: str = "") -> None:
        whose = " that holds the key of its certificate" if certificate else ""
        try:
            async with _opened(address, node, certificate) as channel:
                await asyncio.wait_for(channel.channel_ready(), REACH_SECONDS)
        except TimeoutError as error:
            raise Unavailable(
                f"no agent{whose} answers at {address}",
                subject=address,
                reason="AGENT_UNREACHABLE",
                do="start the agent before it registers, and let it be reached there",
            ) from error

    async def run(self, order: Order) -> AsyncGenerator[Report, None]:
        way = await self._way(order.node, order.address)
        beside = (*way.known, *_beside(order), *await self._opens(order.spec.uri))
        stub = InstanceServiceStub(way.channel)
        stream = stub.create(await self._instance(order), metadata=beside)
        try:
            patience: float | None = self._answer_seconds
            while True:
                status = await asyncio.wait_for(stream.read(), patience)
                if not isinstance(status, pb.InstanceStatus):
                    return
                yield _heard(status)
                patience = None  # from here on the node's lease tells whether it lives
        except TimeoutError as error:
            raise Unavailable(
                f"the agent of {order.node} said nothing for {self._answer_seconds:g} s",
                subject=order.node,
                reason="AGENT_SILENT",
            ) from error
        except grpc.aio.AioRpcError as error:
            raise _translated(order.node, "create", error) from error
        finally:
            stream.cancel()

    async def start(self, order: Order) -> None:
        try:
            await self._asked(
                order,
                "Start",
                lambda way: NodeStub(way.channel).Start(
                    _copy(order), metadata=way.known, timeout=CALL_SECONDS
                ),
            )
        except Unsupported as error:
            raise NotFound(f"the agent of {order.node} keeps nothing that it stops") from error

    async def stop(self, order: Order) -> bool:
        request = node_pb2.StopRequest(copy=_copy(order))
        try:
            await self._asked(
                order,
                "Stop",
                lambda way: NodeStub(way.channel).Stop(
                    request, metadata=way.known, timeout=CALL_SECONDS
                ),
            )
        except Unsupported:  # an original agent, which removes what it stops
            await self._signal(order, pb.STOP)
            return False
        except NotFound:
            return False
        return True

    async def destroy(self, order: Order) -> None:
        try:
            await self._asked(
                order,
                "Destroy",
                lambda way: NodeStub(way.channel).Destroy(
                    _copy(order), metadata=way.known, timeout=CALL_SECONDS
                ),
            )
        except Unsupported:
            await self._signal(order, pb.KILL)
        except Conflict as error:
            if error.reason != STALE:  # then a newer copy has taken its place
                raise

    async def held(self, node: str, address: str) -> list[Copy]:
        way, request = await self._way(node, address), node_pb2.InventoryRequest()
        stub = NodeStub(way.channel)
        try:
            answer = await stub.Inventory(request, metadata=way.known, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise _translated(node, "Inventory", error) from error
        copies = [held.copy for held in answer.held]
        return [Copy(instance=each.instance, incarnation=each.incarnation) for each in copies]

    async def drop(self, node: str, address: str, copy: Copy) -> None:
        way = await self._way(node, address)
        request = node_pb2.Copy(instance=copy.instance, incarnation=copy.incarnation)
        try:
            await NodeStub(way.channel).Destroy(request, metadata=way.known, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            failure = _translated(node, "Destroy", error)
            if failure.reason != STALE:
                raise failure from error

    async def execute(
        self, node: str, address: str, instance: str, command: Sequence[str], seconds: float
    ) -> Output:
        request = node_pb2.ExecRequest(instance=instance, command=command, timeout_seconds=seconds)
        way, limit = await self._way(node, address), (seconds or EXEC_SECONDS) + SLACK_SECONDS
        told = NodeStub(way.channel).Exec(request, metadata=way.known, timeout=limit)
        stdout, stderr, code = bytearray(), bytearray(), 0
        try:
            async for output in told:
                stdout += output.stdout[: EXEC_BYTES - len(stdout)]
                stderr += output.stderr[: EXEC_BYTES - len(stderr)]
                code = output.exit_code
        except grpc.aio.AioRpcError as error:
            raise _translated(node, "Exec", error) from error
        return Output(stdout=bytes(stdout), stderr=bytes(stderr), exit_code=code)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    async def _signal(self, order: Order, signal: pb.Signal.ValueType) -> None:
        """Tell an original agent, which answers once it has accepted. One that knows of nothing
        has nothing left."""
        request = pb.SignalInstruction(instance=pb.Instance(id=order.instance), signal=signal)
        try:
            await self._asked(
                order,
                "signal",
                lambda way: InstanceServiceStub(way.channel).signal(
                    request, metadata=(*way.known, *_beside(order)), timeout=CALL_SECONDS
                ),
            )
        except NotFound:
            return

    async def _asked(
        self, order: Order, call: str, ask: Callable[[Way], Awaitable[Reply]]
    ) -> Reply:
        way = await self._way(order.node, order.address)
        try:
            return await ask(way)
        except grpc.aio.AioRpcError as error:
            raise _translated(order.node, call, error) from error

    async def _instance(self, order: Order) -> pb.Instance:
        """What is ordered, with its environment, which we open for its agent alone."""
        spec = order.spec
        if not spec.sealed:
            return _instance(order, spec.environment)
        return _instance(order, json.loads(await self._vault.open(spec.sealed)))

    async def _way(self, node: str, address: str) -> Way:
        """What it told is read anew each time: an agent that lost its memory has told another
        secret, and certificates are renewed."""
        try:
            trust = Trust.opened(await self._vault.open(trust_of(node)))
        except NotFound:
            trust = Trust()
        at = (address, trust.certificate)
        if at not in self._channels:
            self._channels[at] = _opened(address, node, trust.certificate)
        known = (("authorization", f"Bearer {trust.secret}"),) if trust.secret else ()
        return Way(self._channels[at], known)

    async def _opens(self, uri: str) -> Known:
        """What opens the registry that an image comes from, if we were told."""
        registry = registry_of(uri)
        if not registry:
            return ()
        try:
            kept = await self._vault.open(kept_under(registry))
        except NotFound:
            return ()
        return ((CREDENTIALS, kept.decode()),)


def _opened(address: str, node: str, certificate: str) -> grpc.aio.Channel:
    """A channel to a node's agent and to nobody else, if it has a certificate."""
    if not certificate:
        return grpc.aio.insecure_channel(address, options=KEEPALIVE)
    trusted = grpc.ssl_channel_credentials(certificate.encode())
    named = ("grpc.ssl_target_name_override", node)
    return grpc.aio.secure_channel(address, trusted, options=[*KEEPALIVE, named])


def _instance(order: Order, environment: Sequence[str]) -> pb.Instance:
    spec, limit = order.spec, order.spec.limit
    return pb.Instance(
        id=order.instance,
        name=spec.name,
        uri=spec.uri,
        environment=environment,
        resource=pb.Resource(
            limit=pb.ResourceSummary(cpu=limit.cpu, memory=limit.memory, disk=limit.disk)
        ),
        ports=[pb.Port(source=port.source, destination=port.destination) for port in order.ports],
        ip=order.ip,
    )


def _beside(order: Order) -> tuple[tuple[str, str], ...]:
    """What our agents are told that the original contract has no words for."""
    spec = order.spec
    beside = {
        INCARNATION: str(order.incarnation),
        TENANT: order.tenant,
        WORKLOAD: spec.demands.workload,
        COMMAND: json.dumps(spec.command) if spec.command else "",
        HEALTH: _health(spec.probe) if spec.probe else "",
    }
    return tuple((key, value) for key, value in beside.items() if value)


def _health(probe: Probe) -> str:
    said = probe.model_dump(mode="json")
    return json.dumps({key: value for key, value in said.items() if value})


def _copy(order: Order) -> node_pb2.Copy:
    return node_pb2.Copy(instance=order.instance, incarnation=order.incarnation)


def _heard(status: pb.InstanceStatus) -> Report:
    """2 is STOPPED to the scheduler and STOPPING to the agent, so only the word is read."""
    word = pb.Status.Name(status.status)
    says = status.description
    if word == "CRASHED":
        says = f"crashed: {says}" if says else "crashed"
    used = status.resource.usage if status.resource.HasField("usage") else None
    return Report(
        phase=WORDS[word],
        says=says,
        used=Amounts(cpu=_sane(used.cpu), memory=_sane(used.memory), disk=_sane(used.disk))
        if used is not None
        else None,
    )


def _sane(amount: int) -> int:
    """Original agents count some amounts in bytes."""
    return min(amount, MOST_AMOUNT)


def _translated(node: str, call: str, error: grpc.aio.AioRpcError) -> DomainError:
    said = f"the agent of {node} answered {error.code().name} to {call}: {error.details()}"
    kind = KINDS.get(error.code(), Unavailable)
    reason = "AGENT_UNREACHABLE" if kind is Unavailable else "AGENT_REFUSED"
    if error.code() is grpc.StatusCode.UNAUTHENTICATED:
        reason = "AGENT_SECRET_WRONG"
    return kind(said, subject=node, reason=_reason(error) or reason)


def _reason(error: grpc.aio.AioRpcError) -> str:
    """The reason in the error's details, if there is one."""
    trailers = dict(error.trailing_metadata() or ())
    packed = trailers.get("grpc-status-details-bin")
    if not isinstance(packed, bytes):
        return ""
    for detail in status_pb2.Status.FromString(packed).details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            return str(error_details_pb2.ErrorInfo.FromString(detail.value).reason)
    return ""
