"""What shall go wrong, decided from outside and written down as data.

A fault names the calls it is about by a pattern, says which of them goes wrong and how. The
places where calls arrive ask `meet` and do as told; nothing else in the site knows of faults.

A call is named `<system> <what>`:

    maas POST machines/?op=allocate          maas POST machines/abc123/?op=deploy
    ssh connect abc123                       ssh exec abc123 kubeadm init
    deploy abc123                            (the installation itself, not the call)
    release abc123                           (likewise)
    kubeadm abc123 init                      kubernetes hello GET /readyz
    systemctl abc123 show

Others are no calls of anybody's, but something that happens on the way or has to be there:

    boot abc123                              (until its SSH server is up)
    cloud-init abc123                        (the first boot)
    dpkg abc123                              (whoever wants the package manager's lock)
    disk abc123 /etc/kubernetes/admin.conf   (a write to that file)
    token hello                              (a join shows its bootstrap token)
    certificates hello                       (a control plane fetches the shared certificates)
    etcd hello cp-1                          (whoever depends on that member)

Machines are called by system id, clusters by the first label of their endpoint.
"""

import fnmatch
from enum import StrEnum

from domain.frozen import Frozen


class How(StrEnum):
    """Ways to go wrong.

    REFUSE      answer with `status` and `message`, do nothing (a command: exit code `status`)
    SLOW        wait `seconds`, then do it
    HANG        do nothing and never answer
    HALF        do it, then close the connection instead of answering
    DROP        close the connection, do nothing; an SSH command: after `line` lines of output
    FAIL        begin, and end badly: a deployment, a kubeadm run
    REBOOT      the host restarts in the middle
    EXPIRE      what was handed out for a while is taken for run out: a token, certificates
    FLAP        in turn: as if nothing were, REFUSE, DROP
    """

    REFUSE = "refuse"
    SLOW = "slow"
    HANG = "hang"
    HALF = "half"
    DROP = "drop"
    FAIL = "fail"
    REBOOT = "reboot"
    EXPIRE = "expire"
    FLAP = "flap"


NEVER_SECONDS = 10 * 365 * 86400.0
"""As long as nobody waits."""

_FLAPPING = (None, How.REFUSE, How.DROP)


class Fault(Frozen):
    """One thing that shall go wrong: the `nth` call that matches, and `times - 1` after it."""

    where: str
    """A shell pattern over the call's name, such as `maas POST machines/*op=deploy*`."""
    how: How
    nth: int = 1
    times: int = 1
    status: int = 503
    message: str = "simulated fault"
    retry_after: int | None = None
    seconds: float = 1.0
    line: int = 0


class Faults:
    """The plan, and how far it has been carried out."""

    def __init__(self) -> None:
        self._plan: list[tuple[Fault, list[str]]] = []

    def add(self, fault: Fault) -> None:
        self._plan.append((fault, []))

    def clear(self) -> None:
        self._plan.clear()

    def met(self) -> list[tuple[Fault, list[str]]]:
        """Each fault with the calls that it made go wrong, for tests that ask whether it fired."""
        return [
            (fault, calls[fault.nth - 1 : fault.nth - 1 + fault.times])
            for fault, calls in self._plan
        ]

    def meet(self, call: str) -> Fault | None:
        """The fault that befalls this call, if one does. Every matching fault counts the call."""
        befalls = None
        for fault, calls in self._plan:
            if not fnmatch.fnmatchcase(call, fault.where):
                continue
            calls.append(call)
            if fault.nth <= len(calls) < fault.nth + fault.times:
                befalls = befalls or _this_time(fault, len(calls) - fault.nth)
        return befalls

    def lasts(self, call: str) -> float:
        """How many seconds longer something takes than it does by itself. For what can be late but
        has nobody to be answered: refused or dropped, it never comes to an end."""
        match self.meet(call):
            case None | Fault(how=How.FAIL):
                return 0.0
            case Fault(how=How.SLOW, seconds=seconds):
                return seconds
        return NEVER_SECONDS


def _this_time(fault: Fault, turn: int) -> Fault | None:
    """What a fault does on one of its turns."""
    if fault.how is not How.FLAP:
        return fault
    how = _FLAPPING[turn % len(_FLAPPING)]
    return None if how is None else fault.model_copy(update={"how": how})
