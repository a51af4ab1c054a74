"""Cluster instances: what may be asked for, and what an accepted one takes of its cloudlet.

Nothing here looks anything up. `drafted` needs only what the caller said; `placed` is given what a
transaction found, and decides in the order in which clients know the checks."""

from enum import StrEnum

from domain.app import Deployment
from domain.cloudlet import Cloudlet, CloudletKey
from domain.cloudlet import check_key as check_cloudlet_key
from domain.cloudlet_info import CloudletInfo, fitting
from domain.flavor import Flavor
from domain.frozen import Frozen
from domain.naming import AUTO_CLUSTER, is_template_name
from domain.override import Override
from domain.refusal import Refusal, refuse_if
from domain.tracking import CLUSTER_MOVES, Move, Phase, is_free_to_create, is_free_to_delete, may
from domain.usage import Taken, Usage

KEPT_ADDRESSES = 1
"""For the proxy that all shared clusters of a cloudlet are reached by."""

DYNAMIC = "dynamic"
"""What stands in the place of an address that its cloudlet gives."""


class IpAccess(StrEnum):
    UNKNOWN = "IP_ACCESS_UNKNOWN"
    DEDICATED = "IP_ACCESS_DEDICATED"
    DEDICATED_OR_SHARED = "IP_ACCESS_DEDICATED_OR_SHARED"
    SHARED = "IP_ACCESS_SHARED"


class ClusterInstKey(Frozen):
    cluster: str
    cloudlet: CloudletKey
    developer: str


class ClusterInst(Frozen):
    key: ClusterInstKey
    flavor: str = ""
    ip_access: IpAccess = IpAccess.UNKNOWN
    masters: int = 0
    nodes: int = 0
    deployment: str = ""
    auto: bool = False
    """Made for an app's instance, and not for whoever called."""
    node_flavor: str = ""
    allocated_ip: str = ""


class Ground(Frozen):
    """What a transaction found where a cluster is to stand."""

    phase: Phase = Phase.NOT_PRESENT
    cloudlet: Cloudlet | None
    info: CloudletInfo | None
    default_flavor: str = ""
    """That of the template of its name."""
    flavors: tuple[Flavor, ...] = ()
    """Those of the flavors it may get that there are."""
    usage: Usage = Usage()


class Placed(Frozen):
    """A cluster that was accepted, and what it took."""

    cluster: ClusterInst
    taken: Taken


def check_whole(key: ClusterInstKey) -> None:
    refuse_if(not key.developer, Refusal.CLUSTERINST_NO_DEVELOPER)
    refuse_if(not key.cloudlet.name, Refusal.CLUSTERINST_NO_CLOUDLET)
    refuse_if(not key.cloudlet.operator, Refusal.CLUSTERINST_NO_OPERATOR)
    refuse_if(not key.cluster, Refusal.CLUSTERINST_NO_NAME)


def drafted(wanted: ClusterInst) -> ClusterInst:
    """A cluster with what follows from what was said of it."""
    check_whole(wanted.key)
    deployment = cluster_deployment(wanted.deployment)
    draft = wanted.model_copy(update={"deployment": str(deployment)})
    return _DRAFTS[deployment](draft)


def cluster_deployment(deployment: str) -> Deployment:
    """Which kind of cluster a deployment needs; Helm's runs on Kubernetes."""
    refuse_if(deployment == Deployment.VM, Refusal.CLUSTERINST_VM)
    known = {"": Deployment.KUBERNETES, Deployment.HELM: Deployment.KUBERNETES}
    found = known.get(deployment, deployment)
    refuse_if(found not in _DRAFTS, Refusal.CLUSTERINST_DEPLOYMENT, name=deployment)
    return Deployment(found)


def placed(draft: ClusterInst, ground: Ground, override: Override) -> Placed:
    """A new cluster on its ground, or its refusal. What is rebuilt has given back before what it
    took, and comes with the draft that is stored."""
    taken = not is_free_to_create(ground.phase, override)
    refuse_if(taken, Refusal.KEY_TAKEN)
    reserved = draft.key.cluster.startswith(AUTO_CLUSTER) and not draft.auto
    check_key(draft.key, needs_name=not reserved)
    refuse_if(reserved, Refusal.CLUSTER_RESERVED)
    if ground.cloudlet is None:
        raise Refusal.CLOUDLET_UNKNOWN()
    if ground.info is None:
        raise Refusal.CLUSTERINST_NO_INFO()
    flavor = _flavor(draft, ground)
    node_flavor = fitting(ground.info, flavor)
    access, addresses = _access(draft, ground.cloudlet, ground.usage.addresses)
    more = {
        "flavor": flavor.name,
        "node_flavor": node_flavor,
        "ip_access": access,
        "allocated_ip": DYNAMIC if addresses else "",
    }
    cluster = draft.model_copy(update=more)
    room = room_taken(cluster, flavor)
    return Placed(cluster=cluster, taken=room.model_copy(update={"addresses": addresses}))


def check_key(key: ClusterInstKey, *, needs_name: bool = True) -> None:
    """Refuse names that cannot be. Developers are called as they like here."""
    refuse_if(needs_name and not is_template_name(key.cluster), Refusal.CLUSTER_NAME)
    check_cloudlet_key(key.cloudlet)


def room_taken(cluster: ClusterInst, flavor: Flavor) -> Taken:
    """The memory, cores and disk of all its machines. Docker's has none that are counted."""
    machines = cluster.masters + cluster.nodes
    return Taken(
        ram=flavor.ram * machines, vcores=flavor.vcpus * machines, disk=flavor.disk * machines
    )


def check_fields(named: frozenset[str]) -> bool:
    """Refuse a change that names anything but the number of nodes. `named` are the leaves of its
    mask; those of the key and of the override are harmless. Returns whether the number is to
    change: a mask of key fields alone is an update without change."""
    own = named - _HARMLESS
    refuse_if(not own, Refusal.CLUSTERINST_NOTHING)
    others = {leaf for leaf in own if leaf != _NODES and not leaf.startswith("2.")}
    refuse_if(others, Refusal.CLUSTERINST_FIXED)
    return _NODES in own


def resized(cluster: ClusterInst, phase: Phase, nodes: int | None) -> ClusterInst:
    """A cluster with another number of nodes; None keeps the present one. Whether it may have none
    is for its resource manager to decide."""
    refuse_if(not cluster.masters, Refusal.CLUSTERINST_SINGLE)
    refuse_if(not may(CLUSTER_MOVES, Move.UPDATE, phase), Refusal.CLUSTERINST_NOT_READY)
    return cluster if nodes is None else cluster.model_copy(update={"nodes": nodes})


def check_delete(phase: Phase, override: Override) -> None:
    """Refuse to delete what is not there, or not at rest."""
    refuse_if(phase is Phase.NOT_PRESENT, Refusal.KEY_UNKNOWN)
    idle = is_free_to_delete(phase, CLUSTER_MOVES, override)
    refuse_if(not idle, Refusal.CLUSTERINST_BUSY)


_NODES = "14"
_HARMLESS = frozenset({"6"})


def _kubernetes(draft: ClusterInst) -> ClusterInst:
    refuse_if(draft.masters > 1, Refusal.CLUSTERINST_MASTERS)
    refuse_if(draft.nodes == 0, Refusal.CLUSTERINST_NO_NODES)
    unsaid = draft.ip_access is IpAccess.UNKNOWN
    access = IpAccess.SHARED if unsaid else draft.ip_access
    return draft.model_copy(update={"masters": 1, "ip_access": access})


def _docker(draft: ClusterInst) -> ClusterInst:
    refuse_if(draft.masters or draft.nodes, Refusal.CLUSTERINST_DOCKER_COUNTS)
    own = draft.ip_access in {IpAccess.UNKNOWN, IpAccess.DEDICATED}
    refuse_if(not own, Refusal.CLUSTERINST_DOCKER_SHARED)
    return draft.model_copy(update={"ip_access": IpAccess.DEDICATED})


_DRAFTS = {Deployment.KUBERNETES: _kubernetes, Deployment.DOCKER: _docker}


def _flavor(draft: ClusterInst, ground: Ground) -> Flavor:
    name = draft.flavor or ground.default_flavor
    refuse_if(not name, Refusal.CLUSTERINST_NO_FLAVOR)
    found = {flavor.name: flavor for flavor in ground.flavors}
    refuse_if(name not in found, Refusal.CLUSTERINST_FLAVOR, name=name)
    return found[name]


def _access(draft: ClusterInst, cloudlet: Cloudlet, used: int) -> tuple[IpAccess, int]:
    """How a cluster is reached, and how many addresses of its cloudlet it takes for that."""
    if draft.key.cloudlet.is_public_cloud:
        return IpAccess.DEDICATED, 0
    if draft.ip_access is not IpAccess.DEDICATED:
        return IpAccess.SHARED, 0
    left = cloudlet.dynamic_ips - KEPT_ADDRESSES - used
    refuse_if(left <= 0, Refusal.CLUSTERINST_NO_IP)
    return IpAccess.DEDICATED, 1
