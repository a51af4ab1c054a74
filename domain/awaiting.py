"""Waiting for a resource manager: what is aimed at, what is made of how things stand, and what
those who called are told of it, byte for byte."""

from enum import StrEnum

from domain.errors import Failure
from domain.frozen import Frozen
from domain.record import Noun
from domain.tracking import Phase


class Aim(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Verdict(StrEnum):
    """What is made of how an instance stands.

    WAIT     nothing is decided
    DONE     it is as it was wanted
    FAILED   its resource manager could not do it
    OVERDUE  its resource manager has not even begun
    LATE     the time is up and the work is under way: it is left to its resource manager
    OVER     the operation has ended, or has no say any more
    """

    WAIT = "wait"
    DONE = "done"
    FAILED = "failed"
    OVERDUE = "overdue"
    LATE = "late"
    OVER = "over"


TARGET: dict[Aim, Phase] = {
    Aim.CREATE: Phase.READY,
    Aim.UPDATE: Phase.READY,
    Aim.DELETE: Phase.NOT_PRESENT,
}
WORKING: dict[Aim, Phase] = {
    Aim.CREATE: Phase.CREATING,
    Aim.UPDATE: Phase.UPDATING,
    Aim.DELETE: Phase.DELETING,
}
FAILING: dict[Aim, Phase] = {
    Aim.CREATE: Phase.CREATE_ERROR,
    Aim.UPDATE: Phase.UPDATE_ERROR,
    Aim.DELETE: Phase.DELETE_ERROR,
}


def judge(aim: Aim, phase: Phase, *, time_up: bool) -> Verdict:
    if phase is TARGET[aim]:
        return Verdict.DONE
    if phase is FAILING[aim]:
        return Verdict.FAILED
    if not time_up:
        return Verdict.WAIT
    return Verdict.LATE if phase is WORKING[aim] else Verdict.OVERDUE


class Outlook(Frozen):
    """What a workflow learns that waits."""

    verdict: Verdict
    left_seconds: float = 0.0
    """What is left of its time."""
    failure: Failure | None = None
    """What went wrong, if something did."""
    more: bool = False
    """Whether what the instance leaves behind is to be looked at."""
    nested: str = ""
    """The operation that has to end before this one may."""


CREATED = "Created successfully"
UPDATED = "Updated successfully"
INHERITED = "Setting ClusterInst developer to match App developer"
CLEARING_AUTO = "Deleting auto-cluster inst"
UNDOING_AUTO = "Deleting auto-ClusterInst due to failure"
WHOSE_CLUSTER = "AppInst not found; name the developer of its ClusterInst, if that has one"


def word(phase: Phase) -> str:
    """The name of a phase as it stands in streams: CREATE_ERROR is CreateError."""
    return "".join(part.capitalize() for part in phase.split("_"))


def deleted(noun: Noun) -> str:
    return f"Deleted {noun} successfully"


def done(noun: Noun, aim: Aim) -> str:
    """The word that it worked, by which clients know."""
    return {Aim.CREATE: CREATED, Aim.UPDATE: UPDATED, Aim.DELETE: deleted(noun)}[aim]


UNDOING: dict[tuple[Noun, Aim], tuple[str, ...]] = {
    (Noun.CLUSTER_INST, Aim.CREATE): ("DELETING ClusterInst due to failures",),
    (Noun.CLUSTER_INST, Aim.UPDATE): (),
    (Noun.CLUSTER_INST, Aim.DELETE): ("Recreating ClusterInst due to failure",),
    (Noun.APP_INST, Aim.CREATE): ("Deleting AppInst due to failure", deleted(Noun.APP_INST)),
    (Noun.APP_INST, Aim.DELETE): ("Recreating AppInst due to failure",),
}
"""What is said while something is taken back."""


def forgiven(noun: Noun, aim: Aim, why: str) -> tuple[str, str]:
    """What is said of a failure that counts as success."""
    done = f"{aim.capitalize()}d {noun} successfully"
    return f"{aim.capitalize()} {noun} ignoring CRM failure: {why}", done


def failures(errors: tuple[str, ...]) -> str:
    """What a resource manager could not do, and why."""
    return f"Encountered failures: {', '.join(errors)}"


def overdue(aim: Aim, phase: Phase) -> str:
    return f"Timed out; expected state {word(TARGET[aim])} but is {word(phase)}"


def late(noun: Noun, phase: Phase) -> str:
    return (
        f"Timed out while work still in progress state {word(phase)}. "
        f"Please use Show{noun} to check current status"
    )


def clearing(app: str) -> str:
    return f"Autodeleting appinst {app}"


def failed_before(noun: Noun, aim: Aim, errors: tuple[str, ...]) -> str:
    """What is said to whoever meets the rest of an earlier failure."""
    again = {Aim.CREATE: "delete it first", Aim.DELETE: "create it again first"}[aim]
    return f"Previous {aim} of this {noun} failed, {', '.join(errors)}; {again}"
