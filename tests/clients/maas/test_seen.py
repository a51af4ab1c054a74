"""What MAAS says of machines: whose they are, and one list for all who ask."""

import asyncio
from contextlib import suppress

import pytest

from clients.maas import MaasMachines
from domain.errors import Unavailable
from domain.machine import Machine, Search
from sim.faults import Fault, How
from tests.clients.maas.pool import client, installed, slot
from tests.sim.region import Region, eventually

LIST = "maas GET machines/"


async def _deployed(machines: MaasMachines) -> Machine:
    return await installed(machines, await machines.allocate(Search(slot=slot())))


async def test_a_machine_of_ours_is_seen_as_maas_shows_it(region: Region) -> None:
    async with region.serve(), client(region, fresh_seconds=0) as machines:
        machine = await _deployed(machines)
        [seen] = await machines.seen([machine])
        assert (seen.slot, seen.system_id) == (machine.slot.name, machine.system_id)
        assert (seen.status, seen.power, seen.ours) == ("Deployed", "on", True)
        assert (seen.address, seen.hostname) == (machine.address, machine.hostname)
        kept = region.site.maas.machines.all[machine.system_id]
        kept.powered = False

        async def off() -> bool:
            return [each.power for each in await machines.seen([machine])] == ["off"]

        await eventually(off)


async def test_one_that_was_taken_from_us_is_not_ours_and_one_that_is_gone_is_not_there(
    region: Region,
) -> None:
    async with region.serve(), client(region, fresh_seconds=0) as machines:
        machine = await _deployed(machines)
        kept = region.site.maas.machines.all[machine.system_id]
        kept.annotations = {}

        async def taken() -> bool:
            return [each.ours for each in await machines.seen([machine])] == [False]

        async def gone() -> bool:
            return await machines.seen([machine]) == ()

        await eventually(taken)
        del region.site.maas.machines.all[machine.system_id]
        await eventually(gone)


async def test_everybody_who_looks_at_the_same_time_shares_one_list(region: Region) -> None:
    async with region.serve(), client(region, fresh_seconds=60) as machines:
        machine = await _deployed(machines)
        region.site.faults.add(Fault(where=LIST, how=How.SLOW, seconds=0, times=100))
        answers = await asyncio.gather(*(machines.seen([machine]) for _ in range(20)))
        assert len(set(answers)) == 1
        [(_, calls)] = region.site.faults.met()
        assert len(calls) == 1


async def test_a_list_that_failed_is_asked_for_again_later(region: Region) -> None:
    async with region.serve(), client(region, fresh_seconds=0.1) as machines:
        machine = await _deployed(machines)
        region.site.faults.add(Fault(where=LIST, how=How.REFUSE, status=500, times=1))
        outcomes = await asyncio.gather(
            *(machines.seen([machine]) for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(each, Unavailable) for each in outcomes)

        async def told() -> bool:
            with suppress(Unavailable):
                return len(await machines.seen([machine])) == 1
            return False

        await eventually(told)


async def test_a_maas_that_hangs_keeps_nobody_waiting_in_turn(region: Region) -> None:
    async with region.serve(), client(region, fresh_seconds=60) as machines:
        machine = await _deployed(machines)
        region.site.faults.add(Fault(where=LIST, how=How.HANG, times=100))
        outcomes = await asyncio.gather(
            *(machines.seen([machine]) for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(each, Unavailable) for each in outcomes)
        with pytest.raises(Unavailable):
            await machines.seen([machine])
        [(_, calls)] = region.site.faults.met()
        assert len(calls) == 1


async def test_whoever_does_not_wait_for_the_list_leaves_it_to_others(region: Region) -> None:
    async with region.serve(), client(region, fresh_seconds=60) as machines:
        machine = await _deployed(machines)
        region.site.faults.add(Fault(where=LIST, how=How.SLOW, seconds=0.5, times=100))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(machines.seen([machine]), 0.1)
        assert len(await machines.seen([machine])) == 1
        [(_, calls)] = region.site.faults.met()
        assert len(calls) == 1
