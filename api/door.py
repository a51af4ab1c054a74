"""The door that every call passes, whatever its method: decoding, ids, limits, errors, meters.

One closure per method rather than a chain of interceptors, since reads are what people wait for.
Handlers raise the domain's errors and contain no `try`; here, and only here, errors become
statuses. grpc.aio would answer undecodable bytes with UNKNOWN and the name of a Python class, so
requests are decoded here as well."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import grpc
import grpc.aio
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2

from api.asking import REQUEST_ID, Context, arrive, running
from api.errors import packed, packed_bug
from api.meters import Meters
from domain.errors import DomainError, Invalid, Overdue, Unavailable

if TYPE_CHECKING:
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any]

UNARY_SECONDS = 30.0
"""The longest a single call may take. Whoever wants to wait longer asks again, or watches."""

DETAILS = "grpc-status-details-bin"

CODES = {code.value[0]: code for code in grpc.StatusCode}

Answer = TypeVar("Answer")

log = structlog.get_logger()


class Service(NamedTuple):
    """A service as its contract describes it, and who serves it."""

    described: ServiceDescriptor
    servicer: object
    alias: str = ""
    """Served under this name instead of its own."""

    @property
    def name(self) -> str:
        return self.alias or self.described.full_name


class Door:
    def __init__(self, meters: Meters, *, unary_seconds: float = UNARY_SECONDS) -> None:
        self._meters = meters
        self._unary_seconds = unary_seconds
        self._streams: set[asyncio.Timeout] = set()
        self._closing = False

    def opened(self, service: Service) -> grpc.GenericRpcHandler:
        """What a server registers for a service. A method that nobody serves is an error now."""
        return grpc.method_handlers_generic_handler(
            service.name,
            {method.name: self._handler(service, method) for method in service.described.methods},
        )

    def close(self) -> None:
        """End every stream, now and from now on: callers take them up again elsewhere. Single
        calls are left to end by themselves."""
        self._closing = True
        now = asyncio.get_running_loop().time()
        for limit in self._streams:
            limit.reschedule(now)

    def _handler(self, service: Service, method: MethodDescriptor) -> "Handler":
        name = f"{service.name}/{method.name}"
        work = getattr(service.servicer, method.name)
        parse = _parser(method)
        if method.client_streaming:
            handler = self._stream(name, lambda raw, context: work(_each(parse, raw), context))
            return grpc.stream_stream_rpc_method_handler(handler, None, _written)
        if method.server_streaming:
            handler = self._stream(name, lambda raw, context: work(parse(raw), context))
            return grpc.unary_stream_rpc_method_handler(handler, None, _written)
        return grpc.unary_unary_rpc_method_handler(self._unary(name, parse, work), None, _written)

    def _unary(
        self,
        name: str,
        parse: Callable[[bytes], Message],
        work: Callable[[Message, Context], Awaitable[Message]],
    ) -> Callable[[bytes, Context], Awaitable[Message]]:
        through = self._passage(name)

        async def answer(raw: bytes, context: Context) -> Message:
            async def call() -> Message:
                async with asyncio.timeout(self._unary_seconds) as limit:
                    return await work(parse(raw), context)
                raise AssertionError(limit)

            return await through(context, call)

        return answer

    def _stream(
        self, name: str, work: Callable[[Any, Context], Any]
    ) -> Callable[[Any, Context], Awaitable[None]]:
        through = self._passage(name)

        async def answer(raw: Any, context: Context) -> None:
            await through(context, lambda: self._pour(work, raw, context))

        return answer
