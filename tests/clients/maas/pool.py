"""Slots to fill from a simulated region, and the client that fills them."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clients.maas import Maas, MaasMachines
from domain.machine import Erasing, Machine, Role, Slot
from domain.releases import Release
from sim.maas.machine import Status
from tests.sim.region import Region, eventually

CLUSTER = "1f6f6f2c9d5e4a7b"
ALLOCATE = "maas POST machines/?op=allocate"
DEPLOY = "maas POST machines/*/?op=deploy"
RELEASE = "maas POST machines/*/?op=release"


def slot(name: str = "workers-x7k2p", *, cluster: str = CLUSTER, kind: str = "") -> Slot:
    return Slot(
        cluster_uid=cluster,
        cluster="hello",
        name=name,
        role=Role.WORKER,
        pool=name.rpartition("-")[0],
        instance_type=kind,
        release=Release(version="1.31.4", series="jammy"),
        public_key=f"ssh-ed25519 {secrets.token_hex(16)} windlass",
    )


@asynccontextmanager
async def client(
    region: Region, *, fresh_seconds: float = 10, erase: Erasing = Erasing.NONE
) -> AsyncIterator[MaasMachines]:
    maas = Maas(region.url, region.api_key, timeout_seconds=2, pause_seconds=0.01)
    try:
        yield MaasMachines(maas, fresh_seconds=fresh_seconds, erase=erase)
    finally:
        await maas.close()


async def installed(machines: MaasMachines, machine: Machine) -> Machine:
    await machines.deploy(machine)
    found: list[Machine] = []

    async def there() -> bool:
        if done := await machines.deployed(machine):
            found.append(done)
        return bool(found)

    await eventually(there)
    return found[0]


def all_taken_for(region: Region, slot: Slot) -> None:
    """As if every machine had been allocated for the slot, and no answer had come through."""
    for machine in region.site.maas.machines.all.values():
        machine.status, machine.owner = Status.ALLOCATED, "windlass"
        machine.agent_name = slot.agent_name


def taken(region: Region) -> list[str]:
    machines = region.site.maas.machines.all.values()
    return [one.system_id for one in machines if one.status is not Status.READY]


def state(region: Region, machine: Machine) -> Status:
    return region.site.maas.machines.all[machine.system_id].status
