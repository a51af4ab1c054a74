"""The REST API of podman, over its socket. Whoever reaches that socket is root on this machine, so
it is open to nobody but the agent."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2

from agent.output import Kept
from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable

BASE = "http://podman/v4.0.0/libpod"
CALL_SECONDS = 120.0
PULL_SECONDS = 1800.0
ANSWER_BYTES = 16 * 2**20
"""No answer that is kept whole is longer: the longest is a list of containers or images."""

REFUSAL_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024
FRAME_HEAD = 8

Content = bytes | AsyncIterable[bytes] | None

CAUSES: dict[str, type[DomainError]] = {
    "no such container": NotFound,
    "no such network": NotFound,
    "network not found": NotFound,
    "image not known": NotFound,
    "no such image": NotFound,
    "that name is already in use": Conflict,
    "container state improper": Conflict,
    "image is in use by a container": Conflict,
    "image used by": Conflict,
    "network is being used": Conflict,
    "address already in use": Conflict,
}
"""What an answer means is told by its cause: podman says 500 to nearly everything."""


class Rest:
    def __init__(self, socket: Path) -> None:
        transport = httpx2.AsyncHTTPTransport(uds=str(socket))
        limits = httpx2.Timeout(CALL_SECONDS)
        self._http = httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=limits)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        asked: Mapping[str, str] | None = None,
        said: Any = None,
        content: Content = None,
        seconds: float = CALL_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> "Answer":
        """The answer to a call, unless it is a refusal or longer than any that we ask for."""
        pieces = self.pieces(
            method,
            path,
            asked=asked,
            said=said,
            content=content,
            seconds=seconds,
            headers=headers,
        )
        found = bytearray()
        async with aclosing(pieces):
            async for piece in pieces:
                found += piece
                if len(found) > ANSWER_BYTES:
                    raise Failed(f"podman answered {method} {path} with over {ANSWER_BYTES} bytes")
        return Answer(bytes(found))

    async def pieces(
        self,
        method: str,
        path: str,
        *,
        asked: Mapping[str, str] | None = None,
        said: Any = None,
        content: Content = None,
        seconds: float = CALL_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The answer as it comes, unless it is a refusal."""
        try:
            async with self._http.stream(
                method,
                BASE + path,
                params=dict(asked or {}),
                json=said,
                content=content,
                headers=dict(headers or {}),
                timeout=seconds,
            ) as answer:
                pieces = answer.aiter_raw()
                if answer.status_code >= 400:
                    raise refusal(f"{method} {path}", await _begin(pieces))
                async for piece in pieces:
                    yield piece
        except httpx2.HTTPError as error:
            raise Unavailable(f"podman did not answer {method} {path}: {error!r}") from error

    async def get(self, path: str, **asked: str) -> Any:
        return (await self.ask("GET", path, asked=asked)).json()


class Answer(NamedTuple):
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


async def _begin(pieces: AsyncIterator[bytes]) -> bytes:
    """So much of a refusal as can be a reason."""
    found = b""
    async for piece in pieces:
        found += piece
        if len(found) > REFUSAL_BYTES:
            break
    return found


def quoted(name: str) -> str:
    """A name as a part of a path. No name leads out of its place there, or into a query."""
    return quote(name, safe="/:@")


def refusal(what: str, body: bytes) -> DomainError:
    """What podman means by a refusal."""
    try:
        told = json.loads(body)
        cause, message = str(told["cause"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
        cause, message = "", body.decode(errors="replace")[:500]
    for words, kind in CAUSES.items():
        if words in cause or words in message:
            return kind(f"podman refused {what}: {message}")
    return Failed(f"podman refused {what}: {message}")


async def last_error(pieces: AsyncIterator[bytes]) -> str:
    """The failure that a pull tells of in one of its lines, under a status that says all is well.
    Of the others nothing is kept."""
    error, begun = "", b""
    async for piece in pieces:
        *lines, begun = (begun + piece).split(b"\n")
        begun = begun[:LINE_BYTES]
        for line in lines:
            error = _error(line) or error
    return _error(begun) or error


def _error(line: bytes) -> str:
    try:
        told = json.loads(line)
    except ValueError:  # empty, or more than a line should be
        return ""
    return str(told.get("error") or "")[:LINE_BYTES] if isinstance(told, dict) else ""


async def demultiplexed(pieces: AsyncIterator[bytes], most: int) -> tuple[Kept, Kept]:
    """Standard output and standard error out of frames: which of them, three times nothing, how
    long, and so much text. Of each so much is kept; what comes after is read and dropped."""
    found = {1: Kept(most), 2: Kept(most)}
    head, stream, left = b"", 1, 0
    async for piece in pieces:
        rest = memoryview(piece)
        while rest:
            if left:
                if kept := found.get(stream):
                    kept.take(bytes(rest[:left]))
                taken = min(left, len(rest))
                left, rest = left - taken, rest[taken:]
                continue
            missing = FRAME_HEAD - len(head)
            head, rest = head + bytes(rest[:missing]), rest[missing:]
            if len(head) == FRAME_HEAD:
                stream, left, head = head[0], int.from_bytes(head[4:], "big"), b""
    return found[1], found[2]


def words(*found: Sequence[str] | str | None) -> list[str]:
    """A command that podman tells as a list, as text, or not at all."""
    told: list[str] = []
    for each in found:
        told += [each] if isinstance(each, str) and each else list(each or ())
    return told
