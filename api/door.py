"""The door that every call passes, whatever its method: decoding, ids, limits, errors, meters.

One closure per method rather than a chain of interceptors, since reads are what people wait for.
Handlers raise the domain's errors and contain no `try`; here, and only here, errors become
statuses. grpc.aio would answer undecodable bytes with UNKNOWN and the name of a Python class, so
requests are decoded here as well."""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Never, Protocol, TypeAlias, TypeVar

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2  # type: ignore[import-untyped]
from structlog.contextvars import bind_contextvars

from api.asking import REQUEST_ID, Context, arrive, entered, notes, running
from api.callers import sign_in
from api.calls import Calls
from api.errors import number, packed, packed_bug
from api.gate import Gate, NoGate, Trail, over, owned, permitted
from api.meters import Meters
from api.written import opened, written
from domain.access import Permission, Session
from domain.disk import trouble
from domain.errors import DomainError, Invalid, Overdue, Unavailable

if TYPE_CHECKING:
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any]

UNARY_SECONDS = 30.0
"""The longest a single call may take. Whoever wants to wait longer asks again, or watches."""

DETAILS = "grpc-status-details-bin"
CODES = {code.value[0]: code for code in grpc.StatusCode}

Answer = TypeVar("Answer")
Raw = TypeVar("Raw")
Trailers: TypeAlias = tuple[tuple[str, str | bytes], ...]
Parse: TypeAlias = Callable[[bytes], Message]
Admit: TypeAlias = Callable[[], Awaitable[None]]
"""Raises what a call is told instead of its answer, if it is not to be let in."""

log = structlog.get_logger()


class Service(NamedTuple):
    """A service as its contract describes it, and who serves it."""

    described: Any
    """Its descriptor, for whose type the stubs have two names."""
    servicer: object
    alias: str = ""
    """Served under this name instead of its own."""
    unknown: frozenset[str] = frozenset()
    """Reasons that leave as UNKNOWN, which is the only code that its first clients knew."""

    @property
    def name(self) -> str:
        return self.alias or str(self.described.full_name)


async def anybody() -> None:
    """Lets every call in."""


class Line(Protocol):
    """The other end of a call, as far as the door has to know it. A gRPC context is one."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...
    def auth_context(self) -> Any: ...
    def peer(self) -> str: ...
    def set_trailing_metadata(self, trailers: Trailers, /) -> None: ...
    def code(self) -> grpc.StatusCode: ...
    async def abort(self, code: grpc.StatusCode, message: str, trailers: Trailers, /) -> Never: ...


class _Method(NamedTuple):
    name: str
    seconds: float | None
    """How long a call may take. None: until its stream ends, or the server."""
    admit: Admit
    gate: Gate
    asked: Permission
    trail: Trail | None
    """Where what becomes of it is written down, if it changes anything."""
    tally: Callable[[grpc.StatusCode, float], None]
    unknown: frozenset[str]
    calls: Calls


class Door:
    def __init__(
        self,
        meters: Meters,
        gate: Gate | None = None,
        trail: Trail | None = None,
        *,
        calls: Calls | None = None,
        unary_seconds: float = UNARY_SECONDS,
    ) -> None:
        self._meters = meters
        self._gate = gate or NoGate()
        self._trail = trail
        self._calls = calls or Calls()
        self._unary_seconds = unary_seconds
        self._streams: set[asyncio.Timeout] = set()
        self._closed = False

    def opened(self, service: Service, admit: Admit = anybody) -> grpc.GenericRpcHandler:
        """What a server registers for a service. A method that nobody serves is an error now."""
        methods = service.described.methods
        handlers = {method.name: self._handler(service, method, admit) for method in methods}
        return grpc.method_handlers_generic_handler(service.name, handlers)

    def single(
        self,
        service: Service,
        described: Any,
        read: Callable[[Raw], Awaitable[Message]],
        admit: Admit = anybody,
    ) -> Callable[[Raw, Line], Awaitable[Message]]:
        """What answers single calls of a method that do not come in by gRPC. They pass here as all
        others do; only how the request is read is theirs, and it is part of their time."""
        method = self._method(service, described, admit)
        work = getattr(service.servicer, described.name)

        async def answer(raw: Raw, line: Line) -> Message:
            if self._closed:  # nobody else keeps new ones out
                raise _stopping()
            reply: Message = await work(await _meant(method, await read(raw), line), line)
            return reply

        return self._unary(method, answer)

    def several(
        self,
        service: Service,
        described: Any,
        read: Callable[[Raw], Awaitable[Message]],
        admit: Admit = anybody,
    ) -> Callable[[Raw, Any], Awaitable[None]]:
        """The same for methods that answer with streams. Messages are written to the line."""
        method = self._method(service, described, admit)
        work = getattr(service.servicer, described.name)
        kind = GetMessageClass(described.output_type)

        async def answer(raw: Raw, line: Any) -> None:
            answers = work(await _meant(method, await read(raw), line), line)
            await _told(answers, lambda each: line.write(opened(each, kind)))

        return self._stream(method, answer)

    @property
    def has_streams(self) -> bool:
        """Whether anybody listens at the moment."""
        return bool(self._streams)

    def close(self) -> None:
        """End every stream, and let no new one in: callers take theirs up again elsewhere. Single
        calls are left to end by themselves."""
        self._closed = True
        now = asyncio.get_running_loop().time()
        for limit in self._streams:
            limit.reschedule(now)
        self._streams.clear()

    def _handler(self, service: Service, described: Any, admit: Admit) -> "Handler":
        method = self._method(service, described, admit)
        work = getattr(service.servicer, described.name)
        read = parser(described)

        async def parse(raw: bytes, line: Line) -> Message:
            return await _meant(method, read(raw), line)

        async def reply(raw: bytes, context: Context) -> Message:
            answer: Message = await work(await parse(raw, context), context)
            return answer

        async def replies(raw: bytes, context: Context) -> None:
            await _told(work(await parse(raw, context), context), context.write)

        if described.client_streaming:
            poured = work if described.server_streaming else _only(work)
            answer = self._stream(
                method, lambda raw, context: poured(_each(parse, raw, context), context)
            )
            return grpc.stream_stream_rpc_method_handler(answer, None, written)
        if described.server_streaming:
            answer = self._stream(method, replies)
            return grpc.unary_stream_rpc_method_handler(answer, None, written)
        single = self._unary(method, reply)
        return grpc.unary_unary_rpc_method_handler(single, None, _serialised)

    def _method(self, service: Service, described: Any, admit: Admit) -> _Method:
        name = f"{service.name}/{described.name}"
        streams = described.server_streaming or described.client_streaming
        seconds = None if streams else self._unary_seconds
        asked = self._gate.permission(name)
        return _Method(
            name,
            seconds,
            admit,
            self._gate,
            asked,
            self._trail if asked.changes or asked.discloses else None,
            self._meters.method(name),
            service.unknown,
            self._calls,
        )

    def _unary(
        self, method: _Method, work: Callable[[Any, Any], Awaitable[Message]]
    ) -> Callable[[Any, Any], Awaitable[Message]]:
        async def answer(raw: Any, line: Line) -> Message:
            limit = asyncio.timeout(method.seconds)
            return await _passed(method, line, limit, lambda: work(raw, line))

        return answer

    def _stream(
        self, method: _Method, work: Callable[[Any, Context], Any]
    ) -> Callable[[Any, Context], Awaitable[None]]:
        async def answer(raw: Any, context: Context) -> None:
            limit = asyncio.timeout(None)
            await _passed(method, context, limit, lambda: self._pour(work, raw, context, limit))

        return answer

    async def _pour(
        self,
        work: Callable[[Any, Context], Any],
        raw: Any,
        context: Context,
        limit: asyncio.Timeout,
    ) -> None:
        """Write a handler's messages. We write them ourselves, so that closing finds us in a wait
        of ours and not of the library's."""
        if self._closed:
            raise _stopping()
        self._streams.add(limit)
        session = running().session
        watch = asyncio.create_task(self._cut(session, limit)) if session.can_end else None
        try:
            await _told(work(raw, context), context.write)
        finally:
            self._streams.discard(limit)
            if watch is not None:
                watch.cancel()

    async def _cut(self, session: Session, limit: asyncio.Timeout) -> None:
        """End a stream with the token that opened it, or with its user."""
        await self._gate.ended(session)
        notes().ended = over(session)
        limit.reschedule(asyncio.get_running_loop().time())


async def _passed(
    method: _Method,
    line: Line,
    limit: asyncio.Timeout,
    work: Callable[[], Awaitable[Answer]],
) -> Answer:
    """Do the work of one call. Whatever comes of it is counted, and no error gets out raw."""
    began = perf_counter()
    code, reason = grpc.StatusCode.OK, ""
    try:
        call = arrive(method.name, line.invocation_metadata() or ())
        line.set_trailing_metadata(((REQUEST_ID, call.request_id),))
        bind_contextvars(request=call.request_id, method=method.name)
        with method.calls.arriving(method.name, line) as arrived:
            async with limit:
                await method.admit()
                entered(session := await method.gate.recognised(method.asked, line))
                arrived.recognise(session)
                if session.can_end:
                    sign_in(line)
                permitted(method.asked, session)
                arrived.spend(method.asked, streams=method.seconds is None)
                reply = await work()
                if method.trail is not None and notes().discloses:
                    await method.trail.disclose(method.asked, line)
                return reply
    except asyncio.CancelledError:
        code = grpc.StatusCode.CANCELLED
        raise
    except grpc.aio.AbortError:  # a servicer of a library has given its own answer
        code = line.code()
        raise
    except Exception as error:
        status = _refused(method, error, overdue=limit.expired())
        code, reason = CODES[status.code], getattr(error, "reason", "")
    finally:
        method.tally(code, perf_counter() - began)
        if method.trail is not None:
            await method.trail.note(method.asked, line, code, reason)
    trailers = ((REQUEST_ID, running().request_id), (DETAILS, status.SerializeToString()))
    return await line.abort(code, status.message, trailers)


def _refused(method: _Method, error: Exception, *, overdue: bool) -> status_pb2.Status:
    """What the caller is told. What we cannot explain goes to the log with its trace."""
    if overdue and isinstance(error, TimeoutError):
        error = notes().ended or _stopping()
        if method.seconds:
            error = _overdue(method.name, method.seconds)
    if isinstance(error, DomainError):
        away = isinstance(error, Unavailable) and not overdue
        say = log.warning if away else log.debug
        say("refused", kind=error.kind, reason=error.reason, error=error.message)
        status = packed(error)
        if error.reason in method.unknown:
            status.code = number(grpc.StatusCode.UNKNOWN)
        return status
    if (found := trouble(error, "what this server keeps")) is not None:
        log.error("not written", reason=found.reason, error=str(error))
        return packed(found)
    log.error("internal error", exc_info=error)
    return packed_bug(running().request_id)


def _overdue(name: str, seconds: float) -> Overdue:
    return Overdue(
        f"{name} was not done within {seconds:g} s",
        do="a change may have been accepted: repeat it with the same request id to find out",
    )


def _stopping() -> Unavailable:
    return Unavailable(
        "the server is going down",
        reason="SERVER_STOPPING",
        do="call again; a watch goes on after the number of the last event seen",
    )


async def _meant(method: _Method, request: Message, line: Line) -> Message:
    """The request as the caller may mean it, and written down if it is to change anything."""
    owned(method.asked, running().session, request)
    notes().request = request
    if method.trail is not None:
        await method.trail.begin(method.asked, line)
    return request


def parser(described: Any) -> Parse:
    """What reads the requests of a method, or refuses them."""
    message = GetMessageClass(described.input_type)
    name = described.input_type.full_name

    def parse(raw: bytes) -> Message:
        try:
            return message.FromString(raw)
        except DecodeError as error:
            raise Invalid(
                f"the request cannot be decoded as {name}",
                subject=name,
                reason="MALFORMED_REQUEST",
                do="send the message that the contract says; reflection describes it",
            ) from error

    return parse


def _only(
    work: Callable[[Any, Context], Awaitable[Message]],
) -> Callable[[Any, Context], AsyncIterator[Message]]:
    """A stream of the one reply to a stream of requests; on the wire it is the same."""

    async def poured(requests: Any, context: Context) -> AsyncIterator[Message]:
        yield await work(requests, context)

    return poured


async def _told(answers: Any, write: Callable[[Any], Awaitable[None]]) -> None:
    """Write a handler's answers to the line."""
    if inspect.isawaitable(answers):  # a servicer of a library, which writes for itself
        await answers
        return
    async with aclosing(answers):
        async for answer in answers:
            await write(answer)


async def _each(
    parse: Callable[[bytes, Line], Awaitable[Message]], raws: AsyncIterable[bytes], line: Line
) -> AsyncIterator[Message]:
    async for raw in raws:
        yield await parse(raw, line)


def _serialised(message: Message) -> bytes:
    return message.SerializeToString()
