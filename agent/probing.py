"""Finding out whether an instance works, and not only runs."""

import asyncio
from ipaddress import ip_address
from urllib.parse import quote

from agent.runtime import Runtime, Seen
from domain.errors import DomainError
from domain.probing import Probe

READ_BYTES = 64


class UnhealthyError(Exception):
    """What was wrong the last time."""


async def until_unhealthy(health: Probe, runtime: Runtime, seen: Seen) -> str:
    """Ask again and again, and answer, with what was wrong, once too many answers were bad in a
    row."""
    await asyncio.sleep(health.start_seconds)
    bad = 0
    while True:
        try:
            async with asyncio.timeout(health.timeout_seconds):
                await _probe(health, runtime, seen)
            bad = 0
        except (TimeoutError, OSError, DomainError, UnhealthyError) as error:
            bad += 1
            if bad >= health.retries:
                text = str(error) or f"no answer within {health.timeout_seconds:g} s"
                return f"unhealthy: {text}"
        await asyncio.sleep(health.interval_seconds)


async def _probe(health: Probe, runtime: Runtime, seen: Seen) -> None:
    if health.command:
        output = await runtime.exec(seen.pod, health.command, health.timeout_seconds)
        if output.exit_code:
            raise UnhealthyError(f"{health.command[0]} ended with {output.exit_code}")
        return
    port, _, path = health.http.removeprefix(":").partition("/")
    host, number = _reach(seen, health.tcp or int(port or 80))
    reading, writing = await asyncio.open_connection(host, number)
    try:
        if health.http:
            asked = f"GET /{quote(path)} HTTP/1.0\r\nHost: {host}\r\n\r\n"
            writing.write(asked.encode())
            first = (await reading.read(READ_BYTES)).split(b" ")
            if len(first) < 2 or first[1][:1] not in (b"2", b"3"):
                raise UnhealthyError(
                    f"GET /{path} was answered with {b' '.join(first[1:2]).decode()}"
                )
    finally:
        writing.close()


def _reach(seen: Seen, port: int) -> tuple[str, int]:
    """Where a port inside is reached from the node. Where instances share the node's network only
    ports that are published are theirs: any other is somebody else's."""
    for each in seen.ports:
        if each.destination == port:
            return "127.0.0.1", each.source
    if seen.network == "host" or not seen.ip or ip_address(seen.ip).is_loopback:
        raise UnhealthyError(f"port {port} is none of its own: publish it to have it probed")
    return seen.ip, port
