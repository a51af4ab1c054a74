"""Machines that are not taken any more, since they failed more than once."""

from datetime import datetime, timedelta
from enum import StrEnum

from domain.errors import Failure, Unavailable
from domain.frozen import Frozen
from domain.machine import Machine
from domain.operation import OperationId


class FailedMachine(StrEnum):
    """What becomes of a machine that did not deploy.

    RELEASE      it is given back, and others may be given it
    MARK_BROKEN  MAAS gives it to nobody until somebody has looked at it
    """

    RELEASE = "release"
    MARK_BROKEN = "mark_broken"


ITS_OWN = frozenset({"LOGIN_REFUSED", "INTERRUPTED"})
"""Troubles that might have passed and that only the machine itself can be to blame for. All others
of their kind may as well be MAAS's, or those of the cluster it was to join."""


OF_OTHERS = (
    *("MAAS_", "MACHINE_LOST", "PACKAGE_NOT_FOUND", "PACKAGES_UNREACHABLE"),
    *("AUTHORITY_UNKNOWN", "CONFIGURATION_REFUSED", "NODE_NAME_TAKEN", "NOT_A_CONTROL_PLANE"),
)
"""How reasons begin that are no machine's fault, however final."""


def is_to_blame(failure: Failure) -> bool:
    """Whether a machine that did not deploy failed, and not those that were asked about it: a
    region that is down for an hour, or a key that is not valid any more, must not shun every
    machine there is."""
    if failure.reason.startswith(OF_OTHERS):
        return False
    return failure.kind != Unavailable.__name__ or failure.reason in ITS_OWN


class Terms(Frozen):
    """When a machine is not taken any more, and for how long."""

    failures: int = 2
    """So often it may not fail, in whatever operations."""
    seconds: float = 7 * 86400.0
    """A failure is forgotten after so long."""

    @property
    def span(self) -> timedelta:
        return timedelta(seconds=self.seconds)


class MachineFailure(Frozen):
    """A machine that did not deploy."""

    operation: OperationId
    machine: Machine
    turn: int
    """Which machine of its slot it was in that operation."""
    why: str


class Quarantined(Frozen):
    """A machine that is not taken any more."""

    system_id: str
    hostname: str
    failures: int
    last: datetime
    until: datetime
    """When so many of its failures are forgotten that it is taken again."""
    why: str
    """How it failed last."""
    cluster: str
    """Where that was."""
