"""Managers to talk to: a simulated one with a cluster behind it, and one that says what it is told
to say."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from clients.ceph import CephStorage, RestIdentities, Session
from sim.ceph import PATH, USER, SimulatedCeph, SimulatedCluster
from sim.faults import Faults
from sim.ledger import Ledger
from sim.pace import WallClock
from tests.vaults import MemoryVault

NOWHERE = "http://127.0.0.1:1"
"""Where nothing listens."""


@asynccontextmanager
async def served(*routes: web.RouteDef) -> AsyncIterator[str]:
    """The URL at which these are served."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Manager:
    """A simulated manager that is served, and clients of it."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.password = secrets.token_hex(8)
        clock = WallClock()
        self.cluster = SimulatedCluster(Ledger(), self.faults, clock=clock)
        self.ceph = SimulatedCeph(self.cluster, self.faults, clock, password=self.password)
        self.vault = MemoryVault()
        self.url = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["Manager"]:
        async with served(*self.ceph.routes()) as url:
            self.url = url + PATH
            try:
                yield self
            finally:
                self.ceph.stop()

    async def secret(self) -> str:
        return self.password

    def session(self, *urls: str, timeout_seconds: float = 10) -> Session:
        return Session([*urls, self.url], USER, self.secret, timeout_seconds=timeout_seconds)

    @asynccontextmanager
    async def storage(self, *urls: str, timeout_seconds: float = 10) -> AsyncIterator[CephStorage]:
        """A client of it, which tries these URLs first."""
        session = self.session(*urls, timeout_seconds=timeout_seconds)
        storage = CephStorage(session, RestIdentities(session), self.vault)
        try:
            yield storage
        finally:
            await storage.close()

    def heard(self, call: str) -> int:
        """How often this was asked."""
        return self.ceph.calls.count(call)


class Reply(NamedTuple):
    status: int
    said: Any = None


class Scripted:
    """A manager that lets everybody in, and to each call gives the next of its replies."""

    def __init__(self, **replies: list[Reply]) -> None:
        self.replies = replies
        self.accepted: list[str] = []

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        async def secret() -> str:
            return "right"

        async with served(web.route("*", "/api/{below}", self._answer)) as url:
            session = Session([url], USER, secret)
            try:
                yield session
            finally:
                await session.close()

    async def _answer(self, request: web.Request) -> web.Response:
        below = request.match_info["below"]
        if below == "auth":
            return web.json_response({"token": "t"}, status=201)
        self.accepted.append(request.headers["Accept"])
        status, said = self.replies[below].pop(0)
        if isinstance(said, bytes):
            return web.Response(body=said, status=status)
        return web.Response(text=json.dumps(said), status=status, content_type="application/json")
