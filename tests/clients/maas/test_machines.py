"""Installing machines of the simulated region and giving them back, whatever fails on the way."""

from pathlib import Path

import pytest

from clients.maas import Maas, MaasMachines
from domain.cloud_init import user_data
from domain.errors import Failed, Invalid, Unavailable
from domain.machine import Erasing, Search
from domain.ports import ClusterMark
from domain.releases import Release
from sim.faults import Fault, How
from sim.ledger import Ledger
from sim.maas.machine import Status
from sim.pace import HandClock, Pace
from tests.clients.maas.pool import (
    CLUSTER,
    DEPLOY,
    RELEASE,
    all_taken_for,
    client,
    installed,
    slot,
    state,
    taken,
)
from tests.sim.region import Region, Remembering, eventually, new_key, some


async def test_an_installation_runs_and_shows_its_address(
    region: Region, machines: MaasMachines
) -> None:
    machine = await machines.allocate(Search(slot=slot()))
    done = await installed(machines, machine)
    kept = region.site.maas.machines.all[machine.system_id]
    assert (done.address, done.status) == (kept.address, "Deployed")
    assert region.hosts.installed[machine.system_id].user_data == user_data(machine.slot)
    assert kept.series == "jammy"


async def test_ordering_an_installation_again_changes_nothing(
    slow: MaasMachines, clock: HandClock
) -> None:
    machine = await slow.allocate(Search(slot=slot()))
    assert (await slow.deploy(machine)).status == "Deploying"
    assert (await slow.deploy(machine)).status == "Deploying"
    assert await slow.deployed(machine) is None
    await clock.turn(10)
    done = await slow.deployed(machine)
    assert done is not None
    assert done.status == "Deployed"
    assert (await slow.deploy(machine)).status == "Deployed"


async def test_deployed_waits_for_the_address(region: Region, machines: MaasMachines) -> None:
    machine = await machines.allocate(Search(slot=slot()))
    await installed(machines, machine)
    region.site.maas.machines.all[machine.system_id].claimed = False
    assert await machines.deployed(machine) is None


@pytest.mark.parametrize("how", [How.HALF, How.SLOW])
async def test_an_order_whose_answer_was_lost_counts(region: Region, how: How) -> None:
    region.faults.add(Fault(where=DEPLOY, how=how, seconds=0.3))
    async with region.serve(), client(region) as machines:
        machine = await machines.allocate(Search(slot=slot()))
        timeout = 0.1 if how is How.SLOW else 10
        hasty = Maas(region.url, region.api_key, timeout_seconds=timeout)
        try:
            await MaasMachines(hasty).deploy(machine)
        except Unavailable:  # it has not happened yet, but it will
            assert how is How.SLOW
        finally:
            await hasty.close()
        assert (await installed(machines, machine)).status == "Deployed"


async def test_an_order_that_never_arrived_is_worth_another_try(
    region: Region, machines: MaasMachines
) -> None:
    region.faults.add(Fault(where=DEPLOY, how=How.DROP))
    machine = await machines.allocate(Search(slot=slot()))
    with pytest.raises(Unavailable):
        await machines.deploy(machine)
    await installed(machines, machine)


async def test_an_order_that_maas_cannot_carry_out_is_invalid(machines: MaasMachines) -> None:
    release = Release(version="1.31.4", series="vista")
    machine = await machines.allocate(Search(slot=slot().model_copy(update={"release": release})))
    with pytest.raises(Invalid, match="'vista' is not a valid distro_series"):
        await machines.deploy(machine)


async def test_a_failed_installation_is_told_in_maas_words(
    slow_region: Region, slow: MaasMachines, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where="deploy *", how=How.FAIL, message="disk on fire"))
    machine = await slow.allocate(Search(slot=slot()))
    await slow.deploy(machine)
    await clock.turn(10)
    with pytest.raises(Failed, match="is Failed deployment in MAAS: disk on fire") as failed:
        await slow.deployed(machine)
    assert failed.value.facts == {"system_id": machine.system_id, "status": "Failed deployment"}
    with pytest.raises(Failed):
        await slow.deploy(machine)


@pytest.mark.parametrize("op", ["release", "abort", "mark_broken"])
async def test_what_people_do_by_hand_ends_the_wait(
    slow_region: Region, slow: MaasMachines, op: str
) -> None:
    maas = Maas(slow_region.url, slow_region.api_key)
    machine = await slow.allocate(Search(slot=slot()))
    await slow.deploy(machine)
    await maas.post(f"machines/{machine.system_id}/", op)
    await maas.close()
    with pytest.raises(Failed, match=r"released by hand|is Allocated in MAAS"):
        await slow.deployed(machine)


async def test_a_machine_that_became_anothers_is_lost(
    region: Region, machines: MaasMachines
) -> None:
    machine = await machines.allocate(Search(slot=slot()))
    region.site.maas.orders.hand_over(machine.system_id, "somebody")
    with pytest.raises(Failed) as lost:
        await machines.deploy(machine)
    assert lost.value.reason == "MACHINE_LOST"


async def test_giving_back_takes_a_while_and_is_asked_for_once_or_often(
    slow_region: Region, slow: MaasMachines, clock: HandClock
) -> None:
    machine = await slow.allocate(Search(slot=slot()))
    await slow.deploy(machine)
    await clock.turn(10)
    assert not await slow.released(machine.slot)
    await slow.release(machine.slot)
    await slow.release(machine.slot)
    assert not await slow.released(machine.slot)
    await clock.turn(5)
    assert await slow.released(machine.slot)
    assert taken(slow_region) == []


async def test_disks_that_were_written_to_are_erased_if_that_is_wanted(
    slow_region: Region, clock: HandClock
) -> None:
    async with slow_region.serve(), client(slow_region, erase=Erasing.QUICK) as machines:
        unused = await machines.allocate(Search(slot=slot("workers-aaaaa")))
        used = await machines.allocate(Search(slot=slot("workers-bbbbb")))
        await machines.deploy(used)
        await clock.turn(10)
        for machine in (unused, used):
            await machines.release(machine.slot)
        assert state(slow_region, unused) is not Status.DISK_ERASING
        assert state(slow_region, used) is Status.DISK_ERASING
        assert not await machines.released(used.slot)


async def test_disks_that_are_being_erased_are_waited_for_and_are_the_slots_no_more(
    slow_region: Region, clock: HandClock
) -> None:
    async with slow_region.serve(), client(slow_region, erase=Erasing.QUICK) as machines:
        machine = await machines.allocate(Search(slot=slot()))
        await machines.deploy(machine)
        await clock.turn(10)
        await machines.release(machine.slot)
        await machines.release(machine.slot)
        assert state(slow_region, machine) is Status.DISK_ERASING
        assert not await machines.released(machine.slot)
        with pytest.raises(Failed) as lost:
            await machines.deploy(machine)
        assert lost.value.reason == "MACHINE_LOST"
        another = await machines.allocate(Search(slot=machine.slot))
        assert another.system_id != machine.system_id
        await machines.release(another.slot)
        await clock.turn(5)
        assert not await machines.released(machine.slot)
        await clock.turn(5)
        assert await machines.released(machine.slot)
        assert taken(slow_region) == []


async def test_disks_that_could_not_be_erased_are_erased_again_and_told(
    slow_region: Region, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where="release *", how=How.FAIL, times=2))
    async with slow_region.serve(), client(slow_region, erase=Erasing.FULL) as machines:
        machine = await machines.allocate(Search(slot=slot()))
        await machines.deploy(machine)
        await clock.turn(10)
        await machines.release(machine.slot)
        await clock.turn(5)
        assert state(slow_region, machine) is Status.FAILED_DISK_ERASING
        with pytest.raises(Unavailable, match="is Failed disk erasing") as told:
            await machines.released(machine.slot)
        assert told.value.reason == "MAAS_GAVE_UP"
        await clock.turn(5)
        assert state(slow_region, machine) is Status.FAILED_DISK_ERASING
        another = await machines.allocate(Search(slot=machine.slot))
        assert another.system_id != machine.system_id
        assert state(slow_region, machine) is Status.DISK_ERASING
        assert await machines.allocate(Search(slot=machine.slot)) == another


async def test_disks_of_what_could_not_be_installed_are_left_alone(
    slow_region: Region, clock: HandClock
) -> None:
    """It may not boot what would erase them, and nothing ends the wait for that."""
    slow_region.faults.add(Fault(where="deploy *", how=How.FAIL))
    async with slow_region.serve(), client(slow_region, erase=Erasing.FULL) as machines:
        machine = await machines.allocate(Search(slot=slot()))
        await machines.deploy(machine)
        await clock.turn(10)
        assert state(slow_region, machine) is Status.FAILED_DEPLOYMENT
        await machines.release(machine.slot)
        assert state(slow_region, machine) is not Status.DISK_ERASING


async def test_a_slot_that_holds_nothing_is_released(machines: MaasMachines) -> None:
    await machines.release(slot())
    assert await machines.released(slot())


async def test_everything_that_carries_the_slots_name_is_given_back(
    region: Region, machines: MaasMachines
) -> None:
    wanted = slot()
    all_taken_for(region, wanted)
    await machines.release(wanted)
    assert taken(region) == []


async def test_what_was_taken_by_somebody_else_since_is_released(
    region: Region, machines: MaasMachines
) -> None:
    first = await machines.allocate(Search(slot=slot()))
    await machines.release(first.slot)
    region.site.maas.orders.hand_over(first.system_id, "somebody")
    assert await machines.released(first.slot)


async def test_a_release_that_got_stuck_is_asked_for_again_and_told(
    slow_region: Region, slow: MaasMachines, clock: HandClock
) -> None:
    slow_region.faults.add(Fault(where="release *", how=How.HANG))
    machine = await slow.allocate(Search(slot=slot()))
    await slow.deploy(machine)
    await slow.release(machine.slot)
    await clock.turn(300)
    assert state(slow_region, machine) is Status.FAILED_RELEASING
    with pytest.raises(Unavailable, match=rf"{machine.system_id} .* is Releasing failed") as told:
        await slow.released(machine.slot)
    assert told.value.reason == "MAAS_GAVE_UP"
    assert state(slow_region, machine) is Status.RELEASING
    assert not await slow.released(machine.slot)
    await clock.turn(5)
    assert await slow.released(machine.slot)


@pytest.mark.parametrize(
    "trouble",
    [
        Fault(where=RELEASE, how=How.REFUSE, status=403),
        Fault(where=RELEASE, how=How.REFUSE, status=409, message="it is locked"),
        Fault(where=RELEASE, how=How.REFUSE, status=503, retry_after=10, times=3),
        Fault(where="maas GET machines/", how=How.REFUSE, status=401),
        Fault(where=RELEASE, how=How.HALF),
    ],
    ids=lambda fault: f"{fault.how} {fault.status}",
)
async def test_nothing_that_stops_a_release_is_final(
    region: Region, machines: MaasMachines, trouble: Fault
) -> None:
    machine = await machines.allocate(Search(slot=slot()))
    region.faults.add(trouble)
    with pytest.raises(Unavailable):
        await machines.release(machine.slot)
    await machines.release(machine.slot)
    await eventually(lambda: taken(region) == [])


async def test_a_machine_that_is_gone_from_maas_is_given_back(
    region: Region, machines: MaasMachines
) -> None:
    machine = await machines.allocate(Search(slot=slot()))
    region.faults.add(Fault(where=RELEASE, how=How.REFUSE, status=404))
    await machines.release(machine.slot)


async def test_a_sweep_finds_known_slots_forgotten_ones_and_half_marked_machines(
    slow_region: Region, slow: MaasMachines, clock: HandClock
) -> None:
    known = await slow.allocate(Search(slot=slot("workers-aaaaa")))
    forgotten = await slow.allocate(Search(slot=slot("workers-bbbbb")))
    unmarked = await slow.allocate(Search(slot=slot("workers-ccccc")))
    foreign = await slow.allocate(Search(slot=slot(cluster="another-cluster")))
    slow_region.site.maas.machines.all[unmarked.system_id].annotations = {}
    await slow.deploy(forgotten)

    mark = ClusterMark(uid=CLUSTER, name="hello", endpoint="", slots=(known.slot, unmarked.slot))
    assert await slow.sweep(mark) == (forgotten.system_id,)
    assert await slow.sweep(mark) == (forgotten.system_id,)
    await clock.turn(5)
    assert await slow.sweep(mark) == ()
    assert taken(slow_region) == [foreign.system_id]


async def test_the_stock_counts_what_there_is_whoever_has_it(
    region: Region, machines: MaasMachines
) -> None:
    await machines.allocate(Search(slot=slot()))
    next(iter(region.site.maas.machines.all.values())).tags.append("x")
    stock = await machines.stock()
    assert (stock.machines, stock.tagged) == (6, {"metal": 6, "x": 1})


async def test_a_region_that_was_killed_knows_its_machines_again(tmp_path: Path) -> None:
    path, key, hosts = tmp_path / "site.jsonl", new_key(), Remembering()
    stock, pace = some(3), Pace(deploy=0.2, release=0.2)
    first = Region(stock, pace=pace, ledger=Ledger(path), hosts=hosts, api_key=key)
    async with first.serve(), client(first) as machines:
        machine = await machines.allocate(Search(slot=slot()))
        await machines.deploy(machine)
    port = int(first.url.split(":")[2].split("/")[0])

    async with client(first) as machines:
        with pytest.raises(Unavailable, match="MAAS did not answer GET machines/"):
            await machines.deployed(machine)
        second = Region(stock, pace=pace, ledger=Ledger(path), hosts=hosts, api_key=key)
        async with second.serve(port):
            assert await machines.allocate(Search(slot=machine.slot))
            assert (await installed(machines, machine)).address
            await machines.release(machine.slot)

            async def free() -> bool:
                return await machines.released(machine.slot)

            await eventually(free)
            assert taken(second) == []
