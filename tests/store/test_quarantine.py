"""Machines that failed are counted, shunned, forgotten and let go."""

from datetime import timedelta

import pytest

from domain.errors import NotFound
from domain.machine import Machine
from domain.operation import OperationId
from domain.quarantine import MachineFailure, Terms
from store.quarantine import Quarantine
from store.rows import MachineFailureRow, now
from tests.store.desk import Desk

TERMS = Terms(failures=2, seconds=3600)


async def failure(
    desk: Desk, system_id: str = "m1", operation: str = "op-1", turn: int = 1
) -> MachineFailure:
    slot = (await desk.clusters.nodes("hello")).slots[0].slot
    return MachineFailure(
        operation=OperationId(operation),
        machine=Machine(slot=slot, system_id=system_id, hostname="fox"),
        turn=turn,
        why=f"broke in {operation}",
    )


@pytest.fixture
async def quarantine(desk: Desk) -> Quarantine:
    await desk.create()
    return Quarantine(desk.database, TERMS)


async def test_a_machine_that_fails_twice_is_not_taken(desk: Desk, quarantine: Quarantine) -> None:
    once = await failure(desk)
    for _ in range(3):
        await quarantine.count(once)
    assert await quarantine.shunned() == ()
    assert await quarantine.all() == []
    await quarantine.count(await failure(desk, operation="op-2"))
    await quarantine.count(await failure(desk, "m2"))
    assert await quarantine.shunned() == ("m1",)
    [machine] = await quarantine.all()
    assert (machine.system_id, machine.hostname, machine.failures) == ("m1", "fox", 2)
    assert (machine.why, machine.cluster) == ("broke in op-2", "hello")
    assert timedelta() < machine.until - now() <= TERMS.span


async def test_two_machines_of_one_slot_are_two(desk: Desk, quarantine: Quarantine) -> None:
    await quarantine.count(await failure(desk, turn=1))
    await quarantine.count(await failure(desk, turn=2))
    assert await quarantine.shunned() == ("m1",)


async def test_a_failure_is_forgotten_in_time(desk: Desk, quarantine: Quarantine) -> None:
    await quarantine.count(await failure(desk))
    await quarantine.count(await failure(desk, operation="op-2"))
    past = now() - timedelta(hours=2)
    await desk.change(MachineFailureRow, {"time": past}, operation="op-1")
    assert await quarantine.shunned() == ()
    assert await quarantine.all() == []
    await quarantine.count(await failure(desk, "m2"))
    assert len(await desk.all(MachineFailureRow)) == 2


async def test_a_machine_is_let_go(desk: Desk, quarantine: Quarantine) -> None:
    await quarantine.count(await failure(desk))
    await quarantine.count(await failure(desk, operation="op-2"))
    await quarantine.lift("m1")
    assert await quarantine.shunned() == ()
    with pytest.raises(NotFound):
        await quarantine.lift("m1")
