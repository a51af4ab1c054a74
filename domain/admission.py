"""What may be asked of a cluster in which phase, and what is said to whoever may not."""

from enum import StrEnum

from domain.cluster import Phase
from domain.errors import Conflict
from domain.operation import CHANGES, Kind


class Asked(StrEnum):
    """What is asked, as far as a phase cares."""

    POOLS = "pools"
    UPGRADE = "upgrade"
    REPAIR = "repair"
    DELETE = "delete"


ASKED: dict[Kind, Asked] = {
    **dict.fromkeys(CHANGES, Asked.POOLS),
    Kind.UPGRADE_CLUSTER: Asked.UPGRADE,
    Kind.REPAIR_CLUSTER: Asked.REPAIR,
    Kind.DELETE_CLUSTER: Asked.DELETE,
}
"""Every kind but the create, which asks for a cluster that is not there."""


class Verdict(StrEnum):
    """What becomes of it.

    ACCEPTED    it is begun
    TAKES_OVER  it is begun, and what is being done to the cluster is stopped and undone
    SAME        it is being done already: the answer is the operation that does it
    BUSY        refused: something else is being done, and will be over
    BROKEN      refused: the control plane does not work; a repair or a delete helps
    """

    ACCEPTED = "accepted"
    TAKES_OVER = "takes-over"
    SAME = "same"
    BUSY = "busy"
    BROKEN = "broken"


ADMISSION: dict[Phase, dict[Asked, Verdict]] = {
    Phase.PROVISIONING: {
        Asked.POOLS: Verdict.BUSY,
        Asked.UPGRADE: Verdict.BUSY,
        Asked.REPAIR: Verdict.BUSY,
        Asked.DELETE: Verdict.TAKES_OVER,
    },
    Phase.RUNNING: {
        Asked.POOLS: Verdict.ACCEPTED,
        Asked.UPGRADE: Verdict.ACCEPTED,
        Asked.REPAIR: Verdict.ACCEPTED,
        Asked.DELETE: Verdict.ACCEPTED,
    },
    Phase.RECONCILING: {
        Asked.POOLS: Verdict.BUSY,
        Asked.UPGRADE: Verdict.BUSY,
        Asked.REPAIR: Verdict.BUSY,
        Asked.DELETE: Verdict.TAKES_OVER,
    },
    Phase.DEGRADED: {
        Asked.POOLS: Verdict.ACCEPTED,
        Asked.UPGRADE: Verdict.ACCEPTED,
        Asked.REPAIR: Verdict.ACCEPTED,
        Asked.DELETE: Verdict.ACCEPTED,
    },
    Phase.ERROR: {
        Asked.POOLS: Verdict.BROKEN,
        Asked.UPGRADE: Verdict.BROKEN,
        Asked.REPAIR: Verdict.ACCEPTED,
        Asked.DELETE: Verdict.ACCEPTED,
    },
    Phase.STOPPING: {
        Asked.POOLS: Verdict.BUSY,
        Asked.UPGRADE: Verdict.BUSY,
        Asked.REPAIR: Verdict.BUSY,
        Asked.DELETE: Verdict.SAME,
    },
}
"""Every phase but GONE, of which there is no cluster. A change is refused rather than queued; a
delete is never refused."""


def refuse(kind: Kind, cluster: str, phase: Phase, operation: str, *, rests: bool) -> None:
    """Conflict, unless a change of this kind may begin as far as the phase is concerned. `rests`:
    whether the operation that the cluster names has ended; while it has not, whatever the phase,
    something is being done."""
    verdict = ADMISSION[phase][ASKED[kind]]
    if verdict is Verdict.ACCEPTED and not rests:
        verdict = Verdict.BUSY
    if verdict in (Verdict.BUSY, Verdict.BROKEN):
        broken = verdict is Verdict.BROKEN
        watch = f"windlass op watch {operation} shows when it is over"
        mend = f"windlass cluster why {cluster} shows why its control plane does not work"
        raise Conflict(
            f"cluster {cluster} is {phase}, and no {kind} is possible now",
            subject=cluster,
            reason="CLUSTER_BROKEN" if broken else "CLUSTER_BUSY",
            do=mend if broken else watch,
            facts={"operation": operation, "state": phase},
        )
