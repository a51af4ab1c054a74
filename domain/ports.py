"""What the hands, and some doors, need of the world. Each promise says what asking twice means.

Common to all: `Unavailable` is worth another try, every other DomainError is final, and an undo
that finds nothing to undo has succeeded."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from domain.cluster import ClusterPlan
from domain.frozen import Frozen
from domain.machine import Machine, Search, Slot
from domain.releases import Release
from domain.seen import Inside, MachineSeen, NodeSeen
from domain.share import Identity, PoolMade


class Endpoint(Frozen):
    """A stable name and the addresses it leads to."""

    cluster_uid: str
    name: str
    addresses: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        return self.name


class Joining(Frozen):
    """A machine that is to become a node, and the control-plane nodes that vouch for it."""

    machine: Machine
    through: Machine
    endpoint: str
    others: tuple[Machine, ...] = ()
    """Who else may, asked in turn as long as the one before gives no answer."""

    @property
    def named(self) -> str:
        return self.machine.named

    @property
    def guides(self) -> tuple[Machine, ...]:
        """All who may vouch for it, in the order in which they are asked."""
        return (self.through, *self.others)


class Node(Frozen):
    """A node of a cluster, and the endpoint to ask about it."""

    slot: Slot
    endpoint: str
    addresses: tuple[str, ...] = ()
    """Where the endpoint leads, for those who cannot ask for its name; tried in this order."""
    workless: bool | None = False
    """Whether the cluster has no workers, so that its control planes must run everything. None: as
    the nodes say that it lists."""

    @property
    def named(self) -> str:
        return self.slot.name


class Supply(Frozen):
    """A pool that a cluster is to make its volumes in, and who may use it."""

    node: Node
    made: PoolMade
    identity: Identity

    @property
    def named(self) -> str:
        return self.node.named


class Draining(Frozen):
    """A node whose pods have to leave, and how long they are waited for."""

    node: Node
    seconds: float
    """From when they are first asked to."""

    @property
    def named(self) -> str:
        return self.node.named


class Upgrading(Frozen):
    """A node that is to run another release, and a control plane that works."""

    machine: Machine
    release: Release
    through: Machine
    endpoint: str
    lead: bool = False
    """Whether this is the first control plane, which takes the cluster's configuration along."""

    @property
    def named(self) -> str:
        return self.machine.named


class Snapshot(Frozen):
    """A copy of a cluster's etcd and its certificates, and the control plane it is taken from."""

    machine: Machine
    name: str
    """Under which it is kept; the operation's id is part of it."""

    @property
    def named(self) -> str:
        return self.machine.named


class Kubelet(Frozen):
    """What a Ready node says of itself."""

    version: str
    """Without a v."""


class Returning(Frozen):
    """A node whose machine was restarted, and until when it is waited for."""

    node: Node
    until: datetime

    @property
    def named(self) -> str:
        return self.node.named


class Spoilt(Frozen):
    """A machine that let its slot down, and how."""

    machine: Machine
    why: str

    @property
    def named(self) -> str:
        return self.machine.named


class ClusterMark(Frozen):
    """What is known of a cluster whose leftovers are looked for."""

    uid: str
    name: str
    endpoint: str
    slots: tuple[Slot, ...] = ()

    @property
    def named(self) -> str:
        return self.name


class Stock(Frozen):
    """How many machines there are, whoever has them: in all, and by tag."""

    machines: int
    tagged: dict[str, int]


class MachinePool(Protocol):
    """Bare metal that can be taken and given back, one slot at a time."""

    async def allocate(self, search: Search) -> Machine:
        """A machine for the slot. Asking again returns the same one, and never takes two.
        None free yet is Unavailable; a tag nobody knows is Invalid."""

    async def deploy(self, machine: Machine) -> Machine:
        """Start the installation. Asking again while it runs or after it is success."""

    async def deployed(self, machine: Machine) -> Machine | None:
        """The machine with its address once it is deployed, None while it is not.
        Failed if it never will be, or if it is no longer ours."""

    async def power_off(self, machine: Machine) -> None:
        """Order the machine off, whatever runs on it. Asking again, or of one that is off, is
        success. Failed if it is no longer ours."""

    async def power_on(self, machine: Machine) -> None:
        """Order the machine on. Asking again, or of one that is on, is success. Failed if it is no
        longer ours."""

    async def powered(self, machine: Machine) -> bool:
        """Whether the machine is on, asked of the machine itself. Failed if nobody can tell."""

    async def release(self, slot: Slot) -> None:
        """Give back whatever the slot holds. Holding nothing is success."""

    async def mark_broken(self, spoilt: Spoilt) -> None:
        """Have nobody be given the machine until somebody has looked at it, and take it from the
        slot. One that the slot does not hold any more is success."""

    async def released(self, slot: Slot) -> bool:
        """Whether nothing carries the slot's mark any more and what did is free or another's. What
        was given up on its way back is ordered back again, and is Unavailable: a try of its own."""

    async def sweep(self, mark: ClusterMark) -> tuple[str, ...]:
        """Release everything that carries the cluster's mark, known slot or not.
        The system ids of what is still on its way back; empty when nothing is left."""

    async def stock(self) -> Stock:
        """What there is to take from."""

    async def seen(self, machines: Sequence[Machine]) -> tuple[MachineSeen, ...]:
        """What is said of these machines, all asked for at once; one that is not known any more
        is not in the answer. It may be some seconds old: everybody who looks at about the same
        time shares one answer."""


class Endpoints(Protocol):
    """Names that outlive the machines behind them."""

    async def ensure(self, endpoint: Endpoint) -> None:
        """Make the name exist and lead to exactly these addresses."""

    async def remove(self, endpoint: Endpoint) -> None:
        """Take the name away. No such name is success."""


class Nodes(Protocol):
    """Hosts that are turned into Kubernetes nodes, one command at a time."""

    async def reach(self, machine: Machine) -> bool:
        """Whether the host can be logged into and its first boot is over. The host's key is
        pinned at the first contact; another key later is Failed."""

    async def preflight(self, machine: Machine) -> None:
        """Check that the host can become a node. What it lacks is Failed."""

    async def initialise(self, joining: Joining) -> None:
        """Make the host the first control-plane node and keep its kubeconfig in the vault.
        Asking again waits for the run under way, or finds it done: there is never a second."""

    async def join(self, joining: Joining) -> None:
        """Make the host a node, of the kind its slot says. Asking again as for `initialise`."""

    async def leave(self, joining: Joining) -> None:
        """Take a control-plane host's etcd member out, through another. No member is success, and
        so is that there is no other."""

    async def reset(self, machine: Machine) -> None:
        """Undo what made the host a node, as far as it can be reached."""

    async def foresee(self, upgrading: Upgrading) -> str:
        """What kubeadm itself says of the upgrade, kept as evidence: a short text for the journal.
        It may install the release's kubeadm, and changes nothing else. What kubeadm refuses is
        Failed."""

    async def back_up(self, snapshot: Snapshot) -> str:
        """Take a copy of etcd and of the certificates, and keep it sealed. Says where it is kept.
        Asking again replaces it."""

    async def upgrade(self, upgrading: Upgrading) -> None:
        """Install the release's kubeadm and let it upgrade the node: `apply` on the lead, `node` on
        every other. Asking again waits for the run under way, or finds it done."""

    async def renew_kubelet(self, upgrading: Upgrading) -> None:
        """Install the release's kubelet and kubectl, and restart the kubelet. Asking again finds
        it done."""

    async def see_through(self, upgrading: Upgrading) -> bool:
        """Wait until nothing of this upgrade runs on the host any more; none of it is begun by
        that, nor afterwards by an order that was on its way. Whether the kubelet was renewed."""

    async def inside(self, control_planes: Sequence[Machine]) -> Inside:
        """What the hosts of a cluster's control plane tell of its etcd and their certificates, as
        far as they can be reached; it never fails for one that cannot."""

    async def renew_access(self, control_planes: Sequence[Machine]) -> None:
        """Have the kubeconfig that we keep replaced by one that opens the API for longer, which one
        of these hosts has or makes. Asking again may replace it again."""


class ClusterApi(Protocol):
    """The Kubernetes API of a cluster that we built."""

    async def ready(self, node: Node) -> bool:
        """Whether the API answers /readyz through its endpoint."""

    async def install_network(self, node: Node) -> None:
        """Apply the pod network that goes with the release of the node's slot. Applying it twice
        changes nothing."""

    async def supply(self, supply: Supply) -> None:
        """Tell the cluster of its pool. Telling it twice changes nothing."""

    async def node_ready(self, node: Node) -> str | None:
        """The kubelet's version once the node is Ready, None while it is not."""

    async def api_version(self, node: Node) -> str | None:
        """The version, without a v, of the API server at the first of the node's addresses; None
        while it does not answer."""

    async def serves(self, node: Node) -> bool:
        """Whether the API server at the first of the node's addresses answers, whatever others
        do. Never fails."""

    async def observe(self, node: Node) -> tuple[NodeSeen, ...]:
        """Every node that the API lists, asked for in one call. Unavailable: it did not answer,
        and neither would it answer the cluster's user."""

    async def label(self, node: Node) -> None:
        """Put the slot's labels on the node, and the taints its role has."""

    async def cordon(self, node: Node) -> None:
        """Let no more pods onto the node. One that is closed already is left as it is, and no such
        node is success."""

    async def uncordon(self, node: Node) -> None:
        """Let pods onto the node again, if it was we who closed it. No such node is success."""

    async def disown(self, node: Node) -> None:
        """Forget that we closed the node, if it is open: whoever closes it next is somebody else.
        No such node is success."""

    async def evict(self, node: Node) -> tuple[str, ...]:
        """Ask every pod on the node to leave, except those that belong to it. Those that are still
        there, each with what holds it, if anything does; none once the node is empty or gone."""

    async def delete_node(self, node: Node) -> None:
        """Take the node out of the API. No such node is success."""


class Vault(Protocol):
    """Where secrets lie. Hands and workflows pass references; only a client opens one."""

    async def keep(self, reference: str, secret: bytes) -> None:
        """Seal a secret, replacing what lay there."""

    async def keep_first(self, reference: str, secret: bytes) -> bytes:
        """Seal a secret unless there is one, and return the one that lies there now."""

    async def open(self, reference: str) -> bytes:
        """The secret. NotFound if there is none."""


class Backups(Protocol):
    """Where copies of clusters are kept. Nobody but who has our key can read them."""

    async def keep(self, snapshot: Snapshot, pieces: AsyncIterator[bytes]) -> str:
        """Seal the pieces as they come, and say where they lie. One of the same name is replaced,
        and the oldest of the cluster go when there are too many. If the pieces end in an error,
        nothing is kept and nothing goes."""


class Documents(Protocol):
    """Texts that lie elsewhere. Asking again may bring another text. Whatever cannot be had, or may
    not be asked for, is Invalid: it was the caller who named the URL."""

    async def fetch(self, url: str) -> str:
        """The text that lies there."""

    async def generate(self, url: str, described: Mapping[str, object]) -> str:
        """The text that is made there of a description."""


def ssh_key(cluster_uid: str) -> str:
    """Where the private key lies with which a cluster's hosts are logged into."""
    return f"cluster/{cluster_uid}/ssh-key"


def kubeconfig(cluster_uid: str) -> str:
    """Where the cluster's admin kubeconfig lies."""
    return f"cluster/{cluster_uid}/kubeconfig"


def host_key(machine: Machine) -> str:
    """Where the host's pinned SSH key lies. Another machine in the slot has a place of its own."""
    slot = machine.slot
    return f"{host_keys(slot.cluster_uid, slot.name)}{machine.system_id}"


def host_keys(cluster_uid: str, slot: str) -> str:
    """Below what all host keys lie that were pinned for one slot."""
    return f"cluster/{cluster_uid}/host-key/{slot}/"


def mark(plan: ClusterPlan) -> ClusterMark:
    """How to find everything that belongs to a plan."""
    return ClusterMark(uid=plan.uid, name=plan.name, endpoint=plan.endpoint, slots=plan.slots)
