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
    """

    REFUSE = "refuse"
    SLOW = "slow"
    HANG = "hang"
    HALF = "half"
    DROP = "drop"
    FAIL = "fail"
    REBOOT = "reboot"


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
                befalls = befalls or fault
        return befalls
