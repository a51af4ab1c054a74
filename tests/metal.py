"""A site of simulated hosts for tests, on loopback addresses and a port of its own."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import asyncssh

from domain.cloud_init import LOGIN, user_data
from domain.machine import Machine, Role, Slot
from domain.releases import Release
from sim.clusters import SimulatedClusters
from sim.faults import Faults
from sim.hosts.disk import ROOT
from sim.hosts.host import Host
from sim.hosts.hosts import COMMANDS, SimulatedHosts
from sim.hosts.shell import Call, Held
from sim.ledger import Ledger
from sim.metal import Installed
from sim.pace import INSTANT, Clock, Pace, WallClock
from tests.support.load import limit

VERSION = "1.31.4"
USER = LOGIN


@dataclass
class Metal:
    """Hosts, the clusters they make, and the key that opens them."""

    prefix: str
    port: int
    clusters: SimulatedClusters
    hosts: SimulatedHosts
    faults: Faults
    ledger: Ledger
    clock: Clock
    key: asyncssh.SSHKey
    used: int = 0
    cluster_uid: str = field(default_factory=lambda: uuid4().hex)

    def machine(
        self, name: str, role: Role = Role.CONTROL_PLANE, *, version: str = VERSION
    ) -> Machine:
        """A machine to be the node of that name, on an address nobody has had."""
        self.used += 1
        slot = Slot(
            cluster_uid=self.cluster_uid,
            cluster="hello",
            name=name,
            role=role,
            pool="control-plane" if role is Role.CONTROL_PLANE else "web",
            release=Release(version=version, series="jammy"),
            public_key=self.key.export_public_key().decode().strip(),
        )
        address = f"{self.prefix}.{self.used}"
        return Machine(slot=slot, system_id=f"id-{name}", hostname=name, address=address)

    async def boot(self, machine: Machine, text: str = "") -> Host:
        """Its first boot with a fresh system."""
        await self.hosts.boot(
            Installed(
                system_id=machine.system_id,
                hostname=machine.hostname,
                address=machine.address,
                series="jammy",
                user_data=text or user_data(machine.slot),
            )
        )
        return self.host(machine)

    async def install(self, name: str, role: Role = Role.CONTROL_PLANE) -> Machine:
        """A machine that is up, with its first boot behind it."""
        machine = self.machine(name, role)
        host = await self.boot(machine)
        await until(lambda: host.state.settled)
        return machine

    def host(self, machine: Machine) -> Host:
        found = self.hosts.host(machine.system_id)
        assert found is not None
        return found

    def runs(self, machine: Machine) -> list[tuple[str, str]]:
        """kubeadm's runs on a host: what it was to do, and how that ended."""
        return [(run.verb, run.result) for run in self.host(machine).state.kubeadm.runs]


@asynccontextmanager
async def metal(
    *,
    clock: Clock | None = None,
    pace: Pace = INSTANT,
    path: Path | None = None,
    like: Metal | None = None,
    resolve: Callable[[str], Sequence[str]] | None = None,
) -> AsyncIterator[Metal]:
    """A site. `like` another one: in its place, from the same ledger file."""
    prefix = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
    ledger, faults, clock = Ledger(path), Faults(), clock or WallClock()
    clusters = SimulatedClusters(ledger=ledger, clock=clock, pace=pace, faults=faults)
    port = like.port if like else free_port(f"{prefix}.1")
    hosts = SimulatedHosts(
        ledger=ledger,
        faults=faults,
        clock=clock,
        pace=pace,
        clusters=clusters,
        ssh_port=port,
        resolve=resolve,
    )
    site = Metal(
        prefix=like.prefix if like else prefix,
        port=port,
        clusters=clusters,
        hosts=hosts,
        faults=faults,
        ledger=ledger,
        clock=clock,
        key=like.key if like else asyncssh.generate_private_key("ssh-ed25519"),
        used=like.used if like else 0,
    )
    await hosts.start()
    try:
        yield site
    finally:
        await hosts.stop()
        ledger.close()


def free_port(address: str) -> int:
    """A port that nobody listens on there."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def login(
    site: Metal, machine: Machine, user: str = USER
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection by a foreign client that knows the host's key."""
    key = asyncssh.import_private_key(site.host(machine).state.host_key).convert_to_public()
    async with asyncssh.connect(
        machine.address,
        site.port,
        username=user,
        client_keys=[site.key],
        known_hosts=([key], [], []),
        config=[],
        agent_path=None,
    ) as connection:
        yield connection


async def typed(host: Host, line: str, user: str = USER) -> tuple[int, str, str]:
    """What a command line on the host comes to, without any SSH: exit code and both outputs."""
    out, err = Held(), Held()
    home = {"PWD": f"/home/{user}" if user != ROOT else "/root"}
    call = Call(host, COMMANDS, user, ["sh"], out, err, variables=home)
    return await call.script(line), out.data.decode(), err.data.decode()


async def until(holds: Callable[[], bool], *, seconds: float = 10) -> None:
    """Wait for a condition. What never comes true is a failure after that long."""
    async with limit(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)
