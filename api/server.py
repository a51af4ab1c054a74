"""The gRPC server: its limits, what it serves, and how it goes down."""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from api.asking import Context
from api.door import Admit, Door, Service, anybody
from api.front import Front
from api.listening import ALSO, Also, bound
from api.meters import Meters
from api.tls import Certificates

OPTIONS: dict[str, int] = {
    # Streams of notify are served here, too: who freezes is to be noticed within a minute.
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 20_000,
    # The library waits a minute for the answer to any ping, its own too, unless this is said.
    "grpc.http2.ping_timeout_ms": 20_000,
    # More patient than the library: clients with honest keepalives are told "too_many_pings" else.
    "grpc.http2.min_ping_interval_without_data_ms": 30_000,
    "grpc.http2.max_ping_strikes": 0,
    "grpc.keepalive_permit_without_calls": 1,
    # New calls find new servers behind a load balancer. There is no age_grace_ms: streams go on
    # where they are, or resource managers were OFFLINE every half hour.
    "grpc.max_connection_age_ms": 30 * 60_000,
    "grpc.max_receive_message_length": 4 * 1024 * 1024,
    # Beyond these gRPC cancels calls at random, those of other callers too. The front limits them.
    "grpc.server.max_pending_requests": 100_000,
    "grpc.server.max_pending_requests_hard_limit": 200_000,
}
GRACE_SECONDS = 31.0
"""What a single call gets to end by itself on the way down: a little more than it may take."""

NOTICE_SECONDS = 0.1
"""Between saying NOT_SERVING and ending streams, so that whoever balances load hears it first."""

REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"


class Server:
    """Serves what it is given to whom `admit` lets in, and beside it, to everybody, health and, if
    asked to, reflection."""

    def __init__(
        self,
        services: Sequence[Service],
        meters: Meters,
        *,
        describes_itself: bool = True,
        door: Door | None = None,
        admit: Admit = anybody,
        options: Mapping[str, int] = OPTIONS,
        setting: str = "WINDLASS_GRPC_ADDRESS",
        certificates: Certificates | None = None,
        front: Front | None = None,
    ) -> None:
        """`setting` names the address to listen on, for the error where that cannot be. `front`
        accepts its connections; it starts and stops with the server."""
        self._setting = setting
        self._certificates = certificates
        self._door = door or Door(meters)
        self._health = Health([service.name for service in services])
        own = [Service(health_pb2.DESCRIPTOR.services_by_name["Health"], self._health)]
        if describes_itself:
            own += _reflection([service.name for service in [*services, *own]])
        self.services = [*services, *own]
        self._front = front or Front()
        self._bound: list[tuple[socket.socket, bool]] = []
        """Sockets that nobody is accepted at yet, and whether certificates are required there."""
        self.certified = ""
        """Where callers with certificates come in who have a door of their own, once it is open."""
        chosen = {"grpc.max_concurrent_streams": self._front.traffic.streams, **options}
        self._server = grpc.aio.server(options=list(chosen.items()))
        self._server.add_generic_rpc_handlers(
            (
                *(self._door.opened(service, admit) for service in services),
                *(self._door.opened(service) for service in own),
            )
        )

    async def start(self, address: str, also: Also | None = None, certified: str = "") -> str:
        """Listen, and return the address with the port that port 0 turned into. Unavailable if
        somebody else listens there. `also` is where else, `certified` where besides for callers
        with certificates."""
        at = self._bind(address, self._setting)
        if also and also.passed:
            self._bound.append((also.passed, False))
        elif also and also.address:
            self._bind(also.address, ALSO)
        if certified and self._certificates is not None:
            theirs = self._bind(certified, "WINDLASS_TLS__CLIENT_ADDRESS", certified=True)
            self.certified = f"{certified.rpartition(':')[0]}:{theirs}"
        self._server.add_insecure_port(self._front.address)
        await self._server.start()
        for listening, only in self._bound:
            self._front.listen(listening, self._encrypted(only))
        self._bound.clear()
        await self._health.serving()
        return f"{address.rpartition(':')[0]}:{at}"

    def _bind(self, address: str, setting: str, *, certified: bool = False) -> int:
        """Have a socket there, and say at which port."""
        listening = bound(address, setting)
        self._bound.append((listening, certified))
        return int(listening.getsockname()[1])

    def _encrypted(self, certified: bool) -> ssl.SSLContext | None:
        if self._certificates is None:
            return None
        return self._certificates.for_clients() if certified else self._certificates.for_grpc()

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Say so, end the streams, let single calls end by themselves, then close."""
        await self._health.enter_graceful_shutdown()
        if self._door.has_streams:
            await asyncio.sleep(NOTICE_SECONDS)
        self._door.close()
        self._front.close()
        await self._server.stop(grace_seconds)
        await self._front.stop()
        for listening, _ in self._bound:
            listening.close()


class Health(health.aio.HealthServicer):
    """The library's health service, with the one method that it leaves out."""

    def __init__(self, services: Sequence[str]) -> None:
        super().__init__()
        self._names = services

    async def serving(self) -> None:
        """From here on every service is said to be there."""
        for name in self._names:
            await self.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def List(self, request: Message, context: Context) -> Message:
        statuses = {
            name: await self.Check(health_pb2.HealthCheckRequest(service=name), context)
            for name in ("", *self._names)
        }
        reply: Message = health_pb2.HealthListResponse(  # type: ignore[attr-defined]
            statuses=statuses  # the stubs are older than the method
        )
        return reply


def _reflection(names: Sequence[str]) -> list[Service]:
    """Reflection as v1alpha and once more as v1: the messages differ in nothing but the package."""
    described = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
    file = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    text = text_format.MessageToString(file).replace("v1alpha", "v1")
    v1 = text_format.Parse(text, FileDescriptorProto()).SerializeToString()
    descriptor_pool.Default().AddSerializedFile(v1)  # so that v1 can describe itself
    servicer = reflection.aio.ReflectionServicer([*names, described.full_name, REFLECTION_V1])
    return [Service(described, servicer), Service(described, servicer, REFLECTION_V1)]
