"""Machines: the place in a cluster that one fills (`Slot`) and the metal that fills it."""

from enum import StrEnum

from domain.frozen import Frozen
from domain.releases import Release
from domain.seen import MachineSeen, NodeSeen


class Sighting(StrEnum):
    """What a pair of hands reports of the step it carries out."""

    BEGAN = "began"
    ENDED = "ended"
    STUMBLED = "stumbled"


class Erasing(StrEnum):
    """What becomes of the disks of a machine that is given back.

    NONE    nothing: whoever installs it next writes over them
    QUICK   what says what is on them is wiped
    SECURE  they are told to erase themselves, and are overwritten where they cannot
    FULL    all of them is overwritten
    """

    NONE = "none"
    QUICK = "quick"
    SECURE = "secure"
    FULL = "full"


class Role(StrEnum):
    CONTROL_PLANE = "control-plane"
    WORKER = "worker"


class Label(Frozen):
    """A Kubernetes label that a node carries."""

    name: str
    value: str


class Slot(Frozen):
    """A place for one machine in one cluster. Its name is the node's name and never changes,
    whatever metal fills it; with the cluster's uid it is how we know our machines again."""

    cluster_uid: str
    cluster: str
    name: str
    role: Role
    pool: str
    instance_type: str = ""
    labels: tuple[Label, ...] = ()
    release: Release
    public_key: str
    """Who may log in: the OpenSSH public key whose private half is in the vault."""

    @property
    def named(self) -> str:
        """What steps done to it are known by."""
        return self.name

    @property
    def agent_name(self) -> str:
        """The mark a machine carries in MAAS while it fills this slot."""
        return f"kaas-{self.cluster_uid[:8]}-{self.name}"


class Machine(Frozen):
    """What fills a slot: which metal, and how MAAS spoke of it last."""

    slot: Slot
    system_id: str
    hostname: str = ""
    address: str = ""
    """Empty until MAAS shows one: addresses are claimed when the deployment starts."""
    status: str = ""
    """MAAS's own word, verbatim: `Allocated`, `Failed deployment`."""

    @property
    def named(self) -> str:
        return self.slot.name


class Search(Frozen):
    """A machine wanted for a slot, and the ones that have already let it down."""

    slot: Slot
    avoid: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        return self.slot.name


class SlotPhase(StrEnum):
    """How far a slot has come.

    PLANNED     a name, no machine
    ALLOCATED   a machine is ours, nothing runs on it
    DEPLOYING   it is installing itself
    DEPLOYED    it runs, and is not a node yet
    JOINED      it is a node, not Ready
    HEALTHY     it is a Ready node
    LOST        it is a node that nobody has heard of for a while, or that is gone from the API
    DRAINING    it is a Ready node that takes no pods: it is emptied, or was and is closed
    FAILED      it did not deploy or join; being given back
    RELEASING   being given back
    RELEASED    given back; the slot is empty for good or until it is filled again
    """

    PLANNED = "planned"
    ALLOCATED = "allocated"
    DEPLOYING = "deploying"
    DEPLOYED = "deployed"
    JOINED = "joined"
    HEALTHY = "healthy"
    LOST = "lost"
    DRAINING = "draining"
    FAILED = "failed"
    RELEASING = "releasing"
    RELEASED = "released"


class LeftBehind(Frozen):
    """A machine that was not given back, or something else that is still there."""

    name: str
    """The slot's, or what it is."""
    system_id: str = ""
    hostname: str = ""
    agent_name: str = ""
    """The mark it carries in MAAS."""
    why: str = ""

    @property
    def said(self) -> str:
        metal = f" ({self.system_id})" if self.system_id else ""
        return f"{self.name}{metal}: {self.why}"


class SlotState(Frozen):
    """What the store knows of one slot now."""

    slot: Slot
    phase: SlotPhase
    system_id: str = ""
    hostname: str = ""
    address: str = ""
    status: str = ""
    kubelet: str = ""
    """The version the node's kubelet reports, without a v. Empty until it has joined."""
    node: NodeSeen | None = None
    """The node as it was last looked at. None: it never was, since it became one."""
    machine: MachineSeen | None = None
    """The machine likewise."""

    @property
    def filled_by(self) -> Machine:
        """What fills it. Without a system id: nothing that we know of."""
        return Machine(
            slot=self.slot,
            system_id=self.system_id,
            hostname=self.hostname,
            address=self.address,
            status=self.status,
        )

    @property
    def version(self) -> str:
        """What its node runs: what the kubelet said, or else what it was made with."""
        return self.kubelet or self.slot.release.version


FILLED: dict[tuple[str, Sighting], SlotPhase] = {
    ("machines.allocate", Sighting.ENDED): SlotPhase.ALLOCATED,
    ("machines.deploy", Sighting.ENDED): SlotPhase.DEPLOYING,
    ("machines.wait_deployed", Sighting.ENDED): SlotPhase.DEPLOYED,
    ("kubeadm.initialise", Sighting.ENDED): SlotPhase.JOINED,
    ("kubeadm.join", Sighting.ENDED): SlotPhase.JOINED,
    ("kubernetes.wait_node", Sighting.ENDED): SlotPhase.HEALTHY,
    ("kubernetes.wait_version", Sighting.ENDED): SlotPhase.HEALTHY,
    ("kubernetes.check_node", Sighting.ENDED): SlotPhase.HEALTHY,
    ("kubernetes.wait_return", Sighting.ENDED): SlotPhase.HEALTHY,
    ("kubernetes.cordon", Sighting.ENDED): SlotPhase.DRAINING,
    ("kubernetes.uncordon", Sighting.ENDED): SlotPhase.HEALTHY,
    ("machines.release", Sighting.BEGAN): SlotPhase.RELEASING,
    ("machines.release", Sighting.ENDED): SlotPhase.RELEASED,
    ("machines.discard", Sighting.BEGAN): SlotPhase.RELEASING,
    ("machines.discard", Sighting.ENDED): SlotPhase.RELEASED,
}
"""What a step seen says about the slot it was done to. Other sightings say nothing new."""

STUMBLED: dict[str, SlotPhase] = {
    "machines.deploy": SlotPhase.FAILED,
    "machines.wait_deployed": SlotPhase.FAILED,
    "kubeadm.reach": SlotPhase.FAILED,
    "kubeadm.preflight": SlotPhase.FAILED,
    "kubernetes.wait_node": SlotPhase.JOINED,
}
"""What a slot is once such a step has stumbled for good: its machine, not the plan, is at fault."""


UNMOVED: dict[tuple[str, Sighting], frozenset[SlotPhase]] = {
    ("kubernetes.wait_node", Sighting.ENDED): frozenset({SlotPhase.DRAINING}),
    ("kubernetes.wait_node", Sighting.STUMBLED): frozenset({SlotPhase.HEALTHY}),
    ("kubernetes.wait_version", Sighting.ENDED): frozenset({SlotPhase.DRAINING}),
    ("kubernetes.cordon", Sighting.ENDED): frozenset(SlotPhase) - {SlotPhase.HEALTHY},
    ("kubernetes.uncordon", Sighting.ENDED): frozenset(SlotPhase) - {SlotPhase.DRAINING},
}
"""The phases of which such a sighting says nothing: a node that is Ready may be closed to pods all
the same, and one that works is not given up for one look. A node that is closed or open need not be
Ready, nor heard of: only one that works is emptied, and only what was is open again."""


def filled(verb: str, sighting: Sighting, *, final: bool) -> SlotPhase | None:
    """What a slot is after a step was seen; None: as it was. An undo's release counts like any
    other."""
    if sighting is Sighting.STUMBLED and final:
        return STUMBLED.get(verb)
    return FILLED.get((verb, sighting))
