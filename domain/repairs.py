"""Repairs: which nodes that do not work may be mended now, by what, and why not the others."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from domain.counting import several
from domain.errors import Failure
from domain.frozen import Frozen
from domain.machine import Machine, Role, SlotPhase, SlotState
from domain.releases import Release


class Policy(StrEnum):
    """What is done about nodes that do not work while nobody asks.

    OFF        nothing
    PROPOSE    the cluster says what a repair would do
    AUTOMATIC  it is repaired
    """

    OFF = "off"
    PROPOSE = "propose"
    AUTOMATIC = "automatic"


class Remedy(StrEnum):
    """What is done about one node.

    READMIT  it is Ready and takes no pods, since a change that emptied it was called off: let it
    REVIVE   it is there and not Ready: power-cycle its machine, or else replace it
    FILL     there is no node: find a machine for its place
    """

    READMIT = "readmit"
    REVIVE = "revive"
    FILL = "fill"


REMEDIES: dict[SlotPhase, Remedy | None] = {
    SlotPhase.PLANNED: Remedy.FILL,
    SlotPhase.ALLOCATED: Remedy.FILL,
    SlotPhase.DEPLOYING: Remedy.FILL,
    SlotPhase.DEPLOYED: Remedy.FILL,
    SlotPhase.JOINED: Remedy.REVIVE,
    SlotPhase.HEALTHY: None,
    SlotPhase.LOST: Remedy.REVIVE,
    SlotPhase.DRAINING: Remedy.READMIT,
    SlotPhase.FAILED: Remedy.FILL,
    SlotPhase.RELEASING: Remedy.FILL,
    SlotPhase.RELEASED: Remedy.FILL,
}
"""What helps a slot that nothing is being done to. None: it needs no help."""

ANSWERING = frozenset({SlotPhase.HEALTHY, SlotPhase.DRAINING})
"""The phases of a node that is Ready."""


BEYOND_REVIVING = frozenset({"NODE_NOT_READY", "MACHINE_LOST", "POWER_UNKNOWN", "POWER_UNCHANGED"})
"""The reasons that say of a machine itself that its node will not come back on it. All others are
about those who were asked: a region that is away, a key it does not know, an API that is silent. A
replacement takes a node's data for good, so what is not known here never leads to one."""


def is_beyond_reviving(trouble: Failure) -> bool:
    """Whether another machine has to take the place of one that was to be brought back."""
    return trouble.reason in BEYOND_REVIVING


class Prudence(Frozen):
    """How far repairs may go."""

    most_unhealthy: float = 0.4
    """Beyond this share of a cluster's nodes nobody is power-cycled: when that many fail together,
    something else is broken. One node may always be."""
    patience_seconds: float = 300.0
    """How long a node may be not Ready before anything is done about it, and how long a place may
    have none before it gets one by itself."""
    again_seconds: float = 3600.0
    """How long a node that was mended is left alone by automatic repairs; twice as long after each
    further one."""
    most_again_seconds: float = 86400.0
    """At most so long. A node that has worked longer than that begins anew."""
    ready_seconds: float = 600.0
    """How long a power-cycled machine may take to be a Ready node again."""


class Patient(Frozen):
    """A slot, and what is known of its troubles."""

    state: SlotState
    since: datetime
    """When it came to be as it is."""
    mends: int = 0
    """How often in a row it was to be mended."""
    mended: datetime | None = None
    """When that was last accepted."""

    @property
    def name(self) -> str:
        return self.state.slot.name

    @property
    def remedy(self) -> Remedy | None:
        return REMEDIES[self.state.phase]


class Mending(Frozen):
    """A node that is to be mended."""

    machine: Machine
    """What fills its slot. Without a system id: nothing that we know of."""
    remedy: Remedy
    replaceable: bool = True
    """Whether another machine may take its place, if power-cycling this one does not help."""

    @property
    def named(self) -> str:
        return self.machine.named

    def joining(self, release: Release) -> "Mending":
        """The same, so that another machine joins with this release."""
        slot = self.machine.slot.model_copy(update={"release": release})
        return self.model_copy(update={"machine": self.machine.model_copy(update={"slot": slot})})


class Repair(Frozen):
    """What a repair does to a cluster, in this order: control planes one by one, then the rest."""

    through: tuple[Machine, ...] = ()
    """The control planes that work."""
    mending: tuple[Mending, ...] = ()
    ready_seconds: float = 600.0


class Choice(Frozen):
    """What may be mended now, and why not the rest."""

    mending: tuple[Mending, ...] = ()
    left_alone: tuple[str, ...] = ()
    """A sentence for each that needs help and gets none."""


def choose(
    patients: Sequence[Patient],
    prudence: Prudence,
    now: datetime,
    *,
    wanted: Mapping[str, int],
    silent: Collection[str] = (),
    named: Collection[str] = (),
    unasked: bool = False,
) -> Choice:
    """What may be mended now, if so many nodes are `wanted` of each pool of workers. Only those
    `named`, which then need not have been ill for long, nor be thought ill at all: somebody may
    know better; or all that are ill, if nobody is named. `unasked`: nobody asks for it, so what was
    mended of late is left, and what lost its machine just now. `silent`: the members of its etcd
    that did not answer when they were last asked."""
    patients = [_doubted(each) if each.name in named else each for each in patients]
    ill = [each for each in patients if each.remedy and (not named or each.name in named)]
    left: list[str] = []
    masters = [each for each in patients if _leads(each)]
    heard = any(each.state.phase in ANSWERING for each in masters)
    crowded = _crowded(patients if heard else masters, prudence)
    held = Counter(each.state.slot.pool for each in patients)
    chosen = []
    for each in ill:
        why = (
            (crowded if each.remedy is Remedy.REVIVE else "")
            or _unwanted(each, held, wanted)
            or ("" if named else _too_soon(each, prudence, now))
            or (_not_by_itself(each, prudence, now) if unasked else "")
        )
        if why:
            left.append(f"{each.name} {why}")
        else:
            chosen.append(each)
    mending, guarded = _control_planes(masters, [each for each in chosen if _leads(each)], silent)
    left += guarded
    workers = [each for each in chosen if not _leads(each)]
    if heard:
        mending += [_mending(each) for each in workers]
    else:  # nobody can say how they are
        left += [f"{each.name} waits for a control plane that works" for each in workers]
    return Choice(mending=tuple(mending), left_alone=tuple(left))


def _doubted(patient: Patient) -> Patient:
    """A node that somebody names does not work, whatever we think of it."""
    if patient.remedy is not None:
        return patient
    state = patient.state.model_copy(update={"phase": SlotPhase.JOINED})
    return patient.model_copy(update={"state": state})


def again_from(mends: int, mended: datetime, prudence: Prudence) -> datetime:
    """From when on automatic repairs may mend a node again."""
    pause = prudence.again_seconds * 2 ** min(max(mends - 1, 0), 32)
    return mended + timedelta(seconds=min(pause, prudence.most_again_seconds))


def counted(patient: Patient, prudence: Prudence, now: datetime) -> int:
    """How often in a row a node will have been mended, if it is now."""
    if patient.mended is None:
        return 1
    calm = patient.mended + timedelta(seconds=2 * prudence.most_again_seconds)
    return 1 if now > calm else patient.mends + 1


def _leads(patient: Patient) -> bool:
    return patient.state.slot.role is Role.CONTROL_PLANE


def _crowded(patients: Sequence[Patient], prudence: Prudence) -> str:
    """Why nobody may be power-cycled, if too many are ill at once. While no control plane answers
    nothing is known of the workers, so only control planes are counted."""
    sick = sum(each.remedy is Remedy.REVIVE for each in patients)
    most = max(1, int(prudence.most_unhealthy * len(patients)))
    if sick <= most:
        return ""
    return (
        f"is one of {sick} nodes of {len(patients)} that are not Ready, and at most {most} at a "
        "time are mended: look for what they have in common"
    )


def _unwanted(patient: Patient, held: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    """Why a place is not filled: somebody wants fewer, and what they took away is not gone yet."""
    pool = patient.state.slot.pool
    if patient.remedy is not Remedy.FILL or held[pool] <= wanted.get(pool, held[pool]):
        return ""
    places, are = several(held[pool], "place"), several(wanted[pool], "is", "are")
    return (
        f"gets no machine: {pool} has {places}, and {are} wanted; only a scale or a delete of the "
        "pool takes places away"
    )


def is_overdue(patient: Patient, prudence: Prudence, now: datetime) -> bool:
    """Whether a node is not Ready for longer than it is waited for to come back by itself."""
    return _is_sick(patient) and now >= _patient_until(patient, prudence)


def _too_soon(patient: Patient, prudence: Prudence, now: datetime) -> str:
    until = _patient_until(patient, prudence)
    if not _is_sick(patient) or now >= until:
        return ""
    return (
        f"is not Ready since {patient.since:%H:%M:%S} UTC, and may come back by itself until "
        f"{until:%H:%M:%S} UTC"
    )


def _patient_until(patient: Patient, prudence: Prudence) -> datetime:
    return patient.since + timedelta(seconds=prudence.patience_seconds)


def _not_by_itself(patient: Patient, prudence: Prudence, now: datetime) -> str:
    """Why nothing is done about it unless somebody asks."""
    until = _patient_until(patient, prudence)
    if patient.remedy is Remedy.FILL and now < until:
        return (
            f"has no node since {patient.since:%H:%M:%S} UTC, and gets none by itself before "
            f"{until:%H:%M:%S} UTC"
        )
    if patient.mended is None:
        return ""
    again = again_from(patient.mends, patient.mended, prudence)
    if now >= again:
        return ""
    row = f", {patient.mends} times in a row," if patient.mends > 1 else ""
    return (
        f"was mended at {patient.mended:%H:%M:%S} UTC{row} and is not "
        f"mended again by itself before {again:%Y-%m-%d %H:%M:%S} UTC"
    )


def _control_planes(
    masters: Sequence[Patient], chosen: Sequence[Patient], silent: Collection[str]
) -> tuple[list[Mending], list[str]]:
    """Control planes are mended one after the other, those that etcd counts and does not hear
    first: it lets nobody in while a member is silent. None is taken out unless those that answer
    are most of all members; and the only one there is holds everything, so it is never replaced.
    Whoever is Ready answers, unless its member was silent when it was last asked."""
    nodes = {each.name for each in masters if each.state.phase in ANSWERING or _is_sick(each)}
    members = nodes.union(silent)
    ready = {each.name for each in masters if each.state.phase in ANSWERING}
    answering = ready.difference(silent)
    mending = [_mending(each) for each in chosen if each.remedy is Remedy.READMIT]
    left: list[str] = []
    for each in (each for each in chosen if _is_sick(each)):
        if len(nodes) == 1:
            mending.append(_mending(each, replaceable=False))
        elif 2 * len(answering) > len(members):
            mending.append(_mending(each))
        else:
            left.append(
                f"{each.name} must stay as it is: {len(answering)} of {len(members)} control "
                "planes answer, which is no majority without it"
            )
    mended = {each.named for each in mending}
    deaf = [each.name for each in masters if each.name in nodes - answering - mended]
    for each in (each for each in chosen if each.remedy is Remedy.FILL):
        if not answering:
            left.append(f"{each.name} waits for a control plane that works")
        elif deaf:
            left.append(f"{each.name} waits for {', '.join(deaf)}: etcd lets nobody in before")
        else:
            mending.append(_mending(each))
    return mending, left


def _is_sick(patient: Patient) -> bool:
    return patient.remedy is Remedy.REVIVE


def _mending(patient: Patient, *, replaceable: bool = True) -> Mending:
    remedy = patient.remedy or Remedy.READMIT  # whoever is chosen has one
    return Mending(machine=patient.state.filled_by, remedy=remedy, replaceable=replaceable)
