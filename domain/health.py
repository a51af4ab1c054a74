"""How a cluster is, by what is seen of it: pure decisions over rows and one look.

The rule of thumb: can its user's kubectl work? No: ERROR. Yes, and something is short of what is
wanted: DEGRADED. While an operation runs, or before a first one has made the cluster, none of
this applies: the phase is the operation's."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from domain.cluster import Phase
from domain.counting import several
from domain.frozen import Frozen
from domain.machine import Machine, Role, SlotPhase, SlotState
from domain.ports import Endpoint, Node
from domain.seen import Inside, NodeSeen, Readiness, Sight

JUDGED = frozenset({Phase.RUNNING, Phase.DEGRADED, Phase.ERROR})
"""The phases that follow from what is seen."""

DEPLOYED = "Deployed"
"""What MAAS calls the machine of a node that works."""

NODES: dict[Readiness, SlotPhase] = {
    Readiness.READY: SlotPhase.HEALTHY,
    Readiness.NOT_READY: SlotPhase.JOINED,
    Readiness.UNKNOWN: SlotPhase.LOST,
    Readiness.ABSENT: SlotPhase.LOST,
}
"""What a slot is whose node was seen so."""

WATCHED = frozenset({*NODES.values(), SlotPhase.DRAINING})
"""The phases of slots that hold a node. The others are between two operations what the last one
left of them, and no look changes that."""

READY = frozenset({SlotPhase.HEALTHY, SlotPhase.DRAINING})
"""Those of them whose node is Ready."""

LACKS: dict[SlotPhase, str] = {
    SlotPhase.PLANNED: "has no machine",
    SlotPhase.ALLOCATED: "is no node yet",
    SlotPhase.DEPLOYING: "is no node yet",
    SlotPhase.DEPLOYED: "is no node yet",
    SlotPhase.JOINED: "is not Ready",
    SlotPhase.LOST: "is lost",
    SlotPhase.DRAINING: "takes no pods",
    SlotPhase.FAILED: "did not become a node",
    SlotPhase.RELEASING: "is not given back yet",
    SlotPhase.RELEASED: "has no machine",
}
"""What is wrong with a slot, by its phase; with one that is HEALTHY nothing is."""

MOST_NAMED = 6
"""So many troubles are told in full."""

TROUBLE_LENGTH = 600


class Tolerance(Frozen):
    """How much is borne before it is called by its name."""

    silent_seconds: float = 120.0
    """How long an API may give no answer before the cluster is in ERROR."""
    expiry_days: float = 30.0
    """How long before a certificate expires that is told."""


class Finding(Frozen):
    """How a cluster is: what its rows say, or what they should say."""

    phase: Phase
    trouble: str = ""
    """What is not as it should be, for people; empty if all is well."""
    silent_since: datetime | None = None
    """Since when its API has given no answer. None: it did when it was last asked."""
    why: str = ""
    """Why there was none."""
    inside: Inside | None = None
    slots: tuple[SlotState, ...] = ()


class Watched(Frozen):
    """A cluster as its rows have it, for whoever looks at it."""

    uid: str
    name: str
    endpoint: str
    version: str
    """What its nodes are to run."""
    operation: str
    """The operation that runs on it, or the last one that did."""
    busy: bool
    """Whether that one still runs."""
    gated: bool = False
    """Whether it stands before a gate, so that nothing is done until somebody approves."""
    paused: bool = False
    """Whether somebody paused it and its steps have ended, so that nothing is done until it is
    resumed."""
    published: bool
    """Whether its API has ever answered."""
    wanted: Mapping[str, int] = {}
    """How many nodes are wanted of each pool of workers."""
    inspected: datetime | None = None
    """When its hosts were last asked."""
    confirmed: datetime | None = None
    """When it was last seen that all of this is so."""
    led: tuple[str, ...] = ()
    """Where the endpoint was last led to since that operation. Empty: nobody has looked since."""
    finding: Finding

    @property
    def named(self) -> str:
        return self.name

    @property
    def stands(self) -> bool:
        """Whether there is a cluster to look at: one that came up once and is not being deleted."""
        return self.published and self.finding.phase in {*JUDGED, Phase.RECONCILING}

    @property
    def judged(self) -> bool:
        """Whether what is seen now says how it is: no operation has the say, or one that waits."""
        resting = not self.busy and self.finding.phase in JUDGED
        waiting = self.waits and self.finding.phase is Phase.RECONCILING
        return self.published and (resting or waiting)

    @property
    def waits(self) -> bool:
        """Whether its operation does nothing until somebody says so."""
        return self.gated or self.paused

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Whatever fills its slots."""
        return tuple(state.filled_by for state in self.finding.slots if state.system_id)

    @property
    def control_planes(self) -> tuple[Machine, ...]:
        """The hosts of its control plane that are nodes, those that work first."""
        masters = [
            state
            for state in self.finding.slots
            if state.slot.role is Role.CONTROL_PLANE and state.phase in WATCHED and state.address
        ]
        masters.sort(key=lambda state: state.phase is not SlotPhase.HEALTHY)
        return tuple(state.filled_by for state in masters)

    @property
    def node(self) -> Node:
        """A node of it, to ask the API about all of them."""
        addresses = tuple(machine.address for machine in self.control_planes)
        slot = self.finding.slots[0].slot
        return Node(slot=slot, endpoint=self.endpoint, addresses=addresses)


def leading(watched: Watched, finding: Finding) -> Endpoint | None:
    """Where the endpoint should lead to: to the control planes that are Ready, and of those to the
    ones whose API server answers, if there is one. None: it does, or nobody knows of one that is
    Ready, and the last ones are the best guess. While an operation is paused that is its business:
    it may be about to take away one that is Ready."""
    if watched.paused:
        return None
    ready = [state for state in _masters(finding.slots) if state.address]
    serving = [state for state in ready if state.node is None or state.node.serves]
    addresses = tuple(state.address for state in serving or ready)
    if not addresses or set(addresses) == set(watched.led):
        return None
    return Endpoint(cluster_uid=watched.uid, name=watched.endpoint, addresses=addresses)


def uncounted(slots: Iterable[SlotState], inside: Inside | None) -> tuple[str, ...]:
    """The control planes that are Ready and that etcd, whose members are known, does not count.
    One that was just added has no name yet, and is told by its address."""
    members = inside.members if inside else None
    if not members:
        return ()
    counted = {member.name for member in members}
    nameless = " ".join(counted)
    return tuple(
        state.slot.name
        for state in _masters(slots)
        if state.slot.name not in counted and f"//{state.address}:" not in nameless
    )


def _masters(slots: Iterable[SlotState]) -> list[SlotState]:
    """The control planes that are Ready."""
    return [
        state for state in slots if state.slot.role is Role.CONTROL_PLANE and state.phase in READY
    ]


def is_expiring(inside: Inside | None, now: datetime, tolerance: Tolerance) -> bool:
    """Whether the kubeconfig that we keep has to be renewed."""
    until = inside.admitted_until if inside else None
    return until is not None and until - now <= timedelta(days=tolerance.expiry_days)


def judge(watched: Watched, sight: Sight, tolerance: Tolerance) -> Finding:
    """How the cluster is after this look. Judging the same sight again finds nothing new. Of one
    whose operation waits its nodes and troubles are told, and the phase stays the operation's."""
    before = watched.finding
    inside = sight.inside.or_else(before.inside) if sight.inside else before.inside
    version = "" if watched.waits else watched.version
    if not sight.unanswered:
        slots = tuple(_looked_at(state, sight) for state in before.slots)
        short = [
            *(trouble for state in slots for trouble in _troubles_of(state, version)),
            *_of_pools(slots, watched.wanted),
            *_of_etcd(slots, inside),
        ]
        phase = Phase.DEGRADED if short else Phase.RUNNING
        phase = before.phase if watched.waits else phase
        trouble = _told([*short, *_of_certificates(inside, sight.taken, tolerance)])
        return Finding(phase=phase, trouble=trouble, inside=inside, slots=slots)
    since = before.silent_since or sight.taken
    why = before.why or sight.unanswered
    quorum = inside is None or inside.has_quorum
    patience = timedelta(seconds=tolerance.silent_seconds)
    down = before.phase is Phase.ERROR or not quorum or sight.taken - since >= patience
    silence = silent(since, why)
    return Finding(
        phase=Phase.ERROR if down and not watched.waits else before.phase,
        trouble=_told([silence] if quorum else [_lost_quorum(inside), silence]),
        silent_since=since,
        why=why,
        inside=inside,
        slots=tuple(_unheard(state, sight, down) for state in before.slots),
    )


def silent(since: datetime, why: str) -> str:
    """How a silence is called, wherever it is told of."""
    return f"the API has given no answer since {since:%Y-%m-%d %H:%M:%S} UTC: {why}"


def unheard(states: Iterable[SlotState]) -> tuple[SlotState, ...]:
    """The slots as they are to be shown while the API says nothing: what was known of nodes is no
    news. What is written of them stays until the silence counts as down."""
    return tuple(
        state.model_copy(update={"phase": SlotPhase.LOST}) if state.phase in WATCHED else state
        for state in states
    )


def _looked_at(state: SlotState, sight: Sight) -> SlotState:
    """The slot with what was seen of its machine and, if it holds a node, of that."""
    state = _with_machine(state, sight)
    node = sight.node(state.slot.name)
    if node is None or state.phase not in WATCHED:
        return state
    phase = _phase_of(state, node)
    kubelet = node.kubelet or state.kubelet
    return state.model_copy(update={"node": node, "kubelet": kubelet, "phase": phase})


def _phase_of(state: SlotState, node: NodeSeen) -> SlotPhase:
    """A node that works and that somebody closes to pods is left so, and told. One that comes back
    closed may have been closed by an operation that could not open it again: a repair does."""
    phase = NODES[node.readiness]
    closed = phase is SlotPhase.HEALTHY and not node.schedulable
    return SlotPhase.DRAINING if closed and state.phase is not SlotPhase.HEALTHY else phase


def _unheard(state: SlotState, sight: Sight, down: bool) -> SlotState:
    """The slot while the API says nothing: once that counts as down, nobody knows of its node."""
    state = _with_machine(state, sight)
    if not down or state.phase not in WATCHED:
        return state
    unknown = NodeSeen(
        name=state.slot.name,
        readiness=Readiness.UNKNOWN,
        reason="the API gives no answer",
        kubelet=state.kubelet,
        schedulable=state.node is None or state.node.schedulable,
    )
    return state.model_copy(update={"phase": SlotPhase.LOST, "node": unknown})


def _with_machine(state: SlotState, sight: Sight) -> SlotState:
    """The slot with what MAAS says. Its word for a machine it does not know is none."""
    machine = sight.machine(state.slot.name, state.system_id) if state.system_id else None
    if machine is None:
        return state
    return state.model_copy(
        update={
            "machine": machine,
            "hostname": machine.hostname or state.hostname,
            "address": machine.address or state.address,
            "status": machine.status,
        }
    )


def _troubles_of(state: SlotState, version: str) -> Iterable[str]:
    """What is wrong with a slot. Empty as the version: they differ while they are upgraded."""
    name = state.slot.name
    because = f" ({state.node.reason})" if state.node and state.node.reason else ""
    if state.phase is not SlotPhase.HEALTHY:
        yield f"{name} {LACKS[state.phase]}{because if state.phase in WATCHED else ''}"
    elif state.node is not None and not state.node.schedulable:
        yield f"{name} takes no pods: somebody closed it"
    if state.phase in READY and state.node is not None and not state.node.serves:
        yield f"the API server on {name} does not answer"
    if version and state.phase is SlotPhase.HEALTHY and state.kubelet not in ("", version):
        yield f"{name} runs {state.kubelet}, not {version}"
    if state.phase in WATCHED:
        yield from _of_machine(state)


def _of_machine(state: SlotState) -> Iterable[str]:
    """What is wrong with the metal of a node, by what MAAS said last."""
    machine = state.machine
    if machine is None or machine.system_id != state.system_id:
        return
    whose = f"machine {machine.system_id} of {state.slot.name}"
    if not machine.status:
        yield f"{whose} is gone from MAAS"
    elif not machine.ours:
        yield f"{whose} was taken from us in MAAS, where it is {machine.status}"
    elif machine.status != DEPLOYED:
        yield f"{whose} is {machine.status} in MAAS"
    elif state.phase is not SlotPhase.HEALTHY and machine.power == "off":
        yield f"{whose} is off"


def _of_pools(slots: Iterable[SlotState], wanted: Mapping[str, int]) -> Iterable[str]:
    held = Counter(state.slot.pool for state in slots if state.slot.role is Role.WORKER)
    for pool in sorted({*wanted, *held}):
        if held[pool] != wanted.get(pool, 0):
            places, are = several(held[pool], "place"), several(wanted.get(pool, 0), "is", "are")
            yield f"{pool} has {places}, and {are} wanted"


def _of_etcd(slots: Sequence[SlotState], inside: Inside | None) -> Iterable[str]:
    masters = {state.slot.name for state in slots if state.slot.role is Role.CONTROL_PLANE}
    for name in inside.silent if inside else ():
        stranger = "" if name in masters else ", which is no node of this cluster,"
        yield f"etcd member {name}{stranger} does not answer"
    for name in uncounted(slots, inside):
        yield f"{name} is no member of etcd"


def _of_certificates(inside: Inside | None, now: datetime, tolerance: Tolerance) -> Iterable[str]:
    if inside is None:
        return
    if inside.expires and inside.expires - now <= timedelta(days=tolerance.expiry_days):
        day = f"{inside.expires:%Y-%m-%d}"
        yield f"certificates of {inside.expires_on} expire on {day}; an upgrade renews them"
    half = timedelta(days=tolerance.expiry_days / 2)
    if inside.admitted_until and inside.admitted_until - now <= half:
        day = f"{inside.admitted_until:%Y-%m-%d}"
        yield f"the kubeconfig opens nothing after {day}, and no control plane has renewed it yet"


def _lost_quorum(inside: Inside | None) -> str:
    members = inside.members or () if inside else ()
    answering = sum(member.answers for member in members)
    return f"etcd has lost its quorum: {answering} of {len(members)} members answer"


def _told(troubles: list[str]) -> str:
    more = f"; and {len(troubles) - MOST_NAMED} more" if len(troubles) > MOST_NAMED else ""
    return "; ".join(troubles[:MOST_NAMED])[:TROUBLE_LENGTH] + more
