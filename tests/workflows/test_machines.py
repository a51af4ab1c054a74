"""Machines that let us down are given back and not asked for again."""

from domain.cluster import Phase
from domain.errors import Failed, Overdue, Unavailable
from domain.machine import SlotPhase
from domain.operation import Stage, StepKey, StepState
from domain.quarantine import FailedMachine
from sim.world import MemoryWorld
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble


async def test_a_machine_that_does_not_deploy_is_replaced_by_another(opened: Opening) -> None:
    async with opened(world=MemoryWorld.of(8, sour=2)) as place:
        operation = await place.create()
        assert operation.stage is Stage.SUCCEEDED
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING
        good = {metal.system_id for metal in place.world.machines if metal.owner}
        assert good.isdisjoint({"m000", "m001"})
        tried = place.world.taken
        assert len(tried) == len(set(tried)), "a slot was given the machine that let it down"


async def test_a_control_plane_gives_up_after_three_machines_and_undoes_everything(
    opened: Opening,
) -> None:
    async with opened(world=MemoryWorld.of(12, sour=12)) as place:
        operation = await place.create(workers=0)
        assert operation.stage is Stage.FAILED
        assert place.world.leftovers == []
        assert len(place.world.taken) == 3
        assert operation.failure is not None
        assert "3 machines tried" in operation.failure.message
        assert "Failed deployment" in operation.failure.message
        (slot,) = (await place.clusters.nodes("blue")).slots
        assert (slot.phase, slot.system_id) == (SlotPhase.RELEASED, "")


async def test_a_host_that_does_not_become_a_node_is_replaced_too(opened: Opening) -> None:
    def fail(key: StepKey) -> Failed | None:
        return Failed("preflight") if key.verb == "kubeadm.join" and key.turn == 1 else None

    async with opened(trouble=Trouble(fail=fail)) as place:
        operation = await place.create()
        assert operation.stage is Stage.SUCCEEDED
        steps = {str(step.key): step for step in await place.operations.steps(operation.id)}
        worker = (await place.operations.plan(operation.id)).workers[0].name
        assert steps[f"kubeadm.join {worker}"].state is StepState.STUMBLED
        assert steps[f"undo machines.release {worker} #2"].state is StepState.DONE
        assert steps[f"kubeadm.join {worker} #2"].state is StepState.DONE
        assert len(place.world.owners) == 2


async def test_an_attempt_that_may_pass_is_tried_again_on_the_same_machine(
    opened: Opening,
) -> None:
    stumbles = iter(["kubeadm.preflight"])
    waiting = next(stumbles)

    def fail(key: StepKey) -> Unavailable | None:
        nonlocal waiting
        if key.verb != waiting:
            return None
        waiting = next(stumbles, "")
        return Unavailable("the host was busy")

    async with opened(trouble=Trouble(fail=fail)) as place:
        operation = await place.create(workers=0)
        assert operation.stage is Stage.SUCCEEDED
        assert len(place.world.taken) == 1
        steps = {step.key.verb: step for step in await place.operations.steps(operation.id)}
        assert steps["kubeadm.preflight"].attempts == 2


async def test_no_free_machine_is_waited_for(opened: Opening) -> None:
    world = MemoryWorld.of(2)
    world.machines[1].owner = "somebody-else"
    async with opened(world=world) as place:
        asked = await place.ask()
        await place.start(asked)
        async for event in place.journal.follow(asked.id):
            if "no machine is free" in event.note:
                world.machines[1].owner = ""
                break
        await place.finish(asked.id)
        assert (await place.clusters.get("blue")).phase is Phase.RUNNING


async def test_a_machine_that_failed_twice_is_not_taken_again(opened: Opening) -> None:
    async with opened(world=MemoryWorld.of(8, sour=1)) as place:
        for _ in range(3):
            assert (await place.create()).stage is Stage.SUCCEEDED
            await place.delete()
        tried = [system_id for _, system_id in place.world.taken]
        assert tried.count("m000") == 2
        [machine] = await place.quarantine.all()
        assert (machine.system_id, machine.cluster) == ("m000", "blue")
        assert "Failed deployment" in machine.why
        await place.quarantine.lift("m000")
        await place.create()
        tried = [system_id for _, system_id in place.world.taken]
        assert tried.count("m000") == 3


async def test_a_machine_that_a_cluster_could_not_make_a_node_is_not_counted(
    opened: Opening,
) -> None:
    def fail(key: StepKey) -> Overdue | None:
        joins = key.verb == "kubernetes.wait_node" and not key.subject.startswith("control-plane")
        return Overdue("it was to be Ready") if joins and key.turn == 1 else None

    async with opened(world=MemoryWorld.of(8), trouble=Trouble(fail=fail)) as place:
        for _ in range(2):
            assert (await place.create(workers=1)).stage is Stage.SUCCEEDED
            await place.delete()
        tried = [system_id for _, system_id in place.world.taken]
        assert tried == ["m000", "m001", "m002"] * 2
        assert await place.quarantine.all() == []


async def test_a_machine_that_did_not_deploy_is_marked_as_broken_if_wanted(
    opened: Opening,
) -> None:
    world = MemoryWorld.of(8, sour=1)
    async with opened(world=world, failed_machine=FailedMachine.MARK_BROKEN) as place:
        assert (await place.create()).stage is Stage.SUCCEEDED
        assert "Failed deployment" in world.machines[0].broken
        assert not world.machines[0].owner
        await place.delete()
        assert world.leftovers == []
