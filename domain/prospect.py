"""What an operation would do to machines, before it does anything."""

from collections.abc import Sequence
from enum import StrEnum

from domain.cluster import ClusterPlan
from domain.frozen import Frozen
from domain.machine import SlotState
from domain.outline import Leg, keys


class Fate(StrEnum):
    """What becomes of a machine.

    TAKEN     it is found, installed and made a node
    RETURNED  it is given back
    KEPT      it stays, and is worked on
    """

    TAKEN = "taken"
    RETURNED = "returned"
    KEPT = "kept"


class Prospect(Frozen):
    """A machine that would be touched."""

    node: str
    pool: str
    fate: Fate
    instance_type: str = ""
    system_id: str = ""
    """Empty: there is none yet."""
    hostname: str = ""


class Gate(Frozen):
    """What an operation would wait for somebody to approve."""

    name: str
    before: str
    """The first node that is not touched before that."""


DECISIVE: dict[str, Fate] = {
    "machines.allocate": Fate.TAKEN,
    "machines.release": Fate.RETURNED,
}
"""Steps that say what becomes of a machine. Of two that do, the first in this order says it."""


def gates(plan: ClusterPlan) -> tuple[Gate, ...]:
    """Where an operation of that plan would wait, in its order."""
    pools = plan.upgrade.pools if plan.upgrade and plan.approve_each else ()
    return tuple(Gate(name=pool.gate, before=pool.machines[0].named) for pool in pools)


def touched(
    plan: ClusterPlan, legs: Sequence[Leg], there: Sequence[SlotState]
) -> tuple[Prospect, ...]:
    """The machines that the steps of an outline are about, in its order. `there`: the slots the
    cluster has now; others are only planned."""
    verbs: dict[str, set[str]] = {}
    for key in keys(legs):
        verbs.setdefault(key.subject, set()).add(key.verb)
    filled = {state.slot.name: state for state in there}
    slots = {slot.name: slot for slot in plan.slots} | {
        state.slot.name: state.slot for state in there
    }
    found = []
    for name, done in verbs.items():
        if (slot := slots.get(name)) is None:
            continue  # an endpoint, or the cluster itself
        state = filled.get(name)
        found.append(
            Prospect(
                node=name,
                pool=slot.pool,
                fate=next((fate for verb, fate in DECISIVE.items() if verb in done), Fate.KEPT),
                instance_type=slot.instance_type,
                system_id=state.system_id if state else "",
                hostname=state.hostname if state else "",
            )
        )
    return tuple(found)
