"""The steps an operation will take, known before the first is taken, and how far along it is.

An outline is a list of legs walked one after the other; the lanes of a leg are walked side by
side. It is what progress is measured against; a test holds it to what the workflows really do."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from domain.cluster import ClusterPlan, PoolChange, Retiring
from domain.frozen import Frozen
from domain.machine import Machine, Role, Slot
from domain.operation import CHANGES, STORED, TRACKED, Kind, Step, StepKey, StepState
from domain.repairs import Mending, Remedy, Repair
from domain.share import Share
from domain.storage_plan import StoragePlan


class Lane(Frozen):
    """Steps taken one after the other."""

    steps: tuple[StepKey, ...]


class Leg(Frozen):
    """Lanes walked side by side."""

    lanes: tuple[Lane, ...] = ()
    queue: tuple[Lane, ...] = ()
    """Beside them more lanes, of which only so many are walked at once."""
    at_once: int = 1


class Estimate(Frozen):
    """How far an operation has come."""

    percent: int
    eta: timedelta | None
    """None when some step has never been learnt from, or nothing is left to do."""


USUALLY: dict[str, float] = {
    "endpoints.ensure": 2,
    "endpoints.remove": 2,
    "machines.allocate": 5,
    "machines.deploy": 5,
    "machines.wait_deployed": 600,
    "machines.release": 120,
    "machines.discard": 120,
    "machines.sweep": 10,
    "machines.power_off": 20,
    "machines.power_on": 10,
    "kubeadm.reach": 120,
    "kubeadm.preflight": 10,
    "kubeadm.initialise": 120,
    "kubeadm.join": 60,
    "kubeadm.leave": 5,
    "kubernetes.wait_api": 20,
    "kubernetes.install_network": 5,
    "kubernetes.wait_node": 30,
    "kubernetes.check_node": 2,
    "kubernetes.wait_return": 180,
    "kubernetes.label": 2,
    "kubernetes.cordon": 1,
    "kubernetes.uncordon": 1,
    "kubernetes.drain": 60,
    "kubernetes.delete_node": 1,
    "kubeadm.reset": 20,
    "kubeadm.foresee": 60,
    "kubeadm.back_up": 20,
    "kubeadm.upgrade": 120,
    "kubeadm.renew_kubelet": 60,
    "kubernetes.wait_api_version": 20,
    "kubernetes.wait_version": 30,
    "kubernetes.supply": 2,
    "storage.ensure_pool": 5,
    "storage.ensure_identity": 1,
    "storage.delete_pool": 5,
    "storage.revoke_identity": 1,
    "storage.check_marking": 1,
    "storage.mark_osd": 1,
    "storage.wait_settled": 600,
    "storage.check_upgrade": 1,
    "storage.begin_upgrade": 2,
    "storage.wait_upgraded": 60,
    "storage.wait_sound": 30,
}
"""Seconds on real metal, to weigh steps by until there are runs to learn from."""

HEARD = frozenset(verb for verb in USUALLY if verb.startswith("kubernetes.")) - {
    "kubernetes.delete_node"
}
"""The verbs that are not done well unless the cluster's API answers."""

METAL = (
    "machines.allocate",
    "machines.deploy",
    "machines.wait_deployed",
    "kubeadm.reach",
    "kubeadm.preflight",
)
"""From a name to a host that can become a node."""

ANSWERING = ("kubernetes.wait_api", "kubernetes.install_network")
"""From an initialised control plane to an API that nodes can join."""

SETTLED = ("kubernetes.wait_node", "kubernetes.label")
"""From joined to a node that takes work."""

RETIREMENT: dict[bool, tuple[str, ...]] = {
    True: (
        "kubernetes.cordon",
        "kubernetes.drain",
        "kubernetes.delete_node",
        "kubeadm.reset",
        "machines.release",
    ),
    False: ("kubernetes.delete_node", "machines.release"),
}
"""From a slot that is to go to a machine of nobody's, by whether its node works."""

RENEWAL: dict[Role, tuple[str, ...]] = {
    Role.CONTROL_PLANE: (
        "kubeadm.upgrade",
        "kubernetes.cordon",
        "kubernetes.drain",
        "kubeadm.renew_kubelet",
        "kubernetes.wait_api_version",
        "kubernetes.wait_version",
        "kubernetes.uncordon",
    ),
    Role.WORKER: (
        "kubeadm.upgrade",
        "kubernetes.cordon",
        "kubernetes.drain",
        "kubeadm.renew_kubelet",
        "kubernetes.wait_version",
        "kubernetes.uncordon",
    ),
}
"""From a node of one release to the same node of the next."""

REVIVAL = (
    "kubernetes.check_node",
    "machines.power_off",
    "machines.power_on",
    "kubernetes.wait_return",
)
"""From a node that is not Ready to one that is, with the machine it has."""

REMEDIES: dict[tuple[Remedy, Role], tuple[str, ...]] = {
    (Remedy.READMIT, Role.WORKER): ("kubernetes.uncordon",),
    (Remedy.READMIT, Role.CONTROL_PLANE): ("kubernetes.uncordon",),
    (Remedy.REVIVE, Role.WORKER): REVIVAL,
    (Remedy.REVIVE, Role.CONTROL_PLANE): REVIVAL,
    (Remedy.FILL, Role.WORKER): (*METAL, "kubeadm.join", *SETTLED),
    (Remedy.FILL, Role.CONTROL_PLANE): (
        "kubeadm.leave",
        "kubernetes.delete_node",
        *METAL,
        "kubeadm.join",
        *SETTLED,
    ),
}
"""What a node that does not work is mended by. What a node whose machine cannot be brought back
takes besides is not foreseen."""

RETIRED_AT_ONCE = 2
"""Nodes of one cluster that are emptied at the same time: their pods need a place on the others."""


def outline(kind: Kind, plan: ClusterPlan | StoragePlan) -> tuple[Leg, ...]:
    """The steps this kind of operation takes when nothing goes wrong."""
    if isinstance(plan, StoragePlan):
        return STORAGE_OUTLINES[kind](plan)
    return OUTLINES[kind](plan)


def read(kind: Kind, plan: str) -> tuple[Leg, ...]:
    """The same, of a plan as it is written down. What is done at the edge is rows, and waiting for
    resource managers: there is no step to it."""
    if kind in TRACKED:
        return ()
    of = StoragePlan if kind in STORED else ClusterPlan
    return outline(kind, of.model_validate_json(plan))


def _create(plan: ClusterPlan) -> tuple[Leg, ...]:
    first, *others = plan.control_plane
    lead = (
        *_lane(plan.endpoint, "endpoints.ensure", turn=2).steps,
        *_lane(first.name, "kubeadm.initialise", *ANSWERING, *SETTLED).steps,
    )
    legs = [
        Leg(lanes=(_lane(plan.endpoint, "endpoints.ensure"),)),
        Leg(
            lanes=_lanes(plan.control_plane, *METAL),
            queue=_lanes(plan.workers, *METAL),
            at_once=plan.workers_at_once,
        ),
        Leg(lanes=(Lane(steps=lead),)),
    ]
    for turn, slot in enumerate(others, start=3):
        name = _lane(plan.endpoint, "endpoints.ensure", turn=turn)
        steps = _lane(slot.name, "kubeadm.join", *SETTLED).steps + name.steps
        legs.append(Leg(lanes=(Lane(steps=steps),)))
    if plan.storage:
        made = ("storage.ensure_pool", "storage.ensure_identity")
        legs.append(Leg(lanes=_share(plan.storage, *made)))
        legs.append(Leg(lanes=(_lane(first.name, "kubernetes.supply"),)))
    if plan.workers:
        joining = _lanes(plan.workers, "kubeadm.join", *SETTLED)
        legs.append(Leg(queue=joining, at_once=plan.workers_at_once))
    return tuple(legs)


def _share(share: Share, of_pool: str, of_identity: str) -> tuple[Lane, Lane]:
    return _lane(share.pool.name, of_pool), _lane(share.identity.entity, of_identity)


def _delete(plan: ClusterPlan) -> tuple[Leg, ...]:
    legs = [
        Leg(lanes=_lanes(plan.slots, "machines.release")),
        Leg(lanes=(_lane(plan.name, "machines.sweep"),)),
        Leg(lanes=(_lane(plan.endpoint, "endpoints.remove"),)),
    ]
    if plan.storage:
        gone = ("storage.delete_pool", "storage.revoke_identity")
        dropped, revoked = _share(plan.storage, *gone)
        legs.append(Leg(lanes=(revoked,) if plan.keeps_data else (revoked, dropped)))
    return tuple(legs)


def _change(plan: ClusterPlan) -> tuple[Leg, ...]:
    change = plan.change or PoolChange(through=())
    adding = _lanes(change.adding, *METAL, "kubeadm.join", *SETTLED)
    legs = [
        Leg(lanes=_lanes(change.opening, "kubernetes.label")),
        Leg(queue=adding, at_once=plan.workers_at_once),
        Leg(lanes=_lanes(change.readmitting, "kubernetes.uncordon")),
        Leg(queue=tuple(map(_retirement, change.retiring)), at_once=RETIRED_AT_ONCE),
        Leg(lanes=tuple(_lane(slot.name, "kubernetes.label", turn=2) for slot in change.closing)),
    ]
    return tuple(leg for leg in legs if leg.lanes or leg.queue)


def _retirement(retiring: Retiring) -> Lane:
    return _lane(retiring.named, *RETIREMENT[retiring.works])


def _upgrade(plan: ClusterPlan) -> tuple[Leg, ...]:
    if plan.upgrade is None:
        return ()
    upgrade = plan.upgrade
    working = [machine.slot for machine in upgrade.working]
    legs = [Leg(lanes=_lanes(working, "kubernetes.wait_node"))]
    if upgrade.forewarned:
        legs.append(Leg(lanes=_lanes(working[:1], "kubeadm.foresee")))
    if upgrade.leads:
        legs.append(Leg(lanes=_lanes(working[:1], "kubeadm.back_up")))
    legs += [Leg(lanes=(_renewal(machine),)) for machine in upgrade.control_plane]
    asked = [machine.slot for machine in upgrade.through[:1]]
    legs.append(Leg(lanes=_lanes(asked, "kubernetes.install_network")))
    for pool in upgrade.pools:
        legs.append(Leg(queue=tuple(map(_renewal, pool.machines)), at_once=upgrade.at_once))
    return tuple(leg for leg in legs if leg.lanes or leg.queue)


def _renewal(machine: Machine) -> Lane:
    return _lane(machine.named, *RENEWAL[machine.slot.role])


def _repair(plan: ClusterPlan) -> tuple[Leg, ...]:
    """After each control plane that had not answered the endpoint leads to it again."""
    legs, turn = [], 0
    workers = []
    for each in (plan.repair or Repair()).mending:
        lane = _mended(each)
        if each.machine.slot.role is Role.WORKER:
            workers.append(lane)
            continue
        if each.remedy is not Remedy.READMIT:
            turn += 1
            name = _lane(plan.endpoint, "endpoints.ensure", turn=turn)
            lane = Lane(steps=lane.steps + name.steps)
        legs.append(Leg(lanes=(lane,)))
    if workers:
        legs.append(Leg(queue=tuple(workers), at_once=plan.workers_at_once))
    return tuple(legs)


def _mended(each: Mending) -> Lane:
    return _lane(each.named, *REMEDIES[each.remedy, each.machine.slot.role])


def _marking(plan: StoragePlan) -> tuple[Leg, ...]:
    """One after the other they are marked, and then everything is waited for at once."""
    if plan.marking is None:
        return ()
    named = [mark.named for mark in plan.marking.marks]
    return (
        Leg(lanes=(_lane(plan.cluster, "storage.check_marking"),)),
        *(Leg(lanes=(_lane(name, "storage.mark_osd"),)) for name in named),
        Leg(lanes=tuple(_lane(name, "storage.wait_settled") for name in named)),
    )


def _sharing(plan: StoragePlan) -> tuple[Leg, ...]:
    if plan.share is None:
        return ()
    lanes = _share(plan.share, "storage.ensure_pool", "storage.ensure_identity")
    return tuple(Leg(lanes=(lane,)) for lane in lanes)


def _dropping(plan: StoragePlan) -> tuple[Leg, ...]:
    if plan.share is None:
        return ()
    lanes = _share(plan.share, "storage.delete_pool", "storage.revoke_identity")
    return tuple(Leg(lanes=(lane,)) for lane in reversed(lanes))


def _renewing(plan: StoragePlan) -> tuple[Leg, ...]:
    """How often it has to be waited is not foreseen."""
    verbs = ("check_upgrade", "begin_upgrade", "wait_upgraded", "wait_sound")
    lane = _lane(plan.cluster, *(f"storage.{verb}" for verb in verbs))
    return (Leg(lanes=(lane,)),) if plan.target else ()


OUTLINES = {
    Kind.CREATE_CLUSTER: _create,
    Kind.DELETE_CLUSTER: _delete,
    **dict.fromkeys(CHANGES, _change),
    Kind.UPGRADE_CLUSTER: _upgrade,
    Kind.REPAIR_CLUSTER: _repair,
}

STORAGE_OUTLINES = {
    Kind.TAKE_OSDS_OUT: _marking,
    Kind.TAKE_OSDS_IN: _marking,
    Kind.CREATE_POOL: _sharing,
    Kind.DELETE_POOL: _dropping,
    Kind.UPGRADE_STORAGE: _renewing,
}


def _lane(subject: str, *verbs: str, turn: int = 1) -> Lane:
    return Lane(steps=tuple(StepKey(verb=verb, subject=subject, turn=turn) for verb in verbs))


def _lanes(slots: Iterable[Slot], *verbs: str) -> tuple[Lane, ...]:
    return tuple(_lane(slot.name, *verbs) for slot in slots)


def keys(legs: Iterable[Leg]) -> list[StepKey]:
    """Every step of an outline, in the order in which people are shown them."""
    return [key for leg in legs for lane in leg.lanes + leg.queue for key in lane.steps]


def told(legs: tuple[Leg, ...], seen: Iterable[Step]) -> list[Step]:
    """The steps seen, in the outline's order, with what is still to come; what the outline did
    not foresee (another machine, an undo) comes last, in the order in which it began."""
    by_key = {step.key: step for step in seen}
    foreseen = [by_key.pop(key, Step(key=key, state=StepState.PENDING)) for key in keys(legs)]
    return foreseen + list(by_key.values())


def progress(
    legs: tuple[Leg, ...], seen: Iterable[Step], learnt: Mapping[str, float], now: datetime
) -> Estimate:
    """Percent and time left, by what the same steps usually take (`learnt`, seconds per verb).

    Percent stays below 100 while anything is left. A step that takes longer than usual counts as
    nearly done, so that the estimate never waits for time that has passed."""
    by_key = {step.key: step for step in seen}

    def usual(key: StepKey) -> float:
        return max(learnt.get(key.verb, USUALLY.get(key.verb, 10.0)), 0.001)

    def left(key: StepKey) -> float:
        step = by_key.get(key)
        if step is None or step.started is None:
            return usual(key)
        if step.done:
            return 0.0
        passed = max((now - step.started).total_seconds(), 0.0)  # clocks differ
        return max(usual(key) - passed, 0.05 * usual(key))

    def walk(leg: Leg) -> float:
        alone = [sum(map(left, lane.steps)) for lane in leg.lanes]
        queued = [sum(map(left, lane.steps)) for lane in leg.queue]
        return max(*alone, *queued, sum(queued) / leg.at_once, 0.0)

    everything = keys(legs)
    whole = sum(map(usual, everything))
    share = 1 - sum(map(left, everything)) / whole if whole else 0.0
    seconds = sum(map(walk, legs))
    known = all(key.verb in learnt for key in everything)
    return Estimate(
        percent=min(99, max(0, int(100 * share))),
        eta=timedelta(seconds=seconds) if known and seconds else None,
    )
