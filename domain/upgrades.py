"""Upgrades: to which versions a cluster may be brought, and which nodes have their turn when."""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from domain.admission import ADMISSION, Asked, Verdict
from domain.cluster import Cluster, DrainPolicy, PoolUpgrade, Upgrade
from domain.errors import Conflict, Invalid, Violation
from domain.machine import Role, SlotPhase, SlotState
from domain.releases import Catalogue, Release, Version, known

SKEW = 3
"""By so many minor versions a kubelet may be older than the API."""

OLD_SKEW = 2
TOLERANT = (1, 25)
"""The first version of a kubelet to which the longer skew applies."""

OPEN = frozenset(
    phase for phase, row in ADMISSION.items() if row[Asked.UPGRADE] is Verdict.ACCEPTED
)
"""The phases in which an upgrade may be begun: the API works, and nothing else is being done."""

TOUCHES = "kubeadm.upgrade"
"""The first step that changes anything about a node."""

HOLDING = frozenset({SlotPhase.JOINED, SlotPhase.HEALTHY, SlotPhase.LOST, SlotPhase.DRAINING})
"""The phases in which there is a node in a slot, Ready or not."""


def offered(
    cluster: Cluster,
    slots: Sequence[SlotState],
    catalogue: Catalogue,
    *,
    silent: Collection[str] = (),
) -> list[str]:
    """What the cluster can be upgraded to now, oldest first: the same minor version or the next, on
    the series its machines run, and not too new for any kubelet. Of an upgrade that is not finished
    just its version. None while something is being done to the cluster, or while its control plane
    is not whole or a member of its etcd `silent`."""
    if cluster.phase not in OPEN:
        return []
    newer = [each for each in fitting(slots, catalogue) if each.version != cluster.version]
    return known(each for each in newer if refusal(cluster, slots, each, silent=silent) is None)


def hindrance(
    cluster: Cluster,
    slots: Sequence[SlotState],
    catalogue: Catalogue,
    *,
    silent: Collection[str] = (),
) -> str:
    """Why nothing is offered, in a sentence; empty if something is."""
    if offered(cluster, slots, catalogue, silent=silent):
        return ""
    if cluster.phase not in OPEN:
        return f"cluster {cluster.name} is {cluster.phase}"
    current = Version.parse(cluster.version)
    newer = [each for each in fitting(slots, catalogue) if current < Version.parse(each.version)]
    wanted = [each for each in newer if cluster.pending in ("", each.version)]
    for refused in (refusal(cluster, slots, each, silent=silent) for each in wanted):
        if refused is not None:
            return refused.message
    if cluster.pending:
        return f"the catalogue does not offer {cluster.pending} any more"
    return f"the catalogue offers nothing newer than {cluster.version}"


def fitting(slots: Sequence[SlotState], catalogue: Catalogue) -> list[Release]:
    """Every version of the catalogue, oldest first, for the series that the machines run if there
    is such an entry: a machine keeps its system for as long as it is a node."""
    return [fit(slots, version, catalogue) for version in known(catalogue.releases)]


def fit(slots: Sequence[SlotState], version: str, catalogue: Catalogue) -> Release:
    """That version for the series that the machines run, or else as it is offered."""
    return catalogue.choose(version, next((each.slot.release.series for each in slots), ""))


def chosen(cluster: str, version: str, catalogue: Catalogue) -> str:
    """The version that is asked for. Invalid if it is none of the catalogue, or not named."""
    try:
        if version:
            return catalogue.choose(version).version
        wrong = "is required"
    except Invalid as error:
        wrong = error.message
    field = Violation(field="version", description=wrong)
    raise Invalid(f"version: {wrong}", subject=cluster, violations=[field])


def refusal(
    cluster: Cluster,
    slots: Sequence[SlotState],
    release: Release,
    *,
    silent: Collection[str] = (),
) -> Conflict | None:
    """Why a cluster that nothing is being done to is not upgraded to this release; None: it may be.
    What was begun may be gone on with, also where it left the control plane in pieces, unless that
    takes a control plane down while a member of etcd other than its own is `silent`."""
    masters = [each for each in slots if each.slot.role is Role.CONTROL_PLANE]
    resumes = cluster.pending == release.version
    if cluster.pending and not resumes:
        return _pending(cluster)
    there = [each for each in masters if each.phase in HOLDING]
    whole = len(there) == len(masters) and all(e.phase is SlotPhase.HEALTHY for e in there)
    if not there or not (resumes or whole):
        return _in_pieces(cluster, masters)
    first = [each.slot.name for each in behind(masters, release.version)][:1]
    unheard = sorted(set(silent).difference(first if resumes else ()))
    if unheard and (first or not resumes):
        return _unheard(cluster, unheard)
    return None if resumes else _out_of_reach(cluster, slots, release)


def _out_of_reach(
    cluster: Cluster, slots: Sequence[SlotState], release: Release
) -> Conflict | None:
    current, to = Version.parse(cluster.version), Version.parse(release.version)
    holding = [each for each in slots if each.phase in HOLDING]
    if to == current:
        return None if behind(slots, release.version) else _already_there(cluster)
    if to < current:
        return _downgrade(cluster, release)
    if not reaches(current, to):
        return _skipped(cluster, release)
    for each in holding:
        if not tolerates(Version.parse(each.version), to):
            return _left_behind(cluster, each, release)
        if each.slot.release.series != release.series:
            return _other_series(cluster, each, release)
    return None


def reaches(current: Version, to: Version) -> bool:
    """Whether `to` is newer by a patch or by one minor version: none may be skipped."""
    return current < to and to.major == current.major and to.minor <= current.minor + 1


def tolerates(kubelet: Version, api: Version) -> bool:
    """Whether a kubelet may talk to an API of that version."""
    skew = SKEW if (kubelet.major, kubelet.minor) >= TOLERANT else OLD_SKEW
    return kubelet.major == api.major and api.minor - skew <= kubelet.minor


def behind(slots: Iterable[SlotState], version: str) -> list[SlotState]:
    """The nodes that are not Ready, open to pods and of that version."""
    return [
        each
        for each in slots
        if each.phase in HOLDING
        and (each.phase is not SlotPhase.HEALTHY or each.version != version)
    ]


def joining(slots: Iterable[SlotState]) -> Release:
    """What a node that joins now has to run: the release of the control plane, and of one that is
    half upgraded the older. It is never newer than any API server."""
    masters = [each for each in slots if each.slot.role is Role.CONTROL_PLANE]
    there = [each for each in masters if each.phase in HOLDING] or masters
    return min((each.slot.release for each in there), key=lambda it: Version.parse(it.version))


def planned(
    cluster: Cluster,
    slots: Sequence[SlotState],
    release: Release,
    *,
    at_once: int,
    drain_seconds: float,
    drain_policy: DrainPolicy = DrainPolicy.PROCEED,
) -> Upgrade:
    """Who has to be upgraded, and in which order: the control planes, then pool by pool, in the
    order in which the slots are given. Nodes that run the release already are left in peace."""
    left = behind(slots, release.version)
    masters = [each for each in slots if each.slot.role is Role.CONTROL_PLANE]
    workers = [each for each in left if each.slot.role is Role.WORKER]
    todo = [each for each in left if each.slot.role is Role.CONTROL_PLANE]
    there = [each for each in slots if each.phase in HOLDING]
    return Upgrade(
        release=release,
        before=cluster.version,
        working=tuple(each.filled_by for each in masters if each.phase is SlotPhase.HEALTHY),
        control_plane=tuple(each.filled_by for each in todo),
        pools=tuple(
            PoolUpgrade(name=pool, machines=tuple(each.filled_by for each in members))
            for pool, members in groupby(workers, key=lambda each: each.slot.pool)
        ),
        leads=len(todo) == sum(each.phase in HOLDING for each in masters),
        resumed=bool(cluster.pending),
        done=len(there) - len(left),
        at_once=at_once,
        drain_seconds=drain_seconds,
        drain_policy=drain_policy,
    )


def _pending(cluster: Cluster) -> Conflict:
    return Conflict(
        f"cluster {cluster.name} is between {cluster.version} and {cluster.pending}",
        subject=cluster.name,
        reason="UPGRADE_PENDING",
        do=f"windlass cluster upgrade {cluster.name} {cluster.pending} finishes that first",
        facts=_facts(cluster),
    )


def _in_pieces(cluster: Cluster, masters: Sequence[SlotState]) -> Conflict:
    lacking = [each for each in masters if each.phase is not SlotPhase.HEALTHY]
    named = ", ".join(f"{each.slot.name} is {each.phase}" for each in lacking)
    return Conflict(
        f"the control plane of {cluster.name} is not whole: {named}",
        subject=cluster.name,
        reason="CONTROL_PLANE_NOT_WHOLE",
        do=f"make it whole first: windlass cluster nodes {cluster.name} shows it",
        facts=_facts(cluster),
    )


def _unheard(cluster: Cluster, unheard: Sequence[str]) -> Conflict:
    return Conflict(
        f"etcd of {cluster.name} can spare no member: {', '.join(unheard)} did not answer when it "
        "was last asked",
        subject=cluster.name,
        reason="ETCD_MEMBER_SILENT",
        do=f"windlass cluster why {cluster.name} shows how to mend it",
        facts=_facts(cluster),
    )


def _already_there(cluster: Cluster) -> Conflict:
    return Conflict(
        f"cluster {cluster.name} is already at {cluster.version}",
        subject=cluster.name,
        reason="ALREADY_AT_VERSION",
        do=f"windlass cluster upgrades {cluster.name} shows what it can be upgraded to",
        facts=_facts(cluster),
    )


def _downgrade(cluster: Cluster, release: Release) -> Conflict:
    return Conflict(
        f"{release.version} is older than {cluster.version}, and no cluster goes back",
        subject=cluster.name,
        reason="DOWNGRADE",
        do=f"windlass cluster upgrades {cluster.name} shows what it can be upgraded to",
        facts=_facts(cluster),
    )


def _skipped(cluster: Cluster, release: Release) -> Conflict:
    return Conflict(
        f"from {cluster.version} to {release.version} a minor version would be skipped",
        subject=cluster.name,
        reason="MINOR_VERSION_SKIPPED",
        do=f"go one by one: windlass cluster upgrades {cluster.name} shows the next",
        facts=_facts(cluster),
    )


def _left_behind(cluster: Cluster, node: SlotState, release: Release) -> Conflict:
    return Conflict(
        f"the kubelet of {node.slot.name} is {node.version}: too old for an API of "
        f"{release.version}",
        subject=cluster.name,
        reason="KUBELET_TOO_OLD",
        do="replace that node, or take its pool away, and ask again",
        facts={**_facts(cluster), "node": node.slot.name, "kubelet": node.version},
    )


def _other_series(cluster: Cluster, node: SlotState, release: Release) -> Conflict:
    return Conflict(
        f"{node.slot.name} runs {node.slot.release.series}, and {release.version} is offered for "
        f"{release.series}",
        subject=cluster.name,
        reason="SERIES_DIFFERS",
        do="a machine keeps its system for as long as it is a node: make another cluster for it",
        facts={**_facts(cluster), "node": node.slot.name},
    )


def _facts(cluster: Cluster) -> dict[str, str]:
    """What a refusal is to be understood by."""
    facts = {
        "operation": cluster.operation,
        "state": cluster.phase,
        "version": cluster.version,
        "pending": cluster.pending,
    }
    return {name: fact for name, fact in facts.items() if fact}
