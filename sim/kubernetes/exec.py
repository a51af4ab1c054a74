"""Commands in the containers of simulated pods, as the API's websocket has them.

Nothing runs in a pod, so there are but a few programs: `true`, `false`, `echo`, `cat` without
words, `seq LAST`, `sleep SECONDS`, `hostname`, and `sh -c` with such commands between semicolons,
`exit CODE` and `>&2`. SPDY, which clients spoke before, is refused."""

import asyncio
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from aiohttp import WSMsgType, web

from sim.kubernetes import errors
from sim.kubernetes.errors import Body, StatusError
from sim.kubernetes.pods import is_ready
from sim.pace import Clock

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR = range(4)
END_OF_STDIN = bytes((255, STDIN))
"""Only version 5 has it."""

CHUNK = 32 * 1024
MOST_INPUT = 1024 * 1024


class Came(NamedTuple):
    """What came of a command."""

    code: int = 0
    out: bytes = b""
    err: bytes = b""


class Input:
    """What a client sends, for a program that reads it."""

    def __init__(self) -> None:
        self._data, self._over = b"", asyncio.Event()

    async def follow(self, socket: web.WebSocketResponse) -> None:
        """Listen until the client is gone. Without, pings are not answered either."""
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                continue
            if message.data == END_OF_STDIN:
                self._over.set()
            elif message.data[:1] == bytes((STDIN,)) and len(self._data) < MOST_INPUT:
                self._data += message.data[1:]

    async def whole(self) -> bytes:
        await self._over.wait()
        return self._data


async def executed(request: web.BaseRequest, pod: Body, clock: Clock) -> web.WebSocketResponse:
    """Run what a request asks for in a pod, and tell what came of it."""
    if request.method not in ("GET", "POST"):
        raise errors.not_allowed()
    wanted = {name for name in ("stdin", "stdout", "stderr") if _says(request, name)}
    if not wanted:
        raise errors.malformed("you must specify at least 1 of stdin, stdout, stderr")
    command = request.query.getall("command", [])
    if not command:
        raise errors.malformed("you must specify command for exec")
    _refuse_unless_it_runs(pod, request.query.get("container", ""))
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    ready = socket.can_prepare(request)
    if not ready.ok or ready.protocol is None:
        raise errors.malformed("Upgrade request required")
    await socket.prepare(request)
    given = Input()
    listening = asyncio.create_task(given.follow(socket))
    working = asyncio.create_task(_told(socket, pod, command, wanted, given, clock))
    try:
        await asyncio.wait([listening, working], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, working):
            task.cancel()
        await asyncio.wait([listening, working])
    if not working.cancelled():
        with suppress(ConnectionError):  # the client is gone
            working.result()
    await socket.close()
    return socket


async def _told(
    socket: web.WebSocketResponse,
    pod: Body,
    command: Sequence[str],
    wanted: set[str],
    given: Input,
    clock: Clock,
) -> None:
    """Run a command. The first message is empty: it says that the way is open."""
    await socket.send_bytes(bytes((STDOUT if "stdout" in wanted else ERROR,)))
    try:
        came = await _run(command, pod["metadata"]["name"], given, clock)
    except StatusError as error:
        await socket.send_bytes(bytes((ERROR,)) + json.dumps(error.status).encode())
        return
    for channel, name, said in ((STDOUT, "stdout", came.out), (STDERR, "stderr", came.err)):
        for chunk in _chunks(said) if name in wanted else ():
            await socket.send_bytes(bytes((channel,)) + chunk)
    await socket.send_bytes(bytes((ERROR,)) + json.dumps(_status(came.code)).encode())


async def _run(command: Sequence[str], host: str, given: Input, clock: Clock) -> Came:
    match command:
        case ["true"]:
            return Came()
        case ["false"]:
            return Came(1)
        case ["echo", *words]:
            return Came(out=" ".join(words).encode() + b"\n")
        case ["cat"]:
            return Came(out=await given.whole())
        case ["hostname"]:
            return Came(out=host.encode() + b"\n")
        case ["seq", last] if last.isdecimal():
            return Came(out="".join(f"{number}\n" for number in range(1, int(last) + 1)).encode())
        case ["sleep", seconds] if seconds.isdecimal():
            await clock.sleep(float(seconds))
            return Came()
        case ["sh", "-c", script]:
            return await _script(script, host, given, clock)
    raise _no_such_program(command[0])


async def _script(script: str, host: str, given: Input, clock: Clock) -> Came:
    """What a shell makes of commands, one behind the other."""
    code, out, err = 0, b"", b""
    try:
        lines = [shlex.split(line) for line in script.split(";")]
    except ValueError:
        return Came(2, err=b"sh: syntax error\n")
    for words in lines:
        aside = words[-1:] == [">&2"]
        if words[:1] == ["exit"]:
            return Came(int(words[1]) % 256 if words[1:] else code, out, err)
        if not words:
            continue
        try:
            came = await _run(words[:-1] if aside else words, host, given, clock)
        except StatusError:
            came = Came(127, err=f"sh: {words[0]}: not found\n".encode())
        code, err = came.code, err + came.err + (came.out if aside else b"")
        out += b"" if aside else came.out
    return Came(code, out, err)


def _refuse_unless_it_runs(pod: Body, container: str) -> None:
    name = pod["metadata"]["name"]
    containers = [each["name"] for each in pod["spec"].get("containers") or ()]
    if not container and len(containers) > 1:
        known = " ".join(containers)
        raise errors.malformed(
            f"a container name must be specified for pod {name}, choose one of: [{known}]"
        )
    if container and container not in containers:
        raise errors.malformed(f"container {container} is not valid for pod {name}")
    if not pod["spec"].get("nodeName"):
        raise errors.malformed(f"pod {name} does not have a host assigned")
    if not is_ready(pod):
        missing = container or containers[0]
        raise StatusError(
            500, "InternalError", f'Internal error occurred: container not found ("{missing}")'
        )


def _no_such_program(name: str) -> StatusError:
    why = (
        "error executing command in container: failed to exec in container: OCI runtime exec "
        "failed: exec failed: unable to start container process: "
        f'exec: "{name}": executable file not found in $PATH: unknown'
    )
    details = {"causes": [{"message": why}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", details=details)


def _status(code: int) -> Body:
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [errors.cause("ExitCode", str(code))]},
    }


def _says(request: web.BaseRequest, name: str) -> bool:
    return request.query.get(name) in ("true", "1")


def _chunks(data: bytes) -> Iterator[bytes]:
    return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))
