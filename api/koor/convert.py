"""What was seen of Ceph, as the messages of the koor contract."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from api.koor.states import RELIABILITY, RESOURCE_STATUS, UPGRADE_MODE
from domain.koor_cluster import KoorCluster, Totals
from domain.radar import Radar
from domain.storage import Figure, Light, Observation, Rates
from domain.storage_resources import Resource, StorageNode
from protos.gen.koor.api.resources.stats import stats_pb2 as pb

KSD, KSD_CLUSTER = "ksd", "ksd-cluster"
"""What the Helm releases are called by which the first operator installed Rook and a cluster of it.
There is none here; pages show the names."""

MOST = 2**31 - 1
"""Counts have 32 bits on the wire. They stay there rather than begin anew."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def stats(seen: Observation, light: Light) -> pb.ClusterStats:
    return pb.ClusterStats(
        id=seen.fsid,
        status=light.value,
        crashes=[pb.Crash(description=check.says) for check in seen.checks],
        services=services(seen),
        data=data(seen),
        iops=iops(seen.rates) if seen.knows(Figure.RATES) else None,
    )


def services(seen: Observation) -> pb.Services:
    """What is unknown is left out."""
    osds = seen.osds.all
    return pb.Services(
        mon=pb.MonService(
            daemon_count=_counted(len(seen.mons.all)),
            quorum=",".join(seen.mons.quorum),
            created_at=_stamp(seen.mons.created),
            updated_at=_stamp(seen.mons.changed),
        ),
        mgr=pb.MgrService(
            active=seen.manager.active,
            standbys=seen.manager.standbys,
            updated_at=_stamp(seen.manager.since),
        ),
        mds=pb.MdsService(
            daemons_up=_counted(seen.metadata_servers_up),
            hot_standby_count=_counted(seen.hot_standbys),
        )
        if seen.knows(Figure.FILE_SYSTEMS)
        else None,
        osd=pb.OsdService(
            osd_count=_counted(len(osds)),
            osd_up=_counted(sum(osd.up for osd in osds)),
            osd_in=_counted(sum(osd.inside for osd in osds)),
            osd_up_updated_at=_stamp(seen.osds.up_changed),
            osd_in_updated_at=_stamp(seen.osds.in_changed),
        )
        if seen.knows(Figure.OSDS)
        else None,
        rgw=pb.RgwService(
            active_daemon=_counted(seen.active_gateways),
            host_count=_counted(len({each.host for each in seen.gateways})),
            zone_count=_counted(len({each.zone for each in seen.gateways})),
        )
        if seen.knows(Figure.GATEWAYS)
        else None,
    )


def data(seen: Observation) -> pb.Data:
    return pb.Data(
        volumes=_counted(len(seen.file_systems)),
        pools=pb.Pools(
            pools=_counted(len(seen.pools)),
            pgs=pb.PGs(active_clean=_counted(seen.clean)) if seen.knows(Figure.GROUPS) else None,
        ),
        objects=pb.Objects(object_count=_counted(seen.objects), size=size(seen.stored))
        if seen.knows(Figure.OBJECTS)
        else None,
        usage=pb.Usage(
            used=seen.capacity.used, available=seen.capacity.available, total=seen.capacity.total
        )
        if seen.knows(Figure.CAPACITY)
        else None,
    )


def iops(rates: Rates) -> pb.IOPS:
    return pb.IOPS(
        client_read=f"{size(rates.bytes_read)}/s rd",
        client_write=f"{size(rates.bytes_written)}/s wr",
        client_read_ops=f"{rates.reads} ops/s rd",
        client_write_ops=f"{rates.writes} ops/s wr",
    )


def size(number: int) -> str:
    """`7.16 KiB`: two decimals, in the greatest unit of which there is one."""
    amount, unit = float(number), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.2f} {UNITS[unit]}"


def resource(it: Resource) -> pb.ResourceInfo:
    return pb.ResourceInfo(
        apiversion=it.api_version,
        kind=it.kind,
        namespace=it.namespace,
        name=it.name,
        status=RESOURCE_STATUS[it.standing],
        replicas=_counted(it.wanted),
        reliability=RELIABILITY[it.score],
    )


def node(it: StorageNode) -> pb.NodeInfo:
    return pb.NodeInfo(
        name=it.name,
        status=RESOURCE_STATUS[it.standing],
        roles=it.roles,
        internal_ip=it.internal,
        external_ip=it.external,
        age=_stamp(it.created),
    )


def radar(it: Radar) -> pb.ClusterRadar:
    """What is unknown is 0, as the contract has no other word for it; which that is stands in the
    metadata beside the reply."""
    return pb.ClusterRadar(
        cluster_health=it.health,
        nodes_health=it.nodes or 0.0,
        capacity_available=it.capacity or 0.0,
        stability=it.stability,
        reliability=it.reliability or 0.0,
    )


RADAR: dict[str, str] = {
    "cluster_health": "health",
    "nodes_health": "nodes",
    "capacity_available": "capacity",
    "stability": "stability",
    "reliability": "reliability",
}
"""The fields of that message, and whose figure each is."""


def unknown_figures(it: Radar) -> list[str]:
    return [field for field, name in RADAR.items() if getattr(it, name) is None]


def koor_cluster(it: KoorCluster) -> pb.KoorCluster:
    """What runs, and what could. The endpoint that versions were once fetched from is never
    asked: it is empty."""
    latest = pb.DetailedProductVersions(
        ceph=pb.DetailedVersion(version=it.latest) if it.latest else None
    )
    return pb.KoorCluster(
        name=it.name,
        namespace=it.namespace,
        spec=pb.KoorClusterSpec(
            use_all_devices=it.uses_all_devices,
            toolbox_enabled=it.toolbox,
            monitoring_enabled=it.monitored,
            dashboard_enabled=it.dashboard,
            ksd_release_name=KSD,
            ksd_cluster_release_name=KSD_CLUSTER,
            upgrade_options=pb.UpgradeOptions(
                mode=UPGRADE_MODE[it.policy.mode], schedule=it.policy.schedule
            ),
        ),
        status=pb.KoorClusterStatus(
            total_resources=totals(it.totals),
            meets_minimum_resources=it.totals.enough,
            current_versions=pb.ProductVersions(ceph=it.ceph, kube=it.kube),
            latest_versions=latest,
        ),
    )


def totals(it: Totals) -> pb.ClusterResources:
    """As Kubernetes writes quantities. What nobody can tell is empty."""
    return pb.ClusterResources(
        nodes=str(it.nodes),
        storage="" if it.storage_bytes is None else f"{it.storage_bytes // 1024}Ki",
        cpu="" if it.cpus is None else f"{it.cpus:g}",
        memory="" if it.memory_bytes is None else f"{it.memory_bytes // 1024}Ki",
    )


def _counted(number: int) -> int:
    return min(number, MOST)


def _stamp(moment: datetime | None) -> Timestamp | None:
    """None leaves the field unset."""
    if moment is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
