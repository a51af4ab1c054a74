"""What is called off in a bad moment: while a hand fails, or after a machine was given back."""

from functools import partial

from temporalio.testing import WorkflowEnvironment

from domain.cluster import Phase
from domain.errors import DomainError, Failed, Unavailable
from domain.machine import SlotPhase
from domain.operation import Stage, StepKey
from store.engine import Database
from store.secrets import Secrets
from tests.workflows.conftest import Opening
from tests.workflows.yard import Trouble, Yard, yard

JOIN, JOIN_AGAIN = 17, 23
"""Which steps these are, counted from 0: of the second machine's there are five in between."""


async def test_a_hand_that_fails_while_called_off_is_no_reason_for_another_machine(
    opened: Opening,
) -> None:
    def fail(key: StepKey) -> Failed | None:
        return Failed("its worker died") if key.verb == "kubeadm.join" else None

    async with opened(trouble=Trouble(fail=fail)) as place:
        await called_off(place, JOIN, "kubeadm.join")
        assert len(place.world.taken) == 2


async def test_a_slot_that_was_given_back_before_is_known_to_be_empty(opened: Opening) -> None:
    stumbles = [Unavailable("the region was busy")]

    def fail(key: StepKey) -> DomainError | None:
        if key.verb == "kubeadm.join" and key.turn == 1:
            return Failed("it does not become a node")
        return stumbles.pop() if key.verb == "machines.release" and stumbles else None

    async with opened(trouble=Trouble(fail=fail)) as place:
        await called_off(place, JOIN_AGAIN, "kubeadm.join")
        assert not stumbles
        slots = (await place.clusters.nodes("blue")).slots
        assert {(slot.phase, slot.system_id) for slot in slots} == {(SlotPhase.RELEASED, "")}


async def test_what_was_called_off_before_any_worker_saw_it_ends_cancelled(
    opened: Opening,
    temporal: WorkflowEnvironment,
    database: Database,
    vault: Secrets,
    queues: str,
) -> None:
    """The first task brings the start and the cancel at once."""
    async with opened() as place:
        asked = await place.ask()
        place.prefix = f"{queues}late-"
        await place.start(asked)
        await place.cancel(asked.id)
    async with yard(temporal.client, database, vault, f"{queues}late-") as later:
        await later.finish(asked.id)
        operation = await later.operations.get(asked.id)
        assert operation.stage is Stage.CANCELLED
        assert operation.failure
        assert operation.failure.message == "cancelled by ann"
        assert (await later.clusters.get("blue")).phase is Phase.ERROR
        assert later.world.taken == []


async def test_what_a_delete_pushed_aside_undoes_what_it_did_before_any_cancel_comes(
    opened: Opening,
) -> None:
    async with opened(trouble=Trouble(at=16)) as place:
        asked = await place.ask()

        async def accept() -> None:
            await place.ask_delete()  # whose workflow does not start

        place.trouble.then = accept
        await place.carry_out(asked)
        assert (await place.operations.get(asked.id)).stage is Stage.SUPERSEDED
        assert place.world.leftovers == []


async def called_off(place: Yard, at: int, verb: str) -> None:
    """Create `blue`, and call that off once this step's work is done."""
    asked = await place.ask()
    place.trouble.at, place.trouble.then = at, partial(place.cancel, asked.id)
    await place.carry_out(asked)
    assert place.trouble.fired
    assert StepKey.parse(place.trouble.seen[at]).verb == verb
    assert (await place.operations.get(asked.id)).stage is Stage.CANCELLED
    assert place.world.leftovers == []
