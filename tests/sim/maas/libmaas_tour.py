"""A tour of a region with python-libmaas, run in that library's own environment.

    libmaas_tour.py URL API_KEY

Prints what it saw as one JSON object. It knows nothing of this project."""

import asyncio
import json
import sys
from typing import Any

from maas.client import connect  # type: ignore[import-not-found]
from maas.client.bones import CallError  # type: ignore[import-not-found]
from maas.client.viscera.machines import MachineNotFound  # type: ignore[import-not-found]

USER_DATA = "#cloud-config\nhostname: tour-" + "ü" * 60 + "\n"


async def tour(url: str, api_key: str) -> dict[str, Any]:
    client = await connect(url, apikey=api_key)
    listed = await client.machines.list()
    me = await client.users.whoami()
    version = await client.version.get()

    machine = await client.machines.allocate(
        tags=["gpu"], cpus=2, memory=1024, agent_name="tour", bridge_all=False
    )
    allocated = machine.status.name
    try:
        await client.machines.allocate(tags=["gpu"], hostname="nobody")
        refused = ""
    except MachineNotFound as error:
        refused = str(error)

    try:
        await machine.deploy(distro_series="vista")
        invalid = 0
    except CallError as error:
        invalid = error.status

    data = USER_DATA.encode()
    await machine.deploy(user_data=data, distro_series="jammy", wait=True, wait_interval=0)
    deployed = await client.machines.get(system_id=machine.system_id)
    events = await client.events.query(system_ids=[machine.system_id], limit=3)
    seen = {
        "listed": sorted(one.hostname for one in listed),
        "owner": deployed.owner.username,
        "me": me.username,
        "version": version.version,
        "tags": sorted(tag.name for tag in machine.tags),
        "zone": machine.zone.name,
        "allocated": allocated,
        "refused": refused,
        "invalid": invalid,
        "deployed": deployed.status.name,
        "addresses": list(deployed.ip_addresses),
        "power": (await deployed.query_power_state()).value,
        "events": [event.event_type for event in events],
        "created": all(event.created.year > 2000 for event in events),
        "zones": sorted(zone.name for zone in await client.zones.list()),
        "system_id": machine.system_id,
    }
    await machine.power_off(comment="it hangs", wait=True, wait_interval=0)
    seen["power off"] = machine.power_state.value
    await machine.power_on(wait=True, wait_interval=0)
    seen["power on"] = machine.power_state.value
    await machine.release(comment="the tour is over", wait=True, wait_interval=0)
    seen["released"] = machine.status.name

    other = await client.machines.allocate(agent_name="tour")
    await other.mark_broken(comment="it does not deploy")
    seen["broken"] = [other.status.name, other.status_message, other.owner]
    await other.mark_fixed()
    seen["fixed"] = other.status.name
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(tour(*sys.argv[1:]))))
