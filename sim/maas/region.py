"""A MAAS region to build on: its HTTP API with machines behind it that take their time.

It speaks version 2.0 of the API as far as allocating, installing, naming and giving back go, to
our own client and to foreign ones. What it remembers survives its process."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from sim.faults import Fault, Faults, How
from sim.ledger import Ledger
from sim.maas.call import Call, Gate, Refusal, answer, read
from sim.maas.events import Events
from sim.maas.machine import Machine, Stocked
from sim.maas.machines import Machines
from sim.maas.names import Names
from sim.maas.orders import Orders
from sim.maas.routes import Route, Table, routes
from sim.maas.turns import Turns
from sim.maas.view import API
from sim.metal import Hosts
from sim.pace import Clock, Pace

LARGEST_REQUEST = 16 * 1024 * 1024


class SimulatedMaas:
    """The region. Requests set what is wanted; transitions make it so, in the clock's time.

    Every change is in the ledger before it is answered. `network` is the first two bytes of the
    loopback network in which each machine has its one address, such as 127.41."""

    def __init__(
        self,
        stock: Iterable[Stocked],
        *,
        hosts: Hosts,
        ledger: Ledger,
        faults: Faults,
        clock: Clock,
        pace: Pace,
        network: str,
        api_key: str,
        domain: str,
    ) -> None:
        self._faults, self._clock, self._gate = faults, clock, Gate(api_key)
        self.events = Events(ledger, clock)
        self._turns = Turns(
            ledger=ledger, events=self.events, hosts=hosts, faults=faults, clock=clock, pace=pace
        )
        self.machines = Machines(
            stock,
            known=ledger.recall("maas-machine", Machine),
            turns=self._turns,
            network=network,
            domain=domain,
        )
        self.orders = Orders(self.machines, self._turns, self.events)
        self.names = Names(ledger, network=network, domain=domain)
        self._table = Table(routes(self.machines, self.orders, self.names, self.events))
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()

    async def start(
        self, host: str, port: int, *, beside: Iterable[web.AbstractRouteDef] = ()
    ) -> str:
        """Serve, go on with what was under way, and return the region's URL."""
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.add_routes(beside)
        app.router.add_route("*", API + "{below:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.machines.resume()
        return f"http://{host}:{self._runner.addresses[0][1]}{API.removesuffix('api/2.0/')}"

    async def stop(self) -> None:
        """Stop serving. What is under way goes on at the next start with the same ledger."""
        self._stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._turns.stop()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = await read(request, request.match_info["below"])
        fault = self._faults.meet(f"maas {call.signature}")
        if fault is None:
            return self._answer(request, call)
        return await _BEFALLS[fault.how](self, request, call, fault)

    def _answer(self, request: web.Request, call: Call) -> web.Response:
        """Nothing in here waits, so no two calls mix."""
        try:
            if call.signature == "GET describe/":
                return answer(self._table.describe(call.origin), self._table.hash)
            known = "Authorization" in request.headers
            route, call = self._table.find(call, known=known)
            return self._let_in(request, route) or answer(route.answer(call), self._table.hash)
        except Refusal as refusal:
            return refusal.response()

    def _let_in(self, request: web.Request, route: Route) -> web.Response | None:
        return None if route.open else self._gate.refusal(request)

    async def _refuse(self, _: web.Request, __: Call, fault: Fault) -> web.StreamResponse:
        refusal = Refusal(fault.status, fault.message, retry_after=fault.retry_after)
        return refusal.response()

    async def _slow(self, request: web.Request, call: Call, fault: Fault) -> web.StreamResponse:
        await self._clock.sleep(fault.seconds)
        return self._answer(request, call)

    async def _hang(self, request: web.Request, _: Call, __: Fault) -> web.StreamResponse:
        await self._stopping.wait()
        return _cut(request)

    async def _half(self, request: web.Request, call: Call, _: Fault) -> web.StreamResponse:
        self._answer(request, call)
        return _cut(request)

    async def _drop(self, request: web.Request, _: Call, __: Fault) -> web.StreamResponse:
        return _cut(request)


_Befalls = Callable[[SimulatedMaas, web.Request, Call, Fault], Awaitable[web.StreamResponse]]

_BEFALLS: dict[How, _Befalls] = {
    How.REFUSE: SimulatedMaas._refuse,
    How.SLOW: SimulatedMaas._slow,
    How.HANG: SimulatedMaas._hang,
    How.HALF: SimulatedMaas._half,
    How.DROP: SimulatedMaas._drop,
    How.FAIL: SimulatedMaas._refuse,
    How.REBOOT: SimulatedMaas._drop,
    How.EXPIRE: SimulatedMaas._refuse,
    How.FLAP: SimulatedMaas._refuse,
}
"""How each fault goes on the wire. A call is too short to fail or to be rebooted in its middle, and
one that flaps has been told what it is this time."""


def _cut(request: web.Request) -> web.Response:
    """Close the connection so that the caller never learns what happened."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
