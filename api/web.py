"""The HTTP door: for those who look after the process, whether it is alive and ready and what it
does; and whatever is served over HTTP besides.

Whether it is alive and ready everybody is told. Why not, and what it does, is for those who may
read; where nobody has to sign in, that is everybody."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from api.access import READ
from api.connections import ConnectionLimits, ConnectionTable
from api.door import CODES
from api.errors import packed
from api.gate import Gate, NoGate, permitted
from api.http1 import Http1Server, HttpTimes
from api.listening import bound
from api.meters import Meters
from api.origin import Network
from api.rest import STATUSES, Exchange, unrouted
from api.server import GRACE_SECONDS
from api.tls import Certificates
from domain.errors import DomainError, Unavailable

CHECK_SECONDS = 2.0

HEADER_BYTES = 16 * 1024
"""For the request line, a long query with it, and all headers."""


class Check(NamedTuple):
    """Something we need, and how to find out whether it is there."""

    name: str
    trouble: Callable[[], Awaitable[str]]
    """What is wrong with it, in a few words. Empty: nothing is."""
    without: str = ""
    """What still works without it. Empty: we are not ready without it."""


class HttpLimits(NamedTuple):
    """What an operator decides about connections over HTTP."""

    connections: ConnectionLimits = ConnectionLimits()
    times: HttpTimes = HttpTimes()
    proxies: Sequence[Network] = ()


class Web:
    def __init__(
        self,
        address: str,
        checks: Sequence[Check],
        meters: Meters,
        resources: Sequence[Route] = (),
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
        certificates: Certificates | None = None,
        gate: Gate | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        self._limits = limits or HttpLimits()
        self._gate = gate or NoGate()
        self._address = address
        self._checks = checks
        self._meters = meters
        self._certificates = certificates
        self._draining = False
        self._server: Http1Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.app = Starlette(
            routes=[
                Route("/livez", self._livez),
                Route("/readyz", self._readyz),
                Route("/readiness", self._readyz),  # as the koor contract has it
                Route("/metrics", self._metrics),
                *resources,
            ],
            exception_handlers={HTTPException: unrouted},
        )
        self.app.router.redirect_slashes = False  # a route is spelt in one way
        self._whole = around(self.app)

    async def start(self) -> str:
        """Listen, and return the address with the port that port 0 turned into."""
        listening = bound(self._address, "WINDLASS_HTTP_ADDRESS")
        host, port = listening.getsockname()[:2]
        config = uvicorn.Config(
            self._whole,
            loop="none",
            http="h11",
            h11_max_incomplete_event_size=HEADER_BYTES,
            lifespan="off",
            proxy_headers=False,  # `api/origin.py` knows whom to believe
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=int(GRACE_SECONDS),
            timeout_keep_alive=int(self._limits.times.idle),
        )
        encrypted = self._certificates.for_http() if self._certificates else None
        table = ConnectionTable(self._limits.connections, self._limits.proxies)
        self._server = Http1Server(config, table, self._limits.times, encrypted)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))
        return f"{host}:{port}"

    def drain(self) -> None:
        """Say from here on that we are not ready: we are going down."""
        self._draining = True

    async def stop(self) -> None:
        """Let calls end by themselves, then close."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving

    async def _livez(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        found = await asyncio.gather(*map(_looked, self._checks))
        lines = [line for line, _ in found]
        ready = all(good for _, good in found) and not self._draining
        if self._draining:
            lines.append("[-]server: going down")
        lines.append("ready" if ready else "not ready")
        asked = "verbose" in request.query_params or not ready
        shown = lines if asked and await self._refusal(request) is None else lines[-1:]
        return PlainTextResponse("\n".join(shown) + "\n", 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        refusal = await self._refusal(request)
        if refusal is None:
            return Response(self._meters.text(), media_type=CONTENT_TYPE_LATEST)
        code = STATUSES[CODES[packed(refusal).code]]
        headers = {"www-authenticate": "Bearer"} if code == 401 else {}
        return PlainTextResponse(f"{refusal.message}\n", code, headers)

    async def _refusal(self, request: Request) -> DomainError | None:
        """Why whoever asks is not told more than everybody is. None: they may read."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                permitted(READ, await self._gate.recognised(READ, Exchange(request)))
        except DomainError as error:
            return error
        except Exception:  # such as a database without tables, or without an answer
            return Unavailable("nobody can say at the moment who asks")
        return None


async def _looked(check: Check) -> tuple[str, bool]:
    """A line on what was found, and whether we can do with that."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            why = await check.trouble()
    except TimeoutError:
        why = f"no answer within {CHECK_SECONDS:g} s"
    except DomainError as error:
        why = f"{error.message} ({error.reason}); {error.do}" if error.do else error.message
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    if not why:
        return f"[+]{check.name}: ok", True
    if check.without:
        return f"[!]{check.name}: {why}; {check.without}", True
    return f"[-]{check.name}: {why}", False
