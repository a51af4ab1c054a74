"""One machine for one slot: from a name to a host that can become a node."""

from temporalio import workflow
from temporalio.exceptions import ActivityError

from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.machines import Machines
from domain.errors import Failure
from domain.frozen import Frozen
from domain.machine import Machine, Search, Slot
from domain.ports import Spoilt
from domain.quarantine import is_to_blame
from workflows.policies import BRIEF, PATIENT, QUEUEING, STUBBORN, WATCHING
from workflows.steps import do, undo


class Provision(Frozen):
    """A machine wanted for a slot, for the `turn`th time."""

    slot: Slot
    turn: int = 1
    avoid: tuple[str, ...] = ()


class Delivery(Frozen):
    """What came of it: a machine that is ready, or why this one was given back."""

    machine: Machine
    failure: Failure | None = None


@workflow.defn
class ProvisionMachine:
    """Takes a machine, installs it and makes sure that it can be worked on.

    A machine that lets us down is let go, and the caller decides whether to ask for another. The
    undo of what was taken is the caller's as well: it outlives this workflow."""

    @workflow.run
    async def run(self, wanted: Provision) -> Delivery:
        turn = wanted.turn
        search = Search(slot=wanted.slot, avoid=wanted.avoid)
        machine = await do(Machines.allocate, search, QUEUEING, turn=turn)
        try:
            machine = await do(Machines.deploy, machine, BRIEF, turn=turn)
            machine = await do(Machines.wait_deployed, machine, PATIENT, turn=turn)
            await do(Kubeadm.reach, machine, WATCHING, turn=turn)
            await do(Kubeadm.preflight, machine, BRIEF, turn=turn)
        except ActivityError as error:
            if pushed_aside(error):
                raise
            failure = understood(error)
            spoilt = Spoilt(machine=machine, why=failure.message)
            if is_to_blame(failure):
                await undo(Machines.discard, spoilt, STUBBORN, turn=turn + 1)
            else:
                await undo(Machines.release, wanted.slot, STUBBORN, turn=turn + 1)
            return Delivery(machine=machine, failure=failure)
        return Delivery(machine=machine)
