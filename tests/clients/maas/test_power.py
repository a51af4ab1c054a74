"""Machines of the simulated region switched off and on, and marked as broken."""

import pytest

from clients.maas import MaasMachines
from domain.errors import Failed, Unavailable
from domain.machine import Machine, Search
from domain.ports import Spoilt
from sim.faults import Fault, How
from sim.maas.machine import Status
from tests.clients.maas.pool import installed, slot, state
from tests.sim.region import Region, eventually

POWER = "maas POST machines/*/?op=power_*"
BREAK = "maas POST machines/*/?op=mark_broken"


async def deployed(machines: MaasMachines) -> Machine:
    return await installed(machines, await machines.allocate(Search(slot=slot())))


async def test_a_machine_goes_down_and_comes_back(region: Region, machines: MaasMachines) -> None:
    machine = await deployed(machines)
    assert await machines.powered(machine)
    for _ in range(2):
        await machines.power_off(machine)
        assert not await machines.powered(machine)
    for _ in range(2):
        await machines.power_on(machine)
        assert await machines.powered(machine)
    await eventually(lambda: region.hosts.done[-1] == ("power on", machine.system_id))
    switched = [what for what, _ in region.hosts.done if what.startswith("power")]
    assert switched == ["power off", "power on"]


@pytest.mark.parametrize("how", [How.REFUSE, How.HALF])
async def test_trouble_with_power_passes(region: Region, machines: MaasMachines, how: How) -> None:
    machine = await deployed(machines)
    region.faults.add(Fault(where=POWER, how=how, status=503, times=10))
    with pytest.raises(Unavailable):
        await machines.power_off(machine)
    region.faults.clear()
    await machines.power_off(machine)
    assert not await machines.powered(machine)


async def test_a_machine_that_is_not_ours_any_more_is_left_alone(
    region: Region, machines: MaasMachines
) -> None:
    machine = await deployed(machines)
    await machines.release(machine.slot)
    for switch in (machines.power_off, machines.power_on):
        with pytest.raises(Failed, match="released by hand"):
            await switch(machine)


async def test_a_broken_machine_is_nobodys_and_says_why(
    region: Region, machines: MaasMachines
) -> None:
    machine = await deployed(machines)
    spoilt = Spoilt(machine=machine, why="Failed deployment " + "x" * 500)
    for _ in range(2):
        await machines.mark_broken(spoilt)
    assert state(region, machine) is Status.BROKEN
    said = region.site.maas.machines.all[machine.system_id].message
    assert said.startswith(f"Windlass: it let {machine.slot.name} of hello down: Failed deployment")
    assert await machines.released(machine.slot)
    another = await machines.allocate(Search(slot=machine.slot))
    assert another.system_id != machine.system_id
    await machines.mark_broken(spoilt)
    assert state(region, another) is Status.ALLOCATED


async def test_what_is_shunned_is_named_when_nothing_else_is_free(
    region: Region, machines: MaasMachines
) -> None:
    everything = tuple(region.site.maas.machines.all)
    with pytest.raises(Unavailable, match="but for 6 that failed before"):
        await machines.allocate(Search(slot=slot(), avoid=everything))
