"""The REST API of podman, over its socket. Whoever reaches that socket is root on this machine, so
it is open to nobody but the agent."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from domain.errors import Conflict, DomainError, Failed, NotFound, Unavailable

BASE = "http://podman/v4.0.0/libpod"
CALL_SECONDS = 120.0
PULL_SECONDS = 1800.0

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
        content: bytes | None = None,
        seconds: float = CALL_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The answer to a call, unless it is a refusal."""
        try:
            answer = await self._http.request(
                method,
                BASE + path,
                params=dict(asked or {}),
                json=said,
                content=content,
                headers=dict(headers or {}),
                timeout=seconds,
            )
        except httpx2.HTTPError as error:
            raise Unavailable(f"podman did not answer {method} {path}: {error!r}") from error
        if answer.status_code >= 400:
            raise refusal(f"{method} {path}", answer.content)
        return answer

    async def get(self, path: str, **asked: str) -> Any:
        return (await self.ask("GET", path, asked=asked)).json()


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


def last_error(body: bytes) -> str:
    """The failure that a pull tells of in its last line, under a status that says all is well."""
    for line in reversed(body.splitlines()):
        told = json.loads(line) if line.strip() else {}
        if told.get("error"):
            return str(told["error"])
    return ""


def demultiplexed(body: bytes) -> tuple[bytes, bytes]:
    """Standard output and standard error out of frames: which of them, three times nothing, how
    long, and so much text."""
    found: dict[int, list[bytes]] = {1: [], 2: []}
    at = 0
    while at + 8 <= len(body):
        length = int.from_bytes(body[at + 4 : at + 8], "big")
        found.setdefault(body[at], []).append(body[at + 8 : at + 8 + length])
        at += 8 + length
    return b"".join(found[1]), b"".join(found[2])


def words(*found: Sequence[str] | str | None) -> list[str]:
    """A command that podman tells as a list, as text, or not at all."""
    told: list[str] = []
    for each in found:
        told += [each] if isinstance(each, str) and each else list(each or ())
    return told
