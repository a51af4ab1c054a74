"""One machine per slot, however often it is asked for, and whatever becomes of the answers."""

import asyncio
from collections import Counter

import pytest

from clients.maas import Maas, MaasMachines
from domain.errors import Invalid, Unavailable
from domain.machine import Search
from sim.faults import Fault, How
from sim.maas import Stocked
from sim.maas.machine import Status
from tests.clients.maas.pool import ALLOCATE, CLUSTER, all_taken_for, client, slot, taken
from tests.sim.region import Region, eventually


async def test_a_machine_is_taken_under_the_slots_name_and_marked_for_people(
    region: Region, machines: MaasMachines
) -> None:
    machine = await machines.allocate(Search(slot=slot()))
    assert machine.status == "Allocated"
    assert machine.address == ""
    assert region.holders("kaas-1f6f6f2c-workers-x7k2p") == [machine.system_id]
    kept = region.site.maas.machines.all[machine.system_id]
    assert kept.annotations == {"kaas-cluster": CLUSTER, "kaas-machine": "workers-x7k2p"}


async def test_asking_again_gives_the_same_machine(region: Region, machines: MaasMachines) -> None:
    first = await machines.allocate(Search(slot=slot()))
    again = await machines.allocate(Search(slot=first.slot))
    assert again == first
    assert taken(region) == [first.system_id]


async def test_two_attempts_at_once_agree_on_one_machine(region: Region) -> None:
    """A retry may run while the attempt it replaces, in another process, is still at it."""
    async with region.serve(), client(region) as here, client(region) as there:
        for name in ("workers-aaaaa", "workers-bbbbb", "workers-ccccc"):
            search = Search(slot=slot(name))
            first, second = await asyncio.gather(here.allocate(search), there.allocate(search))
            assert first == second
    assert len(taken(region)) == 3


async def test_two_attempts_in_one_process_agree_too(
    region: Region, machines: MaasMachines
) -> None:
    search = Search(slot=slot())
    found = await asyncio.gather(*(machines.allocate(search) for _ in range(4)))
    assert len({machine.system_id for machine in found}) == 1
    acquired = [event for event in region.site.maas.events.all if "acquiring" in event.type]
    assert len(acquired) == 1


async def test_a_machine_lost_to_another_attempt_is_found_not_replaced(region: Region) -> None:
    region.faults.add(Fault(where=ALLOCATE, how=How.SLOW, seconds=0.1))
    async with region.serve(), client(region) as here, client(region) as there:
        search = Search(slot=slot())
        first, second = await asyncio.gather(here.allocate(search), there.allocate(search))
    assert first == second
    acquired = [event for event in region.site.maas.events.all if "acquiring" in event.type]
    assert len(acquired) == 1


async def test_of_two_machines_the_one_settled_on_is_kept(
    region: Region, machines: MaasMachines
) -> None:
    first = await machines.allocate(Search(slot=slot()))
    for other in region.site.maas.machines.all.values():
        if other.system_id != first.system_id:
            other.status, other.owner = Status.ALLOCATED, "windlass"
            other.agent_name = first.slot.agent_name
    assert await machines.allocate(Search(slot=first.slot)) == first
    assert taken(region) == [first.system_id]


async def test_of_two_new_machines_the_lowest_id_is_kept(
    region: Region, machines: MaasMachines
) -> None:
    wanted = slot()
    all_taken_for(region, wanted)
    machine = await machines.allocate(Search(slot=wanted))
    assert machine.system_id == min(region.site.maas.machines.all)
    assert taken(region) == [machine.system_id]


async def test_of_two_machines_the_one_further_along_is_kept(
    region: Region, machines: MaasMachines
) -> None:
    wanted, known = slot(), region.site.maas.machines.all
    ahead = max(known)
    for late in known.values():
        late.status, late.owner = Status.ALLOCATED, "windlass"
        late.agent_name = wanted.agent_name
    known[ahead].status = Status.FAILED_DEPLOYMENT
    assert (await machines.allocate(Search(slot=wanted))).system_id == ahead


async def test_an_allocation_whose_answer_was_lost_is_adopted(
    region: Region, machines: MaasMachines
) -> None:
    region.faults.add(Fault(where=ALLOCATE, how=How.HALF))
    machine = await machines.allocate(Search(slot=slot()))
    assert taken(region) == [machine.system_id]


async def test_an_allocation_under_way_is_waited_for_by_whoever_is_cancelled(
    region: Region, machines: MaasMachines
) -> None:
    """Or it would be carried out after the undo has looked, and nobody's."""
    wanted = slot()
    region.faults.add(Fault(where=ALLOCATE, how=How.SLOW, seconds=0.5))
    asking = asyncio.create_task(machines.allocate(Search(slot=wanted)))
    await eventually(lambda: region.faults.met()[0][1])
    for _ in range(2):  # whoever is told twice goes on waiting
        asking.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(taken(region)) == 1
    await machines.release(wanted)
    await eventually(lambda: not taken(region))


async def test_an_allocation_is_waited_for_longer_than_other_calls(region: Region) -> None:
    region.faults.add(Fault(where=ALLOCATE, how=How.SLOW, seconds=2))
    async with region.serve():
        hasty = Maas(region.url, region.api_key, timeout_seconds=1)
        try:
            machine = await MaasMachines(hasty).allocate(Search(slot=slot()))
        finally:
            await hasty.close()
        assert taken(region) == [machine.system_id]
        assert len(region.faults.met()[0][1]) == 1


async def test_an_allocation_that_never_arrived_is_worth_another_try(
    region: Region, machines: MaasMachines
) -> None:
    region.faults.add(Fault(where=ALLOCATE, how=How.DROP))
    with pytest.raises(Unavailable, match=r"did not answer POST machines/\?op=allocate"):
        await machines.allocate(Search(slot=slot()))
    assert taken(region) == []
    await machines.allocate(Search(slot=slot()))
    assert len(taken(region)) == 1


async def test_a_machine_that_is_gone_is_not_the_only_one(
    region: Region, machines: MaasMachines
) -> None:
    refused = Fault(where=ALLOCATE, how=How.REFUSE, status=409, message="No machine available.")
    region.faults.add(refused)
    await machines.allocate(Search(slot=slot()))
    assert len(taken(region)) == 1


async def test_a_conflict_of_maas_own_is_no_word_about_the_machine(
    region: Region, machines: MaasMachines
) -> None:
    """409 with Retry-After is its database. The same machine is asked for again, signed anew."""
    busy = Fault(where=ALLOCATE, how=How.REFUSE, status=409, retry_after=5, times=2)
    region.faults.add(busy)
    machine = await machines.allocate(Search(slot=slot()))
    assert taken(region) == [machine.system_id]
    assert len(region.faults.met()[0][1]) == 2


async def test_an_annotation_that_failed_is_made_good_by_the_next_try(
    region: Region, machines: MaasMachines
) -> None:
    region.faults.add(Fault(where="maas POST *op=set_workload_annotations", how=How.DROP))
    with pytest.raises(Unavailable):
        await machines.allocate(Search(slot=slot()))
    machine = await machines.allocate(Search(slot=slot()))
    assert taken(region) == [machine.system_id]
    assert region.site.maas.machines.all[machine.system_id].annotations


async def test_no_machine_free_is_unavailable(region: Region, machines: MaasMachines) -> None:
    for index in range(6):
        await machines.allocate(Search(slot=slot(f"workers-aaaa{index}", kind="metal")))
    with pytest.raises(Unavailable, match="no free machine tagged metal for workers-x7k2p") as no:
        await machines.allocate(Search(slot=slot(kind="metal")))
    assert no.value.reason == "NO_MACHINE_FREE"


async def test_a_tag_nobody_knows_is_invalid(machines: MaasMachines) -> None:
    with pytest.raises(Invalid, match="No such tag"):
        await machines.allocate(Search(slot=slot(kind="golden")))


async def test_what_let_the_slot_down_is_avoided_and_given_back(
    region: Region, machines: MaasMachines
) -> None:
    first = await machines.allocate(Search(slot=slot()))
    search = Search(slot=first.slot, avoid=(first.system_id,))
    second = await machines.allocate(search)
    assert second.system_id != first.system_id
    assert taken(region) == [second.system_id]


async def test_a_pool_is_spread_over_zones_and_takes_what_fits() -> None:
    """All ask at once; other pools and other clusters have a count of their own."""
    stock = [
        Stocked(hostname=f"{zone}{size}-{index}", zone=zone, tags=("metal",), cpu_count=size)
        for zone in "abc"
        for size in (4, 64)
        for index in range(6)
    ]
    region = Region([*stock, Stocked(hostname="tiny", zone="a", tags=("toy",), cpu_count=1)])
    async with region.serve(), client(region) as machines:
        for pool in ("control-plane", "workers"):
            names = [f"{pool}-aaaa{index}" for index in range(9)]
            found = await asyncio.gather(
                *(machines.allocate(Search(slot=slot(name, kind="metal"))) for name in names)
            )
            hosts = Counter(machine.hostname[:2] for machine in found)
            assert hosts == {"a4": 3, "b4": 3, "c4": 3}
