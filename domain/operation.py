"""Operations: one record behind every change that outlives its call."""

from datetime import datetime
from enum import StrEnum
from typing import NewType

from domain.cluster import Phase
from domain.errors import Failure
from domain.frozen import Frozen
from domain.machine import LeftBehind, Machine, Sighting

OperationId = NewType("OperationId", str)


class Kind(StrEnum):
    CREATE_CLUSTER = "create-cluster"
    DELETE_CLUSTER = "delete-cluster"
    ADD_NODE_POOL = "add-node-pool"
    SCALE_NODE_POOL = "scale-node-pool"
    DELETE_NODE_POOL = "delete-node-pool"
    UPGRADE_CLUSTER = "upgrade-cluster"
    REPAIR_CLUSTER = "repair-cluster"
    CREATE_CLUSTERINST = "create-clusterinst"
    UPDATE_CLUSTERINST = "update-clusterinst"
    DELETE_CLUSTERINST = "delete-clusterinst"
    CREATE_APPINST = "create-appinst"
    DELETE_APPINST = "delete-appinst"
    DELETE_CLOUDLET = "delete-cloudlet"
    TAKE_OSDS_OUT = "take-osds-out"
    TAKE_OSDS_IN = "take-osds-in"
    CREATE_POOL = "create-pool"
    DELETE_POOL = "delete-pool"
    UPGRADE_STORAGE = "upgrade-storage"

    @classmethod
    def named(cls, text: str) -> "Kind":
        """The kind of that name, also one that this version does not know: it is among no others,
        and nothing can be done for it but show it."""
        try:
            return cls(text)
        except ValueError:
            stranger = str.__new__(cls, text)
            stranger._name_, stranger._value_ = "UNKNOWN", text
            return stranger


CHANGES = frozenset({Kind.ADD_NODE_POOL, Kind.SCALE_NODE_POOL, Kind.DELETE_NODE_POOL})
"""The kinds that change the pools of a cluster that stands."""

SETTLED = CHANGES | {Kind.UPGRADE_CLUSTER, Kind.REPAIR_CLUSTER}
"""The kinds after which a cluster is what its slots make of it, however they end."""

TRACKED = frozenset(
    {
        *(Kind.CREATE_CLUSTERINST, Kind.UPDATE_CLUSTERINST, Kind.DELETE_CLUSTERINST),
        *(Kind.CREATE_APPINST, Kind.DELETE_APPINST, Kind.DELETE_CLOUDLET),
    }
)
"""The kinds at the edge: what they do is rows alone, and resource managers make it so."""

STORED = frozenset(
    {
        *(Kind.TAKE_OSDS_OUT, Kind.TAKE_OSDS_IN, Kind.CREATE_POOL, Kind.DELETE_POOL),
        Kind.UPGRADE_STORAGE,
    }
)
"""The kinds that change a Ceph cluster for its own sake, and belong to no cluster of ours."""


class Stage(StrEnum):
    """How far an operation has come.

    REQUESTED   accepted and durable; its workflow may not have started
    RUNNING     its workflow has taken it up
    SUCCEEDED   done
    FAILED      not done, and what was begun is undone
    CANCELLED   somebody called it off, and what was begun is undone
    SUPERSEDED  another operation took its place; it only undoes now
    """

    REQUESTED = "requested"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


ACTIVE = frozenset({Stage.REQUESTED, Stage.RUNNING})
"""The stages in which an operation holds its subject: there is one such operation at a time."""


STALE = "STALE_OPERATION"
"""Why a mark is refused: its operation is over, or another has taken its place."""


PAUSED = "OPERATION_PAUSED"
"""Why a mark is refused: its operation begins no step at the moment. It is taken later."""

NUDGE = "nudge"
"""The signal that says to a workflow: look at your row. It carries nothing, so that losing one
loses nothing."""


class Ask(Frozen):
    """Who asks for a change, through which method, and under which key of their own."""

    tenant: str = "default"
    caller: str = "anonymous"
    method: str
    key: str = ""
    """The caller's request id. Empty: the caller cannot repeat this request safely."""
    digest: str = ""
    """Of the request's bytes and of what is wished besides, to tell a repeated request from another
    under the same key."""
    approve_each: str = ""
    """Wished for an upgrade: to be asked before each of these."""
    force: bool = False
    """Wished for a delete: to let go of machines that cannot be given back."""
    storage: bool = False
    """Wished for a creation: a share of Ceph."""
    data: str = ""
    """Wished for a delete: to `keep` the cluster's pool in Ceph, or to `delete` it."""
    data_of: str = ""
    """Whose data that is, as somebody typed who wishes it deleted."""
    owner: str = ""
    """Said of a creation: what the cluster is made for."""


class Operation(Frozen):
    """An operation as it stands now."""

    id: OperationId
    kind: Kind
    subject: str
    """What it changes, with its noun in front: `cluster/hello`."""
    stage: Stage
    requester: str
    request_id: str = ""
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    """Set when the work, its undo included, is over. A superseded operation is still undoing
    until then."""
    cancel_requested: bool = False
    paused_by: str = ""
    """Who paused it; empty while nobody has. It takes no further step until it is resumed."""
    gate: str = ""
    """What it stands before until somebody approves, such as `pool w`."""
    gate_until: datetime | None = None
    """When it is called off unless somebody has approved by then."""
    supersedes: OperationId | None = None
    """The operation this one pushed aside, whose undo it waits for."""
    waiting_on: str = ""
    failure: Failure | None = None
    left_behind: tuple[LeftBehind, ...] = ()
    """What a forced delete did not give back: somebody has to."""
    last_event: int = 0
    unreadable: bool = False
    """Not all of it could be read: it is shown, and done nothing for."""


NEEDS_A_PERSON = "needs a person: "
"""How `waiting_on` begins of an operation that nobody else will go on with."""


class StepState(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    STUMBLED = "stumbled"


class StepKey(Frozen):
    """Which step of an operation: what is done, and to what."""

    verb: str
    """The activity's name, such as `machines.deploy`."""
    subject: str
    """A slot's or an endpoint's name."""
    turn: int = 1
    """Counts repeats on purpose, such as the next machine for a slot; retries do not count."""
    undo: bool = False

    def __str__(self) -> str:
        return (
            f"{'undo ' if self.undo else ''}{self.verb} {self.subject}"
            f"{f' #{self.turn}' if self.turn > 1 else ''}"
        )

    @classmethod
    def parse(cls, text: str) -> "StepKey":
        """The key again from its words; activities carry them as their Temporal id."""
        undo = text.startswith("undo ")
        verb, subject, *turn = text.removeprefix("undo ").split(" ")
        return cls(verb=verb, subject=subject, turn=int(turn[0][1:]) if turn else 1, undo=undo)


class Step(Frozen):
    """A step as it was seen."""

    key: StepKey
    state: StepState
    started: datetime | None = None
    ended: datetime | None = None
    attempts: int = 0
    note: str = ""
    done: bool = False
    """Whether it has ever ended well: when its report is lost it is taken again, and its state
    goes back to active."""


STOPPED = "stopped"
"""What a stumble says that is nobody's failure: the hand was told to stop."""


class Mark(Frozen):
    """One sighting of one attempt at one step, written down before the hand goes on."""

    operation: OperationId
    step: StepKey
    attempt: int
    sighting: Sighting
    note: str = ""
    final: bool = False
    """Whether a stumble was the last: it will not be tried again."""
    last: bool = False
    """Whether a stumble was the last of as many as there may be."""
    learnt: Machine | None = None
    """What the step found out about the machine in its slot."""
    status: str = ""
    """MAAS's word for the machine, where a stumble told it."""
    kubelet: str = ""


class Event(Frozen):
    """A line of an operation's journal."""

    operation: OperationId
    number: int
    """From 1, without gaps."""
    time: datetime
    note: str
    step: Step | None = None
    stage: Stage
    failure: Failure | None = None
    last: bool = False
    told: bool = False
    """Whether it is for those who called, in the words of their contract."""


class Brief(Frozen):
    """What a workflow is told when it takes its operation up."""

    operation: OperationId
    kind: Kind
    plan: str
    """JSON, of the kind's own plan."""
    over: bool = False
    """It has ended already, or another took its place before it began: there is nothing to do."""
    cancelled_by: str = ""
    """Who called it off before it began."""
    paused: bool = False
    """Whether somebody has paused it already."""
    supersedes: OperationId | None = None


class Reached(Frozen):
    """Where a workflow has brought its operation: the one message with which it books progress."""

    operation: OperationId
    phase: Phase | None = None
    """What the cluster is now. None: as it was."""
    stage: Stage | None = None
    """Set on the last booking only."""
    published: bool = False
    """The API has answered through its endpoint: the kubeconfig may be given out."""
    undone: bool = False
    """What was begun has been taken back, or nothing was: there is nothing left to be reached."""
    note: str = ""
    headline: str = ""
    """How far it has come, in words of its own: they stand in the cluster's message instead of a
    count of steps from now on."""
    failure: Failure | None = None
    left_behind: tuple[LeftBehind, ...] = ()

    @classmethod
    def well(cls, operation: OperationId, phase: Phase | None, note: str) -> "Reached":
        return cls(operation=operation, phase=phase, stage=Stage.SUCCEEDED, note=note)

    @classmethod
    def badly(
        cls,
        operation: OperationId,
        phase: Phase | None,
        failure: Failure,
        *,
        undone: bool = True,
    ) -> "Reached":
        return cls(
            operation=operation,
            phase=phase,
            stage=Stage.CANCELLED if failure.kind == "Cancelled" else Stage.FAILED,
            undone=undone,
            note=failure.message,
            failure=failure,
        )


class Cancelled(Frozen):
    """The failure of what was called off. It is no error: nobody's call raises it."""

    @staticmethod
    def by(whom: str) -> Failure:
        return Failure(kind="Cancelled", message=f"cancelled by {whom}", reason="CANCELLED")


class Backlog(Frozen):
    """How much stands still."""

    oldest_requested_seconds: float
    """How long what was accepted first and has not started has been waiting."""
    waiting: dict[str, int]
    """Operations that wait for something over several attempts, by kind."""
    need_a_person: int = 0
    """Operations that cannot be read, or that the sweep could do nothing about."""
