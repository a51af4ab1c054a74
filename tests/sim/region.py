"""A simulated region to test against, with hosts that only remember what was done to them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from oauthlib import oauth1

from sim.faults import Faults
from sim.ledger import Ledger
from sim.maas import SimulatedMaas, Stocked
from sim.metal import Installed
from sim.pace import INSTANT, Clock, Pace, WallClock
from sim.site import Site
from tests.support.load import limit

DOMAIN = "windlass.test"
NETWORK = "127.41"

STOCK = [
    Stocked(hostname="big", tags=("metal", "large"), zone="a", cpu_count=64, memory=262144),
    Stocked(hostname="small", tags=("metal",), zone="b", cpu_count=2, memory=4096),
    Stocked(hostname="gpu", tags=("metal", "gpu"), zone="b", pool="lab", cpu_count=8),
]
BIG, SMALL, GPU = (stocked.system_id for stocked in STOCK)
HALTING = Pace(deploy=10, release=5)
"""Slow enough for a clock turned by hand to show every state in between."""


class Remembering:
    """Hosts of which nothing runs."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.installed: dict[str, Installed] = {}

    async def boot(self, machine: Installed) -> None:
        self.done.append(("boot", machine.system_id))
        self.installed[machine.system_id] = machine

    async def power_off(self, system_id: str) -> None:
        self.done.append(("power off", system_id))

    async def power_on(self, system_id: str) -> None:
        self.done.append(("power on", system_id))

    async def wipe(self, system_id: str) -> None:
        self.done.append(("wipe", system_id))
        self.installed.pop(system_id, None)

    def inspect(self) -> dict[str, Any]:
        return {"installed": sorted(self.installed)}


class Caller:
    """A foreign client: it knows HTTP and OAuth, and nothing of ours."""

    def __init__(self, url: str, api_key: str) -> None:
        self.http = httpx2.AsyncClient(base_url=url + "api/2.0/", trust_env=False, timeout=10)
        self.api_key = api_key

    def sign(self) -> dict[str, str]:
        consumer, token, secret = self.api_key.split(":")
        signer = oauth1.Client(
            consumer,
            "",
            token,
            secret,
            signature_method=oauth1.SIGNATURE_PLAINTEXT,
            realm="MAAS API",
        )
        headers: dict[str, str] = signer.sign("http://maas/")[1]
        return headers

    async def __call__(self, method: str, path: str, **form: Any) -> httpx2.Response:
        return await self.http.request(method, path, data=form or None, headers=self.sign())

    async def machine(self, system_id: str) -> dict[str, Any]:
        reply = await self("GET", f"machines/{system_id}/")
        shown: dict[str, Any] = reply.raise_for_status().json()
        return shown

    async def status(self, system_id: str) -> str:
        return str((await self.machine(system_id))["status_name"])


class Region:
    """A site under test, and what one needs to talk to it and to upset it."""

    def __init__(
        self,
        stock: Iterable[Stocked],
        *,
        pace: Pace = INSTANT,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
        hosts: Remembering | None = None,
        api_key: str = "",
        faults: Faults | None = None,
    ) -> None:
        self.hosts, self.faults = hosts or Remembering(), faults or Faults()
        self.api_key = api_key or new_key()
        maas = SimulatedMaas(
            stock,
            hosts=self.hosts,
            ledger=ledger or Ledger(),
            faults=self.faults,
            clock=clock or WallClock(),
            pace=pace,
            network=NETWORK,
            api_key=self.api_key,
            domain=DOMAIN,
        )
        self.site = Site(maas, hosts=self.hosts, faults=self.faults)
        self.url = ""

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[Caller]:
        self.url = await self.site.start("127.0.0.1", port)
        caller = Caller(self.url, self.api_key)
        try:
            yield caller
            assert self.site.inspect()["violations"] == []
        finally:
            await caller.http.aclose()
            await self.site.stop()

    def holders(self, agent_name: str) -> list[str]:
        machines = self.site.maas.machines.all.values()
        return sorted(one.system_id for one in machines if one.agent_name == agent_name)


def new_key() -> str:
    return ":".join(secrets.token_hex(8) for _ in range(3))


def some(count: int, **alike: Any) -> list[Stocked]:
    return [Stocked(hostname=f"m{index}", **alike) for index in range(count)]


async def eventually(probe: Callable[[], Any]) -> None:
    """Wait until the probe, or what it returns when awaited, is true."""
    async with limit(10):
        while True:
            found = probe()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.005)


def ids(reply: httpx2.Response) -> list[str]:
    return [machine["system_id"] for machine in reply.raise_for_status().json()]
