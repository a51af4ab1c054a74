"""`python -m tests.bench.echo FILE`: answers every call with the same bytes, and does nothing else.
It hears out who calls `Status`, and what is sent to `Tell` it sends on to all who called
`ListenEvents`. As fast as a gRPC server in this language gets. With `--streams` the file holds many
messages, and every call is answered with all of them."""

import asyncio
import json
import signal
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import structlog
import uvloop

from logs import start_log
from settings import Settings

if TYPE_CHECKING:
    from grpc import HandlerCallDetails, RpcMethodHandler


class Echo(grpc.GenericRpcHandler):
    def __init__(self, reply: bytes) -> None:
        self._listeners: set[asyncio.Queue[bytes]] = set()

        async def answer(_request: bytes, _context: object) -> bytes:
            return reply

        async def hear_out(requests: AsyncIterator[bytes], _context: object) -> bytes:
            async for _ in requests:
                pass
            return b""

        async def listen(_request: bytes, context: Any) -> AsyncIterator[bytes]:
            queue: asyncio.Queue[bytes] = asyncio.Queue()
            self._listeners.add(queue)
            await context.send_initial_metadata(())
            while True:
                yield await queue.get()

        async def tell(request: bytes, _context: object) -> bytes:
            for queue in self._listeners:
                queue.put_nowait(request)
            return b""

        self._handlers: dict[str, RpcMethodHandler[bytes, bytes]] = {
            "Status": grpc.stream_unary_rpc_method_handler(hear_out),
            "ListenEvents": grpc.unary_stream_rpc_method_handler(listen),
            "Tell": grpc.unary_unary_rpc_method_handler(tell),
        }
        self._handler: RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)

    def service(self, details: "HandlerCallDetails") -> "RpcMethodHandler[bytes, bytes]":
        return self._handlers.get(details.method.rpartition("/")[2], self._handler)


class Stream(grpc.GenericRpcHandler):
    def __init__(self, messages: Sequence[bytes]) -> None:
        async def answer(_request: bytes, _context: object) -> AsyncIterator[bytes]:
            for message in messages:
                yield message

        self._handler: RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(answer)

    def service(self, _details: "HandlerCallDetails") -> "RpcMethodHandler[bytes, bytes]":
        return self._handler


async def serve(handler: grpc.GenericRpcHandler) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    structlog.get_logger().info("ready", grpc=f"127.0.0.1:{port}")
    await told.wait()
    await server.stop(None)


if __name__ == "__main__":
    start_log(Settings())
    said = Path(sys.argv[1]).read_bytes()
    if "--streams" in sys.argv:
        uvloop.run(serve(Stream([b64decode(text) for text in json.loads(said)])))
    else:
        uvloop.run(serve(Echo(said)))
