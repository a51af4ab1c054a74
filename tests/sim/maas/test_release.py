"""How machines of the simulated region are given back."""

import asyncio

from sim.faults import Fault, How
from sim.maas.machine import Status
from sim.metal import Installed
from sim.pace import HandClock
from tests.sim.region import BIG, GPU, SMALL, STOCK, Caller, Region, Remembering, eventually, ids


async def test_what_never_ran_is_ready_at_once(region: Region, call: Caller) -> None:
    await call("POST", "machines/?op=allocate", system_id=SMALL, agent_name="me")
    await call("POST", f"machines/{SMALL}/?op=set_owner_data", colour="blue")
    reply = await call("POST", f"machines/{SMALL}/?op=release")
    machine = reply.json()
    assert (machine["status_name"], machine["owner"], machine["owner_data"]) == ("Ready", None, {})
    assert ids(await call("GET", "machines/?agent_name=me")) == []
    assert region.hosts.done == []


async def test_a_release_takes_the_name_at_once_and_the_rest_when_done(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    await slow("POST", "machines/?op=allocate", system_id=SMALL, agent_name="me")
    await slow("POST", f"machines/{SMALL}/?op=set_workload_annotations", colour="blue")
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    await clock.turn(10)
    reply = await slow("POST", f"machines/{SMALL}/?op=release")
    machine = reply.json()
    assert (machine["status_name"], machine["owner"]) == ("Releasing", "windlass")
    assert machine["workload_annotations"] == {"colour": "blue"}
    assert machine["ip_addresses"] == []
    assert ids(await slow("GET", "machines/?agent_name=me")) == []
    assert ("wipe", SMALL) in slow_region.hosts.done

    again = await slow("POST", f"machines/{SMALL}/?op=release")
    assert (again.status_code, again.json()["status_name"]) == (200, "Releasing")
    await clock.turn(5)
    machine = await slow.machine(SMALL)
    assert (machine["status_name"], machine["owner"], machine["owner_data"]) == ("Ready", None, {})


async def test_a_machine_that_is_off_is_ready_at_once_and_its_system_is_gone(
    region: Region, call: Caller
) -> None:
    await call("POST", f"machines/{SMALL}/?op=deploy")
    await eventually(lambda: SMALL in region.hosts.installed)
    await call("POST", f"machines/{SMALL}/?op=power_off")
    reply = await call("POST", f"machines/{SMALL}/?op=release")
    assert reply.json()["status_name"] == "Ready"
    await eventually(lambda: SMALL not in region.hosts.installed)


async def test_a_release_ends_a_running_deployment(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    await clock.turn(9)
    await slow("POST", f"machines/{SMALL}/?op=release")
    await clock.turn(60)
    assert await slow.status(SMALL) == "Ready"
    assert slow_region.hosts.done == [("wipe", SMALL)]


class Stubborn(Remembering):
    """Hosts that finish a boot they have begun, though they are told to stop."""

    async def boot(self, machine: Installed) -> None:
        self.done.append(("begin", machine.system_id))
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            await super().boot(machine)


async def test_a_wipe_has_the_last_word() -> None:
    region = Region(STOCK, hosts=Stubborn())
    async with region.serve() as call:
        await call("POST", f"machines/{SMALL}/?op=deploy")
        await eventually(lambda: region.hosts.done)
        await call("POST", f"machines/{SMALL}/?op=release")
        await eventually(lambda: len(region.hosts.done) == 3)
    assert [what for what, _ in region.hosts.done] == ["begin", "boot", "wipe"]


async def test_disks_are_erased_when_asked(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    await clock.turn(10)
    machine = slow_region.site.maas.machines.all[SMALL]
    machine.agent_name = "some-slot"
    reply = await slow("POST", f"machines/{SMALL}/?op=release", erase="true", quick_erase="true")
    assert reply.json()["status_name"] == "Disk erasing"
    assert machine.agent_name == "some-slot", "MAAS keeps it as long as it erases"
    await clock.turn(5)
    assert await slow.status(SMALL) == "Releasing"
    assert machine.agent_name == ""
    await clock.turn(5)
    assert await slow.status(SMALL) == "Ready"


async def test_a_release_can_get_stuck_and_be_asked_for_again(
    slow_region: Region, slow: Caller, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where=f"release {SMALL}", how=How.HANG))
    await slow("POST", f"machines/{SMALL}/?op=deploy")
    await clock.turn(10)
    await slow("POST", f"machines/{SMALL}/?op=release")
    await clock.turn(299)
    assert await slow.status(SMALL) == "Releasing"
    await clock.turn(1)
    assert await slow.status(SMALL) == "Releasing failed"
    await slow("POST", f"machines/{SMALL}/?op=release")
    await clock.turn(5)
    assert await slow.status(SMALL) == "Ready"


async def test_several_are_released_together_or_not_at_all(region: Region, call: Caller) -> None:
    await call("POST", "machines/?op=allocate", system_id=SMALL)
    unknown = await call("POST", "machines/?op=release", machines=[SMALL, "x"])
    assert (unknown.status_code, unknown.text) == (400, "Unknown machine(s): x.")

    region.site.maas.machines.all[GPU].status = Status.NEW
    refused = await call("POST", "machines/?op=release", machines=[SMALL, GPU])
    assert refused.status_code == 409
    assert await call.status(SMALL) == "Allocated"

    done = await call("POST", "machines/?op=release", machines=[SMALL, BIG])
    assert done.json() == [SMALL]
    assert await call.status(SMALL) == "Ready"


async def test_what_is_somebody_elses_is_left_alone(region: Region, call: Caller) -> None:
    region.site.maas.orders.hand_over(SMALL, "somebody")
    for op in ("deploy", "release", "mark_broken", "set_owner_data", "power_on", "abort"):
        assert (await call("POST", f"machines/{SMALL}/?op={op}")).status_code == 403
    assert (await call.machine(SMALL))["owner"] == "somebody"


async def test_a_new_machine_cannot_be_released(region: Region, call: Caller) -> None:
    machine = region.site.maas.machines.all[SMALL]
    machine.status, machine.owner = Status.NEW, "windlass"
    reply = await call("POST", f"machines/{SMALL}/?op=release")
    assert reply.status_code == 409
    assert reply.text == "Machine cannot be released in its current state ('New')."
