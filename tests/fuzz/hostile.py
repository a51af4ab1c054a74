"""Callers who mean no good: what they send, and what must never come of it."""

import asyncio
import base64
import json
import random
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
import httpx2
import structlog
from google.protobuf import json_format

from api.access import permission
from tests.api.closed import Closed
from tests.api.signed import PEOPLE
from tests.api.test_closed_web import Method, routes
from tests.api.test_strange_requests import filled, mutated
from tests.fuzz.verdict import Verdict, natively, over_http
from tests.support.load import limit

MARK = "hUsH"
"""Every secret that is sent holds this, so that it is found wherever it should not be."""

LEFT_OUT = "Logout"
"""What would end the token that the others use."""

SECONDS = 20.0
STREAM_SECONDS = 0.25
"""Some streams have nothing to say, and say it for long."""
MOST_MESSAGES = 5

DOORS = ("/livez", "/readyz", "/readyz?verbose", "/metrics", "/api/ping")
"""What is read without a sign-in."""

LETTERS = "abcXYZ019-_. /\\\"'%{}[]<>;:\u00e9\u4e2d\U0001f600"
TIMES = ("1S", "0m", "-1", "9" * 12, "1H", "1500", "soon", "\u0661")


class Hostile:
    """Throws cases at a server, each drawn from one seed, and keeps what went wrong."""

    def __init__(self, server: Closed, http: httpx2.AsyncClient, seed: int) -> None:
        self._server = server
        self._http = http
        self._chance = random.Random(seed)  # noqa: S311 - it is to be the same every time
        self._methods = [
            Method(f"{service.name}/{method.name}", method)
            for service in server.api.services
            for method in service.described.methods
            if method.name != LEFT_OUT
        ]
        self._single = [each for each in self._methods if not each.described.client_streaming]
        self._over_http = [each for each in self._single if not each.name.startswith("grpc.")]
        self._routes = [*routes(server), ("POST", "/codec/decode", "windlass.v1.Codec/Decode")]
        self._described = {method.name: method.described for method in self._methods}
        self._said: list[str] = []
        self.answers: Counter[str] = Counter()
        self.bugs: list[str] = []

    async def attack(self, cases: int, *, at_once: int = 8) -> None:
        """So many cases, some at the same time."""
        structlog.configure(processors=[self._listen], cache_logger_on_first_use=False)
        kinds: list[Callable[[], Awaitable[str]]] = [
            *(self.login, self.token, self.headers, self.document, self.message, self.wire),
            *(self.route, self.http_headers, self.stream),
        ]
        turn = iter(range(cases))

        async def thrown() -> None:
            for number in turn:
                kind = kinds[number % len(kinds)]
                try:
                    async with limit(SECONDS):
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
        method = self._chance.choice(self._methods)
        return await self._native(
            method, [self._filled(method)], (("authorization", given),), stranger=True
        )

    async def headers(self) -> str:
        """Metadata of ours, with anything in it."""
        names = (
            *("x-request-id", "idempotency-key", "windlass-force", "windlass-approve-each"),
            *("windlass-data", "windlass-storage", "windlass-ceph", "x-forwarded-for"),
        )
        given: list[tuple[str, str | bytes]] = [
            (self._chance.choice(names), self._ascii(200)) for _ in range(3)
        ]
        method = self._chance.choice(self._single)
        given += self._signed(method)
        given.append(("odd-bin", self._chance.randbytes(9)))
        return await self._native(method, [self._filled(method)], tuple(given))

    async def document(self) -> str:
        """JSON, more or less."""
        method = self._chance.choice(self._over_http)
        return await self._post(f"/{method.name}", self._json(), **dict(self._signed(method)))

    async def message(self) -> str:
        """Bytes that were a message once."""
        method = self._chance.choice(self._single)
        raw = mutated(self._filled(method), self._chance)
        return await self._native(method, [raw], self._signed(method))

    async def stream(self) -> str:
        """Messages of which some are whole, to whoever reads or writes more than one."""
        streams = [each for each in self._methods if each.streams or each not in self._single]
        method = self._chance.choice(streams)
        raws = [self._filled(method) for _ in range(self._chance.randrange(4))]
        if raws and self._chance.random() < 0.3:
            raws[-1] = mutated(raws[-1], self._chance)
        if method in self._single:
            raws = raws[:1] or [b""]
        return await self._native(method, raws, self._signed(method))

    async def route(self) -> str:
        """The routes of REST and of the first gateways, and what is read of the process."""
        if self._chance.random() < 0.1:
            answer = await self._http.get(self._chance.choice(DOORS))
            return self._judged(f"GET {answer.url}", over_http(answer))
        verb, path, name = self._chance.choice(self._routes)
        given = {"content-type": "application/json", **dict(self._signed_for(name))}
        query: dict[str, str] = {}
        content = b""
        if verb in ("GET", "DELETE"):
            names = [field.name for field in self._described[name].input_type.fields]
            query = {
                self._chance.choice((*names, self._text(9))): self._text(40)
                for _ in range(self._chance.randrange(4))
            }
        else:
            content = self._json() if self._chance.random() < 0.5 else self._said_in_json(name)
        answer = await self._http.request(
            verb, path, headers=given, params=query or None, content=content
        )
        return self._judged(f"{verb} {path} {query} {content[:200]!r}", over_http(answer))

    async def http_headers(self) -> str:
        """Headers that mean something, with anything in them."""
        method = self._chance.choice(self._over_http)
        given = self._limited(method.streams) | dict(self._signed(method))
        given["content-type"] = self._chance.choice(
            ("application/json", "application/proto", "application/connect+json", self._ascii(30))
        )
        names = (
            *("x-request-id", "idempotency-key", "origin", "x-forwarded-for", "content-encoding"),
            *("connect-timeout-ms", "grpc-timeout", "windlass-data", "windlass-force", "cookie"),
            *("connect-protocol-version", "connect-content-encoding", "grpc-encoding", "accept"),
            *("windlass-ceph", "traceparent", "x-user-agent", "user-agent", "authorization"),
        )
        for _ in range(self._chance.randrange(1, 4)):
            name = self._chance.choice(names)
            time = "timeout" in name and self._chance.random() < 0.7
            given[name] = self._chance.choice(TIMES) if time else self._latin(200)
        raw = [(name.encode(), value.encode("utf-8")) for name, value in given.items()]
        path = self._chance.choice((f"/{method.name}", f"/api/{method.name}"))
        answer = await self._http.post(path, content=self._json(), headers=raw)
        is_bounded = any("timeout" in name for name in given)
        told = over_http(answer)
        return self._judged(f"{path} with {given!r:.400}", told, bounded=is_bounded)

    async def wire(self) -> str:
        """Bytes that are hardly HTTP."""
        host, _, port = self._server.http.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            begin = self._chance.choice(
                (
                    b"POST /services.auth.AuthService/Login HTTP/1.1\r\nhost: x\r\n",
                    b"GET /livez HTTP/1.1\r\nhost: x\r\n",
                    b"POST /show/app HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n",
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
        status = int(answer[9:12]) if answer[9:12].isdigit() else 0
        return self._judged("wire", Verdict(f"{status}", bug=status >= 500))

    def _signed(self, method: Method) -> Sequence[tuple[str, str]]:
        return self._signed_for(method.name)

    def _signed_for(self, name: str) -> Sequence[tuple[str, str]]:
        """As somebody who may call it, or now and then as anybody."""
        roles = None if name.startswith("grpc.") else permission(name).roles
        let_in = [who.name for who in PEOPLE if roles is None or who.role in roles]
        who = self._chance.choice(let_in if self._chance.random() < 0.9 else [*self._server.tokens])
        return (("authorization", f"Bearer {self._server.tokens[who]}"),)

    async def _post(self, path: str, raw: bytes, **given: str) -> str:
        kind = self._chance.choice(
            ("json", "json", "proto", "connect+json", "grpc-web+proto", "grpc-web-text")
        )
        streams = self._described[path[1:]].server_streaming
        headers = {"content-type": f"application/{kind}", **self._limited(streams), **given}
        answer = await self._http.post(path, content=raw, headers=headers)
        if MARK.encode() in answer.content:
            self.bugs.append(f"a secret in an answer of {path}")
        told = over_http(answer)
        return self._judged(f"{path} {kind} {raw[:200]!r}", told, bounded=bool(streams))

    @staticmethod
    def _limited(streams: object) -> dict[str, str]:
        millis = f"{STREAM_SECONDS * 1000:.0f}"
        limits = {"connect-timeout-ms": millis, "grpc-timeout": f"{millis}m"}
        return limits if streams else {}

    def _judged(self, what: str, told: Verdict, *, bounded: bool = False) -> str:
        if told.is_bug(bounded=bounded):
            self.bugs.append(f"{told.said} for {what}")
        return told.said

    async def _native(
        self, method: Method, raws: Sequence[bytes], metadata: Any, *, stranger: bool = False
    ) -> str:
        is_stream = method.streams or method.described.client_streaming
        calling: Any = self._server.channel.stream_stream(f"/{method.name}")
        seconds = STREAM_SECONDS if is_stream and not stranger else SECONDS - 1
        call = calling(iter(raws), metadata=metadata, timeout=seconds)
        told, read = Verdict("OK"), 0
        try:
            async for _ in call:
                read += 1
                if read == MOST_MESSAGES:
                    break
        except grpc.aio.AioRpcError as error:
            told = natively(error)
            if MARK in (error.details() or ""):
                self.bugs.append(f"a secret in the refusal of {method.name}")
        finally:
            call.cancel()
        what = f"{method.name} {list(raws)!r:.300} with {metadata!r:.300}"
        said = self._judged(what, told, bounded=bool(is_stream))
        open_to_all = method.name.startswith(("services.auth.", "grpc."))
        if stranger and not open_to_all and not said.startswith("UNAUTHENTICATED"):
            self.bugs.append(f"{said} for {method.name} with a token that is no good")
        return said

    def _listen(self, _logger: object, _method: str, event: Any) -> str:
        line = repr(event)
        if event.get("exc_info"):
            self.bugs.append(f"{line:.200} in the log: {traceback.format_exc()[-1500:]}")
        if MARK in line or any(token in line for token in self._server.tokens.values()):
            self._said.append(line)
        raise structlog.DropEvent

    def _filled(self, method: Method) -> bytes:
        return filled(method.described.input_type, self._chance).SerializeToString()

    def _said_in_json(self, name: str) -> bytes:
        message = filled(self._described[name].input_type, self._chance)
        try:
            return json_format.MessageToJson(message, preserving_proto_field_name=True).encode()
        except (json_format.Error, ValueError, OverflowError):  # it cannot be said there
            return self._json()

    def _json(self) -> bytes:
        text = json.dumps(self._value(3))
        if self._chance.random() < 0.5:
            place = self._chance.randrange(len(text) + 1)
            text = text[:place] + self._text(5) + text[place + self._chance.randrange(4) :]
        raw = text.encode("utf-8", "surrogatepass")
        return b"[" * 60_000 if self._chance.random() < 0.02 else raw

    def _text(self, most: int) -> str:
        return "".join(self._chance.choices(LETTERS, k=self._chance.randrange(most)))

    def _ascii(self, most: int) -> str:
        """As much as a client of gRPC lets be sent."""
        codes = range(0x20, 0x7F)
        return "".join(
            map(chr, self._chance.choices(codes, k=self._chance.randrange(most)))
        ).strip()

    def _latin(self, most: int) -> str:
        """As much as a client of HTTP does."""
        codes = (*range(0x20, 0x7F), *range(0xA1, 0x100))
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
