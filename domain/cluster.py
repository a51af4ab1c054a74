"""Clusters: what is asked for, what is planned, and the states one may be in."""

from collections.abc import Iterable
from enum import StrEnum

from domain import naming
from domain.errors import Conflict, DomainError, Invalid, Violation
from domain.frozen import Frozen
from domain.machine import Label, Machine, Role, Slot, SlotState
from domain.releases import Catalogue, Release
from domain.repairs import Repair
from domain.share import Share


class Phase(StrEnum):
    """Where a cluster stands. The rule of thumb between the last three: can its user work?

    PROVISIONING  its first create is running
    RUNNING       the API answers and every node wanted is Ready
    RECONCILING   a change runs; the API stays usable
    STOPPING      a delete was accepted
    ERROR         the control plane never came up, or is unusable
    DEGRADED      the API works, but short of what is wanted
    GONE          deleted; the name is free again
    """

    PROVISIONING = "provisioning"
    RUNNING = "running"
    RECONCILING = "reconciling"
    STOPPING = "stopping"
    ERROR = "error"
    DEGRADED = "degraded"
    GONE = "gone"


NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.PROVISIONING: frozenset({Phase.RUNNING, Phase.DEGRADED, Phase.ERROR, Phase.STOPPING}),
    Phase.RUNNING: frozenset({Phase.RECONCILING, Phase.DEGRADED, Phase.ERROR, Phase.STOPPING}),
    Phase.RECONCILING: frozenset({Phase.RUNNING, Phase.DEGRADED, Phase.ERROR, Phase.STOPPING}),
    Phase.DEGRADED: frozenset({Phase.RECONCILING, Phase.RUNNING, Phase.ERROR, Phase.STOPPING}),
    Phase.ERROR: frozenset({Phase.RECONCILING, Phase.RUNNING, Phase.DEGRADED, Phase.STOPPING}),
    Phase.STOPPING: frozenset({Phase.GONE}),
    Phase.GONE: frozenset(),
}
"""The moves there are. Everything else is refused."""


def advance(name: str, now: Phase, to: Phase) -> Phase:
    """Move a cluster on. Staying put is allowed: a step run twice says the same thing twice."""
    if to is not now and to not in NEXT[now]:
        raise Conflict(f"cluster {name} is {now} and cannot become {to}", subject=name)
    return to


class PoolOrder(Frozen):
    """Machines of one kind that are asked for together."""

    name: str
    count: int
    instance_type: str = ""
    labels: tuple[Label, ...] = ()


class ClusterOrder(Frozen):
    """A cluster as its user asks for it."""

    name: str
    version: str = ""
    control_plane: PoolOrder
    pools: tuple[PoolOrder, ...] = ()


class Limits(Frozen):
    """How much one request may ask for."""

    control_planes: tuple[int, ...] = (1, 3, 5)
    machines_per_pool: int = 500
    machines: int = 1000
    """Of one cluster, its control plane included."""
    pools: int = 50
    labels: int = 64


class DrainPolicy(StrEnum):
    """What becomes of a node whose pods have not left it in time.

    PROCEED  it is taken away or upgraded all the same, and they are named
    STRICT   it is left as it is, and the cluster is DEGRADED
    """

    PROCEED = "proceed"
    STRICT = "strict"


class Retiring(Frozen):
    """A slot that is to be emptied for good."""

    machine: Machine
    """What fills it. Without a system id: nothing that we know of."""
    works: bool
    """Whether it is a node that may run pods, which have to go first."""

    @property
    def named(self) -> str:
        return self.machine.named


class PoolChange(Frozen):
    """What a change of pools does to a cluster that stands."""

    through: tuple[Machine, ...]
    """The control planes that work."""
    adding: tuple[Slot, ...] = ()
    """Slots to be filled, new ones and those that were left empty."""
    readmitting: tuple[Slot, ...] = ()
    """Nodes that stay after all, though they were being emptied."""
    retiring: tuple[Retiring, ...] = ()
    opening: tuple[Slot, ...] = ()
    """Control planes that must run everything from now on, since no worker is left."""
    closing: tuple[Slot, ...] = ()
    """Control planes that need not any more, since there are workers."""
    dropping: tuple[str, ...] = ()
    """Pools that go once they hold nothing."""
    drain_seconds: float = 600.0
    """How long the pods of one node may take to leave."""
    drain_policy: DrainPolicy = DrainPolicy.PROCEED

    @property
    def size(self) -> int:
        return len(self.adding) + len(self.readmitting) + len(self.retiring)


class PoolUpgrade(Frozen):
    """Nodes of one pool that are to run another release, in their order."""

    name: str
    machines: tuple[Machine, ...]

    @property
    def gate(self) -> str:
        """What is approved before any of them is touched, where that is wanted."""
        return f"pool {self.name}"


class Upgrade(Frozen):
    """What an upgrade does to a cluster that stands: the nodes that are not there yet, in the order
    in which it is their turn."""

    release: Release
    before: str
    """The version that the cluster ran when it was first asked for."""
    working: tuple[Machine, ...]
    """The control planes that work."""
    control_plane: tuple[Machine, ...] = ()
    pools: tuple[PoolUpgrade, ...] = ()
    leads: bool = False
    """Whether the first of these control planes takes the cluster's own configuration along: none
    has done so yet."""
    resumed: bool = False
    """Whether an earlier upgrade to the same version was begun and not finished."""
    done: int = 0
    """How many nodes run the release already."""
    at_once: int = 1
    """Nodes of a pool that are upgraded at the same time."""
    drain_seconds: float = 600.0
    """How long the pods of one node may take to leave."""
    drain_policy: DrainPolicy = DrainPolicy.PROCEED

    @property
    def machines(self) -> tuple[Machine, ...]:
        return self.control_plane + tuple(m for pool in self.pools for m in pool.machines)

    @property
    def through(self) -> tuple[Machine, ...]:
        """The control planes to ask; where none works, those that are to be mended by this."""
        return self.working or self.control_plane

    @property
    def forewarned(self) -> bool:
        """Whether kubeadm can be asked first what it thinks of it: it says nothing of a cluster
        whose first control plane was left half upgraded."""
        return self.leads and self.control_plane[:1] == self.working[:1] != ()

    def headline(self, done: int) -> str:
        """How far it has come once so many of its nodes are done."""
        nodes = self.done + len(self.machines)
        return f"upgrade {self.before}->{self.release.version}: {self.done + done}/{nodes} nodes"


class ClusterPlan(Frozen):
    """A cluster as it will be built: every slot named. Frozen into its operation."""

    uid: str
    name: str
    release: Release
    endpoint: str
    """The name the API is reached under. It is in certificates, so it never changes."""
    control_plane: tuple[Slot, ...]
    workers: tuple[Slot, ...] = ()
    workers_at_once: int = 8
    change: PoolChange | None = None
    """What is to be changed, if the cluster stands already."""
    forced: bool = False
    """Of a delete: the cluster goes, also if machines of it cannot be given back."""
    storage: Share | None = None
    """What it gets of Ceph, if that was wished for."""
    keeps_data: bool = False
    """Of a delete: its pool in Ceph stays, with all that lies in it."""
    approve_each: str = ""
    """Somebody wants to be asked before each of these, such as `pool`."""
    upgrade: Upgrade | None = None
    """What is to be upgraded, likewise."""
    repair: Repair | None = None
    """What is to be mended, if that is what is asked for."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self.control_plane + self.workers

    def afresh(
        self,
        slots: Iterable[Slot],
        *,
        release: Release | None = None,
        workers_at_once: int | None = None,
        change: PoolChange | None = None,
        upgrade: Upgrade | None = None,
        repair: Repair | None = None,
    ) -> "ClusterPlan":
        """The plan of the next operation: the slots there are now, and nothing of what was asked
        for before but the release and the numbers, where no others are given."""
        found = tuple(slots)
        return self.model_copy(
            update={
                "control_plane": tuple(slot for slot in found if slot.role is Role.CONTROL_PLANE),
                "workers": tuple(slot for slot in found if slot.role is Role.WORKER),
                "release": release or self.release,
                "workers_at_once": workers_at_once or self.workers_at_once,
                "change": change,
                "upgrade": upgrade,
                "repair": repair,
            }
        )


class Cluster(Frozen):
    """What the store knows of a cluster now."""

    uid: str
    name: str
    phase: Phase
    message: str
    version: str
    pending: str = ""
    """The version that an upgrade which is not finished is to bring it to. Empty: there is none."""
    endpoint: str
    published: bool = False
    """Whether its kubeconfig may be given out: the API has answered through the endpoint."""
    operation: str = ""
    """The operation that runs on it, or the last one that did."""
    owner: str = ""
    """What it was made for, as its maker wrote it down. Empty: nobody said."""


class ClusterNodes(Frozen):
    """A cluster's slots as they stand, control plane first, then pool by pool."""

    cluster: str
    slots: tuple[SlotState, ...] = ()


def check(order: ClusterOrder, catalogue: Catalogue, limits: Limits) -> Release:
    """Find everything wrong with an order, or the release it will run.

    All violations are reported at once: whoever fixes one wants to know of the others."""
    wrong = [*_check_name(order.name), *_check_control_plane(order.control_plane, limits)]
    release: Release | None = None
    try:
        release = catalogue.choose(order.version)
    except DomainError as error:
        wrong.append(Violation(field="k8s_version", description=error.message))
    wrong += [*_check_pools(order.pools, limits), *_check_size(order, limits)]
    if wrong or release is None:
        first = wrong[0]
        raise Invalid(f"{first.field}: {first.description}", subject=order.name, violations=wrong)
    return release


def _check_name(name: str) -> Iterable[Violation]:
    if not naming.is_dns_label(name, naming.CLUSTER_NAME_LENGTH):
        yield Violation(field="name", description=_must_be_label(name, naming.CLUSTER_NAME_LENGTH))


def _check_control_plane(pool: PoolOrder, limits: Limits) -> Iterable[Violation]:
    field = "control_plane_nodes"
    if pool.count not in limits.control_planes:
        sizes = ", ".join(map(str, limits.control_planes))
        yield Violation(
            field=f"{field}.count",
            description=f"{pool.count} is not one of {sizes}: etcd wants an odd number of members",
        )
    yield from _check_instance_type(field, pool.instance_type)
    yield from _check_labels(field, pool.labels, limits)


def _check_pools(pools: tuple[PoolOrder, ...], limits: Limits) -> Iterable[Violation]:
    if len(pools) > limits.pools:
        yield Violation(
            field="worker_node_pools", description=f"{len(pools)} pools, at most {limits.pools}"
        )
    seen: set[str] = set()
    for index, pool in enumerate(pools[: limits.pools]):
        yield from check_pool(f"worker_node_pools[{index}]", pool, limits)
        if pool.name in seen:
            yield Violation(
                field=f"worker_node_pools[{index}].name",
                description=f"{pool.name!r} is asked for twice",
            )
        seen.add(pool.name)


def _check_size(order: ClusterOrder, limits: Limits) -> Iterable[Violation]:
    machines = order.control_plane.count + sum(max(pool.count, 0) for pool in order.pools)
    if machines > limits.machines:
        description = f"{machines} machines in one cluster, at most {limits.machines}"
        yield Violation(field="worker_node_pools", description=description)


def check_pool(field: str, pool: PoolOrder, limits: Limits) -> Iterable[Violation]:
    """What is wrong with one pool of workers, taken by itself."""
    if not naming.is_dns_label(pool.name, naming.POOL_NAME_LENGTH):
        description = _must_be_label(pool.name, naming.POOL_NAME_LENGTH)
        yield Violation(field=f"{field}.name", description=description)
    if pool.name == naming.CONTROL_PLANE:
        description = f"{naming.CONTROL_PLANE!r} is reserved for the control plane"
        yield Violation(field=f"{field}.name", description=description)
    if not 0 <= pool.count <= limits.machines_per_pool:
        description = f"{pool.count} is not between 0 and {limits.machines_per_pool}"
        yield Violation(field=f"{field}.count", description=description)
    yield from _check_instance_type(field, pool.instance_type)
    yield from _check_labels(field, pool.labels, limits)


def _check_instance_type(field: str, instance_type: str) -> Iterable[Violation]:
    if instance_type and not naming.is_tag(instance_type):
        yield Violation(
            field=f"{field}.instanceType",
            description=f"{instance_type!r} is not a MAAS tag: letters, digits, - and _",
        )


def _check_labels(field: str, labels: tuple[Label, ...], limits: Limits) -> Iterable[Violation]:
    if len(labels) > limits.labels:
        yield Violation(
            field=f"{field}.labels", description=f"{len(labels)} labels, at most {limits.labels}"
        )
    seen: set[str] = set()
    for index, label in enumerate(labels[: limits.labels]):
        at = f"{field}.labels[{index}]"
        if not naming.is_label_key(label.name):
            description = f"{label.name!r} is not a Kubernetes label name"
            yield Violation(field=f"{at}.name", description=description)
        elif naming.is_reserved_label(label.name):
            description = f"{label.name!r} is reserved for Kubernetes and Windlass"
            yield Violation(field=f"{at}.name", description=description)
        if not naming.is_label_value(label.value):
            description = f"{label.value!r} is not a Kubernetes label value"
            yield Violation(field=f"{at}.value", description=description)
        if label.name in seen:
            yield Violation(field=f"{at}.name", description=f"{label.name!r} is given twice")
        seen.add(label.name)


def _must_be_label(text: str, longest: int) -> str:
    return (
        f"{text!r} must be 1 to {longest} lower-case letters, digits and hyphens, "
        "with a letter or digit at each end"
    )


def slots_of(order: ClusterOrder) -> Iterable[tuple[Role, PoolOrder]]:
    """One entry per machine wanted, in the order in which clients are shown them."""
    for _ in range(order.control_plane.count):
        yield Role.CONTROL_PLANE, order.control_plane
    for pool in order.pools:
        for _ in range(pool.count):
            yield Role.WORKER, pool
