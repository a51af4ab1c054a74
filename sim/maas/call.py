"""A call as it reached the region, what may be answered to it, and who may make it."""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from multidict import MultiDict, MultiMapping

TRUE = frozenset({"true", "1", "yes", "on", "y", "t"})

NONCES = 100_000
"""How many are remembered. MAAS sweeps old ones away too."""


class Refusal(Exception):  # noqa: N818 - what the caller is told, not a fault of the region's
    """An answer that is not a success: text, or JSON for what is wrong with a form."""

    def __init__(
        self, status: int, body: str | dict[str, list[str]], *, retry_after: int | None = None
    ) -> None:
        super().__init__(f"{status}: {body}")
        self.status, self.body, self.retry_after = status, body, retry_after

    def response(self) -> web.Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if isinstance(self.body, str):
            return web.Response(
                status=self.status, text=self.body, content_type="text/plain", headers=headers
            )
        return web.json_response(self.body, status=self.status, headers=headers)


class Written(str):
    """JSON that is already text."""

    __slots__ = ()


@dataclass(frozen=True)
class Call:
    """One request, parsed. GET and DELETE carry their parameters in the query, others in a form."""

    method: str
    path: str
    op: str | None
    origin: str
    """Scheme and host as the caller spelt them."""
    parameters: dict[str, list[str]]
    at: dict[str, str] = field(default_factory=dict)
    """What stood in the path."""

    @property
    def signature(self) -> str:
        """The call as faults name it, without the system: `POST machines/?op=allocate`."""
        return f"{self.method} {self.path}" + (f"?op={self.op}" if self.op else "")

    def all(self, name: str) -> list[str]:
        return self.parameters.get(name, [])

    def one(self, name: str, default: str = "") -> str:
        return next(iter(self.all(name)), default)

    def says(self, name: str) -> bool:
        """Whether a flag is set. MAAS reads them leniently."""
        return self.one(name).lower() in TRUE


async def read(request: web.Request, below: str) -> Call:
    """Parse a request whose path is `below` the API's root."""
    posted = request.method in ("POST", "PUT")
    source = await _posted(request) if posted else request.query
    parameters: dict[str, list[str]] = {}
    for name, value in source.items():
        # python-libmaas sends everything but text as octets, the words true and false included
        text = value.decode() if isinstance(value, bytes | bytearray) else str(value)
        parameters.setdefault(name, []).append(text)
    op = request.query.get("op")
    if not posted:
        parameters.pop("op", None)
    return Call(request.method, below, op, f"{request.scheme}://{request.host}", parameters)


async def _posted(request: web.Request) -> MultiMapping[Any]:
    """What a form holds. One without any part, as python-libmaas sends where it has nothing to
    say, is none to aiohttp."""
    try:
        return await request.post()
    except ValueError:
        return MultiDict()


def answer(body: object, description_hash: str) -> web.Response:
    """A success. Nothing at all is how a deletion is answered."""
    headers = {"X-MAAS-API-Hash": description_hash}
    if body is None:
        return web.Response(status=204, headers=headers)
    text = body if isinstance(body, Written) else json.dumps(body, indent=4)
    return web.Response(text=text, content_type="application/json", headers=headers)


class Gate:
    """OAuth 1.0 with signatures in plain text. A nonce works once."""

    def __init__(self, api_key: str) -> None:
        self._consumer, self._token, self._secret = api_key.split(":")
        self._nonces: set[str] = set()
        self._oldest: deque[str] = deque()

    def refusal(self, request: web.Request) -> web.Response | None:
        """Why this request is not let in, or None if it is."""
        given = _oauth(request.headers.get("Authorization", ""))
        if given.get("oauth_consumer_key") != self._consumer:
            return _unauthorized("Invalid API key.")
        if given.get("oauth_token") != self._token:
            return _unauthorized(repr(f"Invalid access token: {given.get('oauth_token')}"))
        if given.get("oauth_signature_method") != "PLAINTEXT":
            return _unauthorized(repr("Signature method not supported."))
        if given.get("oauth_signature") != f"&{self._secret}":
            return _unauthorized(repr("Invalid signature."))
        nonce = given.get("oauth_nonce", "")
        if not nonce or not given.get("oauth_timestamp", "").isdigit():
            return _unauthorized(repr("Parameter not found: oauth_nonce or oauth_timestamp."))
        if nonce in self._nonces:
            return _unauthorized(repr(f"Nonce already used: {nonce}"))
        self._nonces.add(nonce)
        self._oldest.append(nonce)
        if len(self._oldest) > NONCES:
            self._nonces.discard(self._oldest.popleft())
        return None


def _oauth(header: str) -> dict[str, str]:
    """The parameters of an Authorization header, in whatever order they come."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "oauth":
        return {}
    pairs = (part.strip().partition("=") for part in rest.split(","))
    return {name: unquote(value.strip('"')) for name, _, value in pairs}


def _unauthorized(reason: str) -> web.Response:
    return web.Response(
        status=401,
        text=f"Authorization Error: {reason}",
        content_type="text/html",
        headers={"WWW-Authenticate": 'OAuth realm="OAuth"'},
    )
