"""What was seen of a cluster: its API, its nodes, its etcd, its machines. Facts, and no opinion.

`domain/health.py` says what they mean. Whatever could not be asked is None and not empty: knowing
nothing of a thing is another matter than seeing that it is not there."""

from datetime import datetime
from enum import StrEnum

from domain.frozen import Frozen


class Readiness(StrEnum):
    """What a cluster's API says of a node.

    READY      its kubelet reports, and all is well
    NOT_READY  its kubelet reports that it is not
    UNKNOWN    its kubelet has not reported for a while
    ABSENT     there is no such node
    """

    READY = "ready"
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"
    ABSENT = "absent"


class NodeSeen(Frozen):
    """A node as the cluster's API shows it."""

    name: str
    readiness: Readiness
    reason: str = ""
    """Kubernetes' own word for why it is not Ready: `KubeletNotReady`."""
    since: datetime | None = None
    """Since when it is so."""
    kubelet: str = ""
    """Its kubelet's version, without a v."""
    schedulable: bool = True
    closed_by_us: bool = False
    """Whether it carries the mark of those that we closed. An open one that does was opened by
    somebody else."""
    serves: bool = True
    """Whether the API server on it answers, if it is a control plane. True while nobody asked."""
    unwanted: bool = False
    """Whether somebody marked it as the next to go, by an annotation that clients of old know."""


class MachineSeen(Frozen):
    """A machine as MAAS shows it."""

    slot: str
    """The name of the slot that it fills in our books."""
    system_id: str
    hostname: str = ""
    status: str = ""
    """MAAS's own word, verbatim."""
    power: str = ""
    """`on`, `off`, `error` or `unknown`; empty if MAAS does not say."""
    address: str = ""
    ours: bool = True
    """Whether it still carries the marks by which it is this slot's. One that MAAS does not know
    any more does not, and has no status."""


class MemberSeen(Frozen):
    """A member of a cluster's etcd."""

    name: str
    """The node's, or its peer address while it has no name."""
    answers: bool
    """Whether it answers and knows a leader."""
    learner: bool = False


class Inside(Frozen):
    """What only the control planes' hosts can tell."""

    members: tuple[MemberSeen, ...] | None = None
    """Whom etcd counts. None: no host could be asked."""
    expires: datetime | None = None
    """When the first of their certificates expires."""
    expires_on: str = ""
    """The node that this one lies on."""
    admitted_until: datetime | None = None
    """Until when the kubeconfig that we keep opens the API."""

    def or_else(self, before: "Inside | None") -> "Inside":
        """This, and where it says nothing what was known before."""
        if before is None:
            return self
        expiry = self if self.expires is not None else before
        return Inside(
            members=before.members if self.members is None else self.members,
            expires=expiry.expires,
            expires_on=expiry.expires_on,
            admitted_until=self.admitted_until or before.admitted_until,
        )

    @property
    def silent(self) -> tuple[str, ...]:
        """The members that do not answer."""
        return tuple(member.name for member in self.members or () if not member.answers)

    @property
    def has_quorum(self) -> bool:
        """Whether a majority of those who vote answers. True while nothing is known."""
        voters = [member for member in self.members or () if not member.learner]
        return not voters or sum(member.answers for member in voters) > len(voters) // 2


class Sight(Frozen):
    """All that was seen of one cluster in one look."""

    uid: str
    taken: datetime
    operation: str = ""
    """The operation that the cluster named then: once it names another, this is old news."""
    unanswered: str = ""
    """Why the API gave no answer. Empty: it did."""
    nodes: tuple[NodeSeen, ...] | None = None
    machines: tuple[MachineSeen, ...] | None = None
    inside: Inside | None = None

    @property
    def named(self) -> str:
        return self.uid

    def node(self, name: str) -> NodeSeen | None:
        """The node of that name; ABSENT if the API shows none, None if the API was not heard."""
        if self.nodes is None:
            return None
        absent = NodeSeen(name=name, readiness=Readiness.ABSENT, reason="there is no such node")
        return next((node for node in self.nodes if node.name == name), absent)

    def machine(self, slot: str, system_id: str) -> MachineSeen | None:
        """The machine in a slot; without a status if MAAS does not know it, None if MAAS was not
        heard."""
        if self.machines is None:
            return None
        gone = MachineSeen(slot=slot, system_id=system_id, ours=False)
        known = (seen for seen in self.machines if (seen.slot, seen.system_id) == (slot, system_id))
        return next(known, gone)


class Tour(Frozen):
    """How a tour of looks at one cluster ended."""

    uid: str
    sight: Sight | None = None
    """What was seen in the last look that the rows do not say. None: nothing."""
    confirmed: datetime | None = None
    """When it was last seen that the rows say how it is. None: it was not, since an operation
    runs."""
    inspected: datetime | None = None
    """When the cluster's hosts were asked, if they were."""
    astray: bool = False
    """Whether the endpoint does not lead to the control planes that are Ready."""
    expiring: bool = False
    """Whether the kubeconfig that we keep is near its end."""
    reopened: bool = False
    """Whether somebody opened nodes that we had closed, and that still carry our mark."""
    over: bool = False
    """Whether there is no cluster any more to look at."""

    @property
    def is_news(self) -> bool:
        """Whether anything has to be done about what was seen."""
        return self.sight is not None or self.astray or self.expiring or self.reopened

    @property
    def named(self) -> str:
        return self.uid


class Led(Frozen):
    """Where a cluster's endpoint was led to, and under which operation's plan."""

    uid: str
    operation: str = ""
    addresses: tuple[str, ...] = ()
    """None: it was left as it is."""
