"""Why a cluster is as it is, for whoever is woken by it: causes, one below the other, and what to
do now. Made of what the rows say and of nothing else."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from domain.cluster import Cluster, Phase
from domain.counting import several
from domain.frozen import Frozen
from domain.health import JUDGED
from domain.machine import Role, SlotPhase, SlotState
from domain.operation import Operation, Stage, Step, StepState
from domain.quarantine import Quarantined
from domain.repairs import Choice, Patient, Policy, Prudence, Remedy, choose
from domain.seen import Inside, MachineSeen

PHASES: dict[Phase, str] = {
    Phase.PROVISIONING: "is being created",
    Phase.RUNNING: "runs: its API answers and every node wanted is Ready",
    Phase.RECONCILING: "is being changed; its API stays usable",
    Phase.STOPPING: "is being deleted",
    Phase.ERROR: "cannot be used: its control plane does not work",
    Phase.DEGRADED: "can be used, and is short of what was asked for",
    Phase.GONE: "is gone",
}

SLOTS: dict[SlotPhase, str] = {
    SlotPhase.PLANNED: "has no machine yet",
    SlotPhase.ALLOCATED: "has a machine on which nothing is installed",
    SlotPhase.DEPLOYING: "has a machine that installs itself",
    SlotPhase.DEPLOYED: "has a machine that is no node yet",
    SlotPhase.JOINED: "is not Ready",
    SlotPhase.HEALTHY: "is Ready",
    SlotPhase.LOST: "is lost: nobody hears of it",
    SlotPhase.DRAINING: "is Ready and takes no pods",
    SlotPhase.FAILED: "has a machine that failed",
    SlotPhase.RELEASING: "has a machine that is being given back",
    SlotPhase.RELEASED: "has no machine any more",
}

WORDS: dict[Remedy, str] = {
    Remedy.READMIT: "let pods onto it again",
    Remedy.REVIVE: "restart its machine, else replace it",
    Remedy.FILL: "find a machine for it",
}
"""What each remedy is called where it is proposed."""

UNSURE = frozenset({Phase.RUNNING, Phase.DEGRADED})
"""Phases that say nothing of an API that has been silent since."""

LOOK = (
    "look whether its control planes run and its endpoint leads to them; if the silence lasts, the "
    "cluster is called ERROR, and a repair is proposed for nodes that can be mended"
)

OLD = timedelta(minutes=10)
"""A monitor writes at least every five minutes that all is as it was. What is older than this
nobody looks after."""

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

MOST_NODES = 20
"""So many nodes that do not work are told of one by one."""

MOST_STUMBLES = 5
MOST_QUARANTINED = 5


class Cause(Frozen):
    """One reason, and how deep it lies: what follows one level deeper is its cause."""

    about: str
    says: str
    since: datetime | None = None
    depth: int = 0


class Advice(Frozen):
    """What to do now."""

    command: str
    """What to type. Empty: nothing, but to wait or to look."""
    because: str


class Facts(Frozen):
    """What the rows say."""

    cluster: Cluster
    policy: Policy
    wanted: Mapping[str, int]
    """How many nodes are wanted, by pool, the control plane among them."""
    patients: tuple[Patient, ...]
    confirmed: datetime | None = None
    """When it was last looked, and found to be so."""
    trouble: str = ""
    """What the last look found that is not as it should be."""
    silence: str = ""
    """How long its API has given no answer, and why. Empty: it did when it was last asked."""
    inside: Inside | None = None
    """What its control planes' hosts said when they were last asked."""
    operation: Operation
    """The one that runs, or the last one that did."""
    stumbles: tuple[Step, ...] = ()
    """Its steps that failed when they were last tried, the latest first."""
    quarantined: tuple[Quarantined, ...] = ()


class Reading(Frozen):
    """The whole answer."""

    causes: tuple[Cause, ...]
    advice: tuple[Advice, ...]


def explain(facts: Facts, prudence: Prudence, now: datetime) -> Reading:
    """Read the facts."""
    cluster = facts.cluster
    says = f"{PHASES[cluster.phase]}{_as_of(facts, now)}"
    if facts.silence and cluster.phase in UNSURE:
        says = f"may not be usable: {facts.silence}"
    top = Cause(about=f"cluster/{cluster.name}", says=f"{cluster.name} {says}")
    choice = Choice()
    if not _is_busy(facts):
        silent = facts.inside.silent if facts.inside else ()
        choice = choose(facts.patients, prudence, now, wanted=facts.wanted, silent=silent)
    seen = (*_age(facts, now), *_trouble(facts), *_upgrade(facts), *_pools(facts), *_inside(facts))
    return Reading(
        causes=(top, *seen, *_operation(facts), *_quarantine(facts)),
        advice=tuple(_advice(facts, choice)),
    )


def _is_busy(facts: Facts) -> bool:
    return facts.operation.ended is None


def _known(facts: Facts) -> datetime | None:
    """As of when all of this is known. None: an operation has the say, or there is nothing to look
    at, since it never came up."""
    ended, phase = facts.operation.ended, facts.cluster.phase
    never_up = facts.confirmed is None and phase is Phase.ERROR
    if ended is None or phase not in JUDGED or never_up:
        return None
    return max(ended, facts.confirmed or ended)


def _as_of(facts: Facts, now: datetime) -> str:
    known = _known(facts)
    return f" (as of {lasting(now - known)} ago)" if known else ""


def _age(facts: Facts, now: datetime) -> Iterator[Cause]:
    """That all of this may be out of date."""
    known = _known(facts)
    if known is not None and now - known > OLD:
        says = (
            f"nobody has looked at it for {lasting(now - known)}, so it may be otherwise by now: "
            "does a worker serve the queue watching? Workers start a monitor that is missing"
        )
        yield Cause(about=f"cluster/{facts.cluster.name}", says=says, since=known, depth=1)


def lasting(span: timedelta) -> str:
    """A time in its greatest unit."""
    seconds = max(int(span.total_seconds()), 0)
    unit, size = next((each for each in UNITS if seconds >= each[1]), UNITS[-1])
    return f"{seconds // size} {unit}"


def _trouble(facts: Facts) -> Iterator[Cause]:
    """What the last look found, in its own words."""
    if facts.trouble and facts.trouble != facts.silence:
        about = f"cluster/{facts.cluster.name}"
        yield Cause(about=about, says=f"when last looked at: {facts.trouble}", depth=1)


def _upgrade(facts: Facts) -> Iterator[Cause]:
    cluster = facts.cluster
    if cluster.pending and not _is_busy(facts):
        says = f"its upgrade from {cluster.version} to {cluster.pending} is not finished"
        yield Cause(about=f"cluster/{cluster.name}", says=says, depth=1)


def _inside(facts: Facts) -> Iterator[Cause]:
    """Members that do not answer, whatever their nodes say; machines that nodes run on and that
    are not ours any more."""
    for name in facts.inside.silent[:MOST_NODES] if facts.inside else ():
        says = f"etcd member {name} did not answer when it was last asked"
        yield Cause(about=f"node/{name}", says=says, depth=1)
    taken = (each for each in facts.patients if not each.remedy and _is_taken(each))
    for each in islice(taken, MOST_NODES):
        yield _metal(each.state, depth=1)


def _is_taken(patient: Patient) -> bool:
    seen = patient.state.machine
    return seen is not None and seen.system_id == patient.state.system_id and not seen.ours


def _pools(facts: Facts) -> Iterator[Cause]:
    """What each pool lacks, and below it the nodes that do not work."""
    told = 0
    for pool, wanted in facts.wanted.items():
        held = [each for each in facts.patients if each.state.slot.pool == pool]
        ready = sum(each.state.phase is SlotPhase.HEALTHY for each in held)
        if ready == len(held) == wanted:
            continue
        says = f"{ready} of {wanted} nodes of {pool} are Ready"
        if len(held) != wanted:
            says += f", and it has {several(len(held), 'place')}"
        yield Cause(about=f"pool/{pool}", says=says, depth=1)
        for each in held:
            if each.remedy and told < MOST_NODES:
                told += 1
                yield from _node(each)


def _node(patient: Patient) -> Iterator[Cause]:
    state, name = patient.state, patient.name
    because = f": {state.node.reason}" if state.node and state.node.reason else ""
    says = f"{name} {SLOTS[state.phase]}{because}"
    if patient.mends:
        row = f"{patient.mends} times in a row" if patient.mends > 1 else "once"
        says += f"; it was to be mended {row}"
    yield Cause(about=f"node/{name}", says=says, since=patient.since, depth=2)
    if state.system_id:
        yield _metal(state, depth=3)


def _metal(state: SlotState, *, depth: int) -> Cause:
    host = f" ({state.hostname})" if state.hostname else ""
    says = f"{state.system_id}{host} {_in_maas(state.status, state.machine)}"
    return Cause(about=f"machine/{state.system_id}", says=says, depth=depth)


def _in_maas(status: str, seen: MachineSeen | None) -> str:
    if seen is not None and not seen.status:
        return "is gone from MAAS"
    if seen is not None and not seen.ours:
        return f"was taken from us in MAAS, where it is {seen.status}"
    power = f", its power {seen.power}" if seen and seen.power else ""
    return f"is {status or 'not heard of'} in MAAS{power}"


def _operation(facts: Facts) -> Iterator[Cause]:
    """How the last operation went, if not well, and which steps did not."""
    operation = facts.operation
    about, what = f"operation/{operation.id}", f"{operation.kind} (op {operation.id})"
    if operation.ended is None:
        waits = f" and waits: {operation.waiting_on}" if operation.waiting_on else ""
        how = "undoing" if operation.cancel_requested else "running"
        stage = "accepted, and not begun" if operation.stage is Stage.REQUESTED else how
        says = f"{what} is {stage}{_held(operation)}{waits}"
        yield Cause(about=about, says=says, since=operation.created, depth=1)
    elif operation.failure is not None:
        says = f"{what} ended {operation.stage}: {operation.failure.message}"
        yield Cause(about=about, says=says, since=operation.ended, depth=1)
    elif facts.cluster.phase is Phase.DEGRADED:
        says = f"{what} said last: {facts.cluster.message}"
        yield Cause(about=about, says=says, since=operation.ended, depth=1)
    else:
        return
    for step in facts.stumbles[:MOST_STUMBLES]:
        tried = f" (tried {step.attempts} times)" if step.attempts > 1 else ""
        state = "is tried again" if step.state is StepState.ACTIVE else "failed"
        says = f"{step.key} {state}{tried}: {step.note or 'no reason given'}"
        yield Cause(about=about, says=says, since=step.ended or step.started, depth=2)


def _held(operation: Operation) -> str:
    """What people hold it up by. The time that it may wait at a gate stands still while it is
    paused."""
    gate, until = operation.gate, operation.gate_until
    if operation.paused_by:
        before = f", before {gate}, which is to be approved as well" if gate else ""
        return f", paused by {operation.paused_by}{before}"
    if gate and until:
        return f" and waits until {until:%Y-%m-%d %H:%M} UTC for {gate} to be approved"
    return ""


def _quarantine(facts: Facts) -> Iterator[Cause]:
    """Machines that are not taken matter where one is looked for."""
    if facts.cluster.phase is Phase.RUNNING:
        return
    for each in facts.quarantined[:MOST_QUARANTINED]:
        says = (
            f"{each.system_id} ({each.hostname or 'no name'}) is not taken until "
            f"{each.until:%Y-%m-%d %H:%M} UTC: it failed {several(each.failures, 'time')}, "
            f"last with {each.why}"
        )
        yield Cause(about=f"machine/{each.system_id}", says=says, since=each.last, depth=1)


def _advice(facts: Facts, choice: Choice) -> Iterator[Advice]:
    name, operation = facts.cluster.name, facts.operation
    if _is_busy(facts):
        yield _of_what_runs(operation)
    elif choice.mending:
        nodes = "; ".join(f"{each.named}: {WORDS[each.remedy]}" for each in choice.mending)
        automatic = facts.policy is Policy.AUTOMATIC and operation.stage is not Stage.CANCELLED
        by_itself = ", which also happens by itself soon" if automatic else ""
        command = f"windlass cluster repair {name}"
        yield Advice(command=command, because=f"{nodes}{by_itself}")
    for text in choice.left_alone:
        yield Advice(command="", because=text)
    if facts.silence and not _is_busy(facts) and not choice.mending:
        yield Advice(command="", because=LOOK)
    if not _is_busy(facts):
        yield from _of_upgrade(facts)
        yield from _of_sizes(facts)
        yield from _of_the_hopeless(facts)
        yield from _of_quarantine(facts)


def _of_what_runs(operation: Operation) -> Advice:
    """What lets an operation go on, or shows it going."""
    verb, because = "watch", "it has not ended"
    if operation.paused_by:
        verb, because = "resume", f"{operation.paused_by} has paused it: it takes no step"
    elif operation.gate:
        verb, because = "approve", f"it does not touch {operation.gate} before somebody approves"
    elif operation.waiting_on:
        because = f"it waits for something that may need your help: {operation.waiting_on}"
    return Advice(command=f"windlass op {verb} {operation.id}", because=because)


def _of_upgrade(facts: Facts) -> Iterator[Advice]:
    cluster = facts.cluster
    if cluster.pending:
        command = f"windlass cluster upgrade {cluster.name} {cluster.pending}"
        yield Advice(command=command, because="it goes on where the last upgrade stopped")


def _of_sizes(facts: Facts) -> Iterator[Advice]:
    """A pool that has other than as many places as are wanted: only a scale changes that."""
    for pool, wanted in facts.wanted.items():
        held = [each for each in facts.patients if each.state.slot.pool == pool]
        if held and held[0].state.slot.role is Role.CONTROL_PLANE:
            continue
        if len(held) != wanted:
            scale = f"windlass pool scale {facts.cluster.name} {pool}={wanted}"
            command = scale if wanted else f"windlass pool delete {facts.cluster.name} {pool}"
            places, are = several(len(held), "place"), several(wanted, "is", "are")
            because = f"{pool} has {places}, and {are} wanted"
            yield Advice(command=command, because=because)


def _of_the_hopeless(facts: Facts) -> Iterator[Advice]:
    """A cluster that never came up holds nothing that could be kept."""
    nodes = [each for each in facts.patients if each.remedy is not Remedy.FILL]
    if facts.cluster.phase is Phase.ERROR and not nodes:
        yield Advice(
            command=f"windlass cluster delete {facts.cluster.name}",
            because="it never came up; create it again once the cause above is gone",
        )


def _of_quarantine(facts: Facts) -> Iterator[Advice]:
    filling = any(each.remedy is Remedy.FILL for each in facts.patients)
    if filling and facts.quarantined:
        machine = facts.quarantined[0].system_id
        yield Advice(
            command=f"windlass machine lift {machine}",
            because="once it is mended: until then nobody is given it",
        )
