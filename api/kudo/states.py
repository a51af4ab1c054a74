"""States and words of the scheduler contract. Its numbers are not the agent's: RUNNING is 0 in
both, and little else is the same."""

from domain.errors import Invalid
from domain.instance import Phase
from domain.node import Said, Welcome
from protos.gen.kudo import scheduler_pb2 as pb

STATUSES: dict[Phase, pb.Status.ValueType] = {
    Phase.SCHEDULING: pb.SCHEDULING,
    Phase.SCHEDULED: pb.SCHEDULED,
    Phase.STARTING: pb.STARTING,
    Phase.RUNNING: pb.RUNNING,
    Phase.STOPPING: pb.STOPPING,
    Phase.STOPPED: pb.STOPPED,
    Phase.DESTROYING: pb.DESTROYING,
    Phase.TERMINATED: pb.TERMINATED,
    Phase.FAILED: pb.FAILED,
}

CODES: dict[Welcome, int] = {
    Welcome.WELCOME: 0,
    Welcome.FAILED: 1,
    Welcome.BAD_CERTIFICATE: 2,
    Welcome.NO_SUBNET: 3,
    Welcome.IN_USE: 4,
}


def said(status: pb.Status.ValueType) -> Said:
    """What a node says of itself."""
    if status not in pb.Status.values():
        raise Invalid(
            f"{status} is no status", reason="INSTANCE_INVALID", do="send one of the contract"
        )
    return Said(pb.Status.Name(status))
