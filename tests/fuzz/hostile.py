"""Callers who mean no good: what they send, and what must never come of it."""

import asyncio
import base64
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import httpx2
import structlog

from tests.api.closed import Closed
from tests.api.test_strange_requests import filled, mutated

MARK = "hUsH"
"""Every secret that is sent holds this, so that it is found wherever it should not be."""

BUGS = frozenset({grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL})
LEFT_OUT = ("Watch", "Wait", "Logout")
"""What waits, and what would end the token that the others use."""
SECONDS = 20.0

LETTERS = "abcXYZ019-_. /\\\"'%{}[]<>;:\u00e9\u4e2d\U0001f600"


class Hostile:
    """Throws cases at a server, each drawn from one seed, and keeps what went wrong."""

    def __init__(self, server: Closed, http: httpx2.AsyncClient, seed: int) -> None:
        self._server = server
        self._http = http
        self._chance = random.Random(seed)  # noqa: S311 - it is to be the same every time
        self._methods = [
            (f"{service.name}/{method.name}", method)
            for service in server.api.services
            for method in service.described.methods
            if not method.client_streaming and not any(word in method.name for word in LEFT_OUT)
            if not method.server_streaming or method.name.startswith("Show")
        ]
        self._said: list[str] = []
        self.answers: Counter[str] = Counter()
        self.bugs: list[str] = []

    async def attack(self, cases: int, *, at_once: int = 8) -> None:
        """So many cases, some at the same time."""
        structlog.configure(processors=[self._listen], cache_logger_on_first_use=False)
        kinds: list[Callable[[], Awaitable[str]]] = [
            *(self.login, self.token, self.headers, self.document, self.message, self.wire)
        ]
        turn = iter(range(cases))

        async def thrown() -> None:
            for number in turn:
                kind = kinds[number % len(kinds)]
                try:
                    async with asyncio.timeout(SECONDS):
                        self.answers[f"{kind.__name__}: {await kind()}"] += 1
                except TimeoutError:
                    self.bugs.append(f"{kind.__name__}: no answer within {SECONDS:g} s")

        try:
            await asyncio.gather(*(thrown() for _ in range(at_once)))
        finally:
            structlog.reset_defaults()
        self.bugs += [f"a secret in the log: {line[:500]}" for line in self._said]

    async def login(self) -> str:
        """A password that nobody has, under a name that somebody may have."""
        name = self._chance.choice(("ada", "nobody", self._text(30)))
        said = {"username": name, "password": MARK + self._text(60)}
        return await self._post("/services.auth.AuthService/Login", json.dumps(said).encode())

    async def token(self) -> str:
        """What might be taken for a token."""
        whole = self._server.tokens["ada"]
        given = self._chance.choice(
            (
                MARK + self._ascii(80),
                "Bearer " + MARK + self._ascii(40),
                "Basic " + base64.b64encode(MARK.encode()).decode(),
                "Bearer " + whole[:-1],
                "Bearer " + whole.swapcase(),
                "Bearer  ",
                "x" * self._chance.choice((1, 4095, 4097, 6000)),
            )
        )
        method, described = self._chance.choice(self._methods)
        raw = filled(described.input_type, self._chance).SerializeToString()
        return await self._native(method, raw, (("authorization", given),), stranger=True)

    async def headers(self) -> str:
        """Metadata of ours, with anything in it."""
        names = ("x-request-id", "idempotency-key", "windlass-force", "windlass-approve-each")
        given: list[tuple[str, str | bytes]] = [
            (self._chance.choice(names), self._ascii(200)) for _ in range(3)
        ]
        given.append(("authorization", f"Bearer {self._server.tokens['vic']}"))
        given.append(("odd-bin", self._chance.randbytes(9)))
        method, described = self._chance.choice(self._methods)
        raw = filled(described.input_type, self._chance).SerializeToString()
        return await self._native(method, raw, tuple(given))

    async def document(self) -> str:
        """JSON, more or less."""
        method, _ = self._chance.choice(self._methods)
        text = json.dumps(self._value(3))
        if self._chance.random() < 0.5:
            place = self._chance.randrange(len(text) + 1)
            text = text[:place] + self._text(5) + text[place + self._chance.randrange(4) :]
        raw = text.encode("utf-8", "surrogatepass")
        if self._chance.random() < 0.02:
            raw = b"[" * 60_000
        return await self._post(f"/{method}", raw, token=self._server.tokens["ole"])

    async def message(self) -> str:
        """Bytes that were a message once."""
        method, described = self._chance.choice(self._methods)
        raw = mutated(filled(described.input_type, self._chance).SerializeToString(), self._chance)
        given = (("authorization", f"Bearer {self._server.tokens['ole']}"),)
        return await self._native(method, raw, given)

    async def wire(self) -> str:
        """Bytes that are hardly HTTP."""
        host, _, port = self._server.http.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            begin = self._chance.choice(
                (
                    b"POST /services.auth.AuthService/Login HTTP/1.1\r\nhost: x\r\n",
                    b"GET /livez HTTP/1.1\r\nhost: x\r\n",
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                    b"",
                )
            )
            writer.write(begin + self._chance.randbytes(self._chance.randrange(1, 200)))
            writer.write(b"\r\ncontent-length: 5\r\n\r\n" + self._chance.randbytes(9))
            writer.write_eof()
            answer = await reader.read(4096)
        except ConnectionError:
            return "hung up"
        finally:
            writer.close()
        return self._judged("wire", int(answer[9:12]) if answer[9:12].isdigit() else 0)

    async def _post(self, path: str, raw: bytes, token: str = "") -> str:
        kind = self._chance.choice(("json", "json", "proto", "connect+json", "grpc-web+proto"))
        given = {"content-type": f"application/{kind}"}
        if token:
            given["authorization"] = f"Bearer {token}"
        answer = await self._http.post(path, content=raw, headers=given)
        if MARK.encode() in answer.content:
            self.bugs.append(f"a secret in an answer of {path}")
        return self._judged(f"{path} {kind} {raw[:200]!r}", answer.status_code)

    def _judged(self, what: str, status: int) -> str:
        if status >= 500 and status not in (501, 503, 504):
            self.bugs.append(f"{status} for {what}")
        return str(status)

    async def _native(
        self, method: str, raw: bytes, metadata: Any, *, stranger: bool = False
    ) -> str:
        call: Any = self._server.channel.unary_stream(f"/{method}")
        try:
            async for _ in call(raw, metadata=metadata, timeout=SECONDS):
                pass
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
            if MARK in (error.details() or ""):
                self.bugs.append(f"a secret in the refusal of {method}")
        if code in BUGS:
            self.bugs.append(f"{code.name} for {method} {raw[:200]!r} with {metadata!r:.300}")
        open_to_all = method.startswith(("services.auth.", "grpc."))
        if stranger and not open_to_all and code is not grpc.StatusCode.UNAUTHENTICATED:
            self.bugs.append(f"{code.name} for {method} with a token that is no good")
        return code.name

    def _listen(self, _logger: object, _method: str, event: Any) -> str:
        line = repr(event)
        if MARK in line or any(token in line for token in self._server.tokens.values()):
            self._said.append(line)
        raise structlog.DropEvent

    def _text(self, most: int) -> str:
        return "".join(self._chance.choices(LETTERS, k=self._chance.randrange(most)))

    def _ascii(self, most: int) -> str:
        """As much as a client of gRPC lets be sent."""
        codes = range(0x20, 0x7F)
        return "".join(
            map(chr, self._chance.choices(codes, k=self._chance.randrange(most)))
        ).strip()

    def _value(self, depth: int) -> Any:
        names = ("name", "key", "username", "token", "count", "fields", "state", "id", "x")
        choice = self._chance.randrange(8 if depth else 6)
        match choice:
            case 0:
                return self._chance.randrange(-(2**70), 2**70)
            case 1:
                return self._chance.choice((None, True, False, 1e308, -0.0, "NaN"))
            case 2 | 3:
                return self._text(20)
            case 4:
                return "\ud800" + self._text(3)
            case 5:
                return self._chance.random()
            case 6:
                return [self._value(depth - 1) for _ in range(self._chance.randrange(4))]
        return {
            self._chance.choice(names): self._value(depth - 1)
            for _ in range(self._chance.randrange(5))
        }
