"""App instances: what may be asked for, and what an accepted one is.

Nothing here looks anything up. The checks stand in the order in which clients know them: `keyed`
before anything is looked up, `check_found` with what the first transaction found, `placed` with
what the second did."""

from collections.abc import Callable

from domain import access_ports
from domain.app import App, Deployment, check_key
from domain.cloudlet import Cloudlet, Whereabouts
from domain.clusterinst import ClusterInst, ClusterInstKey, IpAccess, cluster_deployment
from domain.clusterinst import check_key as check_cluster_key
from domain.exposure import Exposure, MappedPort, exposure, mapped, uri
from domain.flavor import Flavor
from domain.frozen import Frozen
from domain.naming import AUTO_CLUSTER, as_kubernetes
from domain.override import Override
from domain.refusal import Refusal, refuse_if
from domain.tracking import APP_MOVES, Phase, is_free_to_create, is_free_to_delete
from domain.usage import BITS, Pool, Taken, Usage

PLATFORM_DEVELOPER = "MobiledgeX"
"""Whose apps may be put into anybody's cluster."""


class AppInstKey(Frozen):
    developer: str
    app: str
    version: str
    cluster: ClusterInstKey


class AppInst(Frozen):
    key: AppInstKey
    uri: str = ""
    flavor: str = ""
    latitude: float = 0
    longitude: float = 0
    ports: tuple[MappedPort, ...] = ()
    whereabouts: Whereabouts = Whereabouts()
    auto_ip_access: IpAccess = IpAccess.UNKNOWN
    """How the cluster that is made for it is to be reached."""


class Ground(Frozen):
    """What a transaction found where an instance is to run."""

    phase: Phase = Phase.NOT_PRESENT
    cloudlet: Cloudlet | None = None
    app: App | None = None
    cluster: ClusterInst | None = None
    cluster_phase: Phase = Phase.NOT_PRESENT
    flavors: tuple[Flavor, ...] = ()
    """Those of the flavors it may get that there are."""
    usage: Usage = Usage()


class Placed(Frozen):
    """An instance that was accepted, and what it took."""

    instance: AppInst
    taken: Taken


def keyed(key: AppInstKey) -> AppInstKey:
    """A key as it is looked up and kept, on create and on delete: a cluster that is made for the
    app is called as Kubernetes likes it, and is the app's developer's; so is whatever is on the
    default cloudlet."""
    cluster = key.cluster
    made = cluster.cluster.startswith(AUTO_CLUSTER)
    if not (made or cluster.cloudlet.is_default):
        return key
    more = {
        "cluster": as_kubernetes(cluster.cluster) if made else cluster.cluster,
        "developer": cluster.developer or key.developer,
    }
    return key.model_copy(update={"cluster": cluster.model_copy(update=more)})


def check_names(key: AppInstKey) -> None:
    """Refuse an app that cannot be, or one in the cluster of another developer."""
    check_key(App(developer=key.developer, name=key.app, version=key.version))
    others = key.cluster.developer not in {"", key.developer}
    refuse_if(
        *(others and key.developer != PLATFORM_DEVELOPER, Refusal.APPINST_DEVELOPER),
        app=key.developer,
        cluster=key.cluster.developer,
    )


def check_whole_key(key: AppInstKey) -> None:
    """Refuse names that cannot be in the key of an instance that is changed or deleted. One on the
    default cloudlet may have named its cluster as it liked, and a virtual machine names none."""
    check_key(App(developer=key.developer, name=key.app, version=key.version))
    cluster = keyed(key).cluster
    if not cluster.cloudlet.is_default:
        check_cluster_key(cluster, needs_name=bool(cluster.cluster))


def check_found(key: AppInstKey, ground: Ground, override: Override) -> None:
    """Refuse what the first transaction finds wrong. The default cloudlet has none, and a cluster
    that is to be made for the app need not be there."""
    if key.cluster.cloudlet.is_default:
        return
    taken = not is_free_to_create(ground.phase, override)
    refuse_if(taken, Refusal.KEY_TAKEN)
    check_cluster_key(key.cluster, needs_name=bool(key.cluster.cluster))
    refuse_if(ground.cloudlet is None, Refusal.CLOUDLET_UNKNOWN)
    needs_cluster = ground.app is None or ground.app.deployment != Deployment.VM
    refuse_if(needs_cluster and not key.cluster.cluster, Refusal.CLUSTER_NAME)
    refuse_if(ground.app is None, Refusal.APPINST_APP)
    made = key.cluster.cluster.startswith(AUTO_CLUSTER)
    lacks = needs_cluster and not made and ground.cluster is None
    refuse_if(lacks, Refusal.APPINST_CLUSTER)


def check_uri(wanted: AppInst) -> None:
    """Only on the default cloudlet callers say where an instance is reached: there they must."""
    default = wanted.key.cluster.cloudlet.is_default
    refuse_if(wanted.uri and not default, Refusal.APPINST_URI)
    refuse_if(default and not wanted.uri, Refusal.APPINST_NO_URI)


def placed(wanted: AppInst, ground: Ground, key_text: str, override: Override) -> Placed:
    """A new instance where it runs, or its refusal. `key_text` is its cluster's key as clients know
    it. What is rebuilt has given back before what it took."""
    taken = not is_free_to_create(ground.phase, override)
    refuse_if(taken, Refusal.KEY_TAKEN)
    if ground.app is None:
        raise Refusal.APPINST_APP()
    flavor = wanted.flavor or ground.app.default_flavor
    known = flavor in {each.name for each in ground.flavors}
    refuse_if(not known, Refusal.APPINST_FLAVOR, name=flavor)
    way = _way(wanted, ground.app, ground, key_text)
    wished = access_ports.parse(ground.app.access_ports)
    ports, took = mapped(way, ground.app, wished, ground.app.services, ground.usage.ports)
    more = {
        "uri": uri(way, ground.app, wanted.key.cluster, wanted.uri),
        "flavor": flavor,
        "ports": ports,
    }
    instance = wanted.model_copy(update=more)
    if ground.cloudlet:
        instance = relocated(instance, ground.cloudlet)
        about = {"whereabouts": ground.cloudlet.whereabouts}
        instance = instance.model_copy(update=about)
    return Placed(instance=instance, taken=took)


def reclaimed(instance: AppInst, before: Taken, usage: Usage) -> Placed:
    """An instance that stays after all, with the ports that it gave back, or others if those are
    taken by now. Exhausted if none is left."""
    pool, took, ports = Pool(usage.ports), [], []
    for port in instance.ports:
        bit = BITS.get(port.protocol)
        if bit is None or (port.public, bit) not in before.ports:
            ports.append(port)
            continue
        public = pool.take(port.protocol, port.public)
        took.append((public, bit))
        ports.append(port.model_copy(update={"public": public}))
    instance = instance.model_copy(update={"ports": tuple(ports)})
    return Placed(instance=instance, taken=Taken(ports=tuple(took)))


def check_delete(phase: Phase, override: Override) -> None:
    """Refuse to delete what is not there, or not at rest."""
    refuse_if(phase is Phase.NOT_PRESENT, Refusal.KEY_UNKNOWN)
    idle = is_free_to_delete(phase, APP_MOVES, override)
    refuse_if(not idle, Refusal.APPINST_BUSY)


def check_app_change(before: App, after: App) -> None:
    """Refuse to change what instances were made of. The same value again is no change."""
    for name, value in _FIXED.items():
        changed = value(before) != value(after)
        refuse_if(changed, Refusal.APP_HAS_INSTANCES, field=name)


_FIXED: dict[str, Callable[[App], object]] = {
    "deployment": lambda app: app.deployment,
    "image_type": lambda app: app.image_type,
    "access_ports": lambda app: access_ports.parse(app.access_ports),
}
"""What of an app does not change while it has instances. Ports in another case are the same."""


def relocated(instance: AppInst, cloudlet: Cloudlet) -> AppInst:
    """An instance where its cloudlet is now."""
    return instance.model_copy(
        update={"latitude": cloudlet.latitude, "longitude": cloudlet.longitude}
    )


def _way(wanted: AppInst, app: App, ground: Ground, key_text: str) -> Exposure:
    """How it is reached, once its cluster can take it."""
    key, cluster = wanted.key.cluster, ground.cluster
    if key.cloudlet.is_default or app.deployment == Deployment.VM:
        return exposure(app, key, IpAccess.UNKNOWN)
    if cluster is None or ground.cluster_phase is not Phase.READY:
        raise Refusal.APPINST_CLUSTER_NOT_READY(key=key_text)
    fits = cluster.deployment == cluster_deployment(app.deployment)
    refuse_if(
        *(not fits, Refusal.APPINST_DEPLOYMENT), app=app.deployment, cluster=cluster.deployment
    )
    return exposure(app, key, cluster.ip_access)
