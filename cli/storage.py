"""What is known of Ceph. What is changed in it is in `cli/caring.py`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import caring, documents
from cli.calling import Call, command, group
from cli.options import Plan, RequestId, Timeout, Wait
from cli.printing import Column, Document, tame

if TYPE_CHECKING:
    from rich.console import RenderableType

    from protos.gen.koor.api.resources.stats import stats_pb2
    from protos.gen.koor.api.services.stats import stats_pb2_grpc

app = group("Ceph: what is seen of it, and changed.")
app.add_typer(caring.osds, name="osd")
app.add_typer(caring.pools, name="pool")

READY = {"READY": "Ready", "NOT_READY": "Failed"}
"""Words that are coloured elsewhere, for the same thing."""

NODES = (
    Column("NAME", lambda it: it["name"]),
    Column("STATUS", lambda it: READY.get(it["status"], it["status"])),
    Column("ROLES", lambda it: ",".join(it["roles"])),
    Column("ADDRESS", lambda it: it["internal_ip"]),
)
RESOURCES = (
    Column("NAME", lambda it: it["name"]),
    Column("STATUS", lambda it: READY.get(it["status"], it["status"])),
    Column("COPIES", lambda it: it["replicas"]),
    Column("RELIABILITY", lambda it: it["reliability"]),
)
RADAR = (
    Column("FIGURE", lambda it: it["figure"]),
    Column("OF 100", lambda it: "unknown" if it["value"] is None else f"{it['value']:.1f}"),
)
POOL = "CephBlockPool"


@app.command("status")
@command
async def status(call: Call) -> None:
    """Show how Ceph is.

    The figures are those of the last look, every 15 s unless set otherwise. While Ceph's manager
    gives no answer, what only it can tell is unknown, with the time when it was last seen.
    HEALTH_OFFLINE means that there is no news: then the figures are the last ones there were."""
    from protos.gen.koor.api.services.stats.stats_pb2 import GetClusterStatsRequest

    reply, beside = await call.ask_all(_stats(call).GetClusterStats, GetClusterStatsRequest())
    document = {
        **_cluster(reply.stats),
        "observed_at": beside.get("windlass-observed-at", ""),
        "source": beside.get("windlass-source", ""),
        "last_seen": _ages(beside),
    }
    call.page.one(document, f"storage/{document['id']}", lambda: _told(document))


def _told(it: Document) -> "RenderableType":
    mon, ages = it["mon"], it["last_seen"]

    def told(figure: str, text: Callable[[], str]) -> str:
        if figure in ages:
            return f"unknown, last seen {documents.on_the_wall(ages[figure])}"
        return text()

    groups = told("placement-groups", lambda: str(it["active_clean"]))
    lines = [
        f"{it['status']}   seen {documents.on_the_wall(it['observed_at'])}",
        *(f"  {check}" for check in it["checks"]),
        f"mons      {mon['daemons']}, in quorum: {mon['quorum'] or 'none'}",
        f"managers  {it['mgr']['active'] or 'none'}, standing by: {len(it['mgr']['standbys'])}",
        f"osds      {told('osds', lambda: _osds(it['osd']))}",
        f"mds       {told('file-systems', lambda: _mds(it['mds']))}",
        f"gateways  {told('gateways', lambda: str(it['rgw']['active']))}",
        f"pools     {it['pools']}, placement groups active and clean: {groups}",
        f"objects   {told('objects', lambda: ', '.join((str(it['objects']), it['stored'])))}",
        f"space     {told('capacity', lambda: _space(it['usage']))}",
        f"clients   {told('rates', lambda: ', '.join((it['io']['read'], it['io']['write'])))}",
    ]
    return "\n".join(map(tame, lines))


def _osds(osd: Document) -> str:
    return f"{osd['count']}: {osd['up']} up, {osd['in']} in"


def _mds(mds: Document) -> str:
    return f"{mds['up']} up, standing by: {mds['standbys']}"


def _space(used: Document) -> str:
    share = 100 * used["used"] / used["total"] if used["total"] else 0.0
    return f"{share:.1f}% of {used['total'] / 1024**3:.1f} GiB used"


def _ages(beside: Mapping[str, str]) -> dict[str, str]:
    """When each figure was last seen that nobody can tell now."""
    pairs = (each.partition("=") for each in beside.get("windlass-ages", "").split(",") if each)
    return {name: at for name, _, at in pairs}


@app.command("nodes")
@command
async def nodes(call: Call) -> None:
    """List the machines that Ceph runs on."""
    from protos.gen.koor.api.resources.stats.stats_pb2 import ResourceStatus
    from protos.gen.koor.api.services.stats.stats_pb2 import GetClusterNodesRequest

    reply = await call.ask(_stats(call).GetClusterNodes, GetClusterNodesRequest())
    found = [
        {
            "name": node.name,
            "status": ResourceStatus.Name(node.status).removeprefix("RESOURCE_"),
            "roles": list(node.roles),
            "internal_ip": node.internal_ip,
            "external_ip": node.external_ip,
        }
        for node in reply.nodes
    ]
    call.page.many(found, NODES, lambda it: f"node/{it['name']}", none="there are none")


@app.command("radar")
@command
async def radar(call: Call) -> None:
    """Show five figures that say how Ceph is, each out of 100.

    The stability gets better while copies are still missing, once Ceph has given an OSD up: look at
    the checks of windlass storage status beside it."""
    from protos.gen.koor.api.services.stats.stats_pb2 import GetClusterRadarRequest

    reply, beside = await call.ask_all(_stats(call).GetClusterRadar, GetClusterRadarRequest())
    unknown = set(beside.get("windlass-unknown", "").split(","))
    figures = ("cluster_health", "nodes_health", "capacity_available", "stability", "reliability")
    found = [
        {
            "figure": name,
            "value": None if name in unknown else round(getattr(reply.radar, name), 1),
        }
        for name in figures
    ]
    call.page.many(found, RADAR, lambda it: f"figure/{it['figure']}", none="there are none")


@app.command("daemons")
@command
async def daemons(call: Call) -> None:
    """Show Ceph's daemons in groups, the OSDs among them."""
    reply = await _resources(call)
    found = [_resource(each) for each in reply.deployments]
    call.page.many(found, RESOURCES, lambda it: f"daemons/{it['name']}", none="there are none")


@app.command("pools")
@command
async def pools(call: Call) -> None:
    """List Ceph's pools, and how much each can lose."""
    reply = await _resources(call)
    found = [_resource(each) for each in reply.resources if each.kind == POOL]
    call.page.many(found, RESOURCES, lambda it: f"pool/{it['name']}", none="there are none")


@app.command("upgrade")
@command
async def upgrade(
    call: Call,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="To which; else it is shown which runs.")
    ] = "",
    plan: Plan = False,
    request_id: RequestId = "",
    wait: Wait = False,
    within: Timeout = "24h",
) -> None:
    """Upgrade Ceph, or show which version it runs.

    It is refused, with all reasons, while Ceph is not fit for it. There is no way back: windlass op
    pause and windlass op cancel pause it in Ceph; asking for the same version again goes on. When
    no daemon was replaced for 20 minutes, or Ceph is in trouble, it is paused and waits for
    windlass op approve."""
    if version:
        from protos.gen.ops.storage_pb2 import UpgradeStorageRequest

        request = UpgradeStorageRequest(version=version)
        asked = caring.Asked(plan=plan, key=request_id, wait=wait, within=within)
        await caring.change(call, "Upgrade", request, f"Ceph {version}", asked)
        return
    await _shown(call)


async def _shown(call: Call) -> None:
    from protos.gen.koor.api.resources.stats.stats_pb2 import UpgradeMode
    from protos.gen.koor.api.services.stats.stats_pb2 import GetKoorClusterRequest

    reply = await call.ask(_stats(call).GetKoorCluster, GetKoorClusterRequest())
    cluster = reply.koor_cluster
    mode = UpgradeMode.Name(cluster.spec.upgrade_options.mode).removeprefix("UPGRADE_MODE_")
    document = {
        "name": cluster.name,
        "mode": mode,
        "schedule": cluster.spec.upgrade_options.schedule,
        "ceph": cluster.status.current_versions.ceph,
        "latest": cluster.status.latest_versions.ceph.version,
        "kube": cluster.status.current_versions.kube,
        "nodes": cluster.status.total_resources.nodes,
        "storage": cluster.status.total_resources.storage,
        "meets_minimum": cluster.status.meets_minimum_resources,
    }
    newer = f", could run {document['latest']}" if document["latest"] else ""
    ceph = document["ceph"] or "of unknown version"
    said = f"{cluster.name}: Ceph {ceph}{newer}; by itself: {mode} at {document['schedule']}"
    call.page.one(document, f"storage/{cluster.name}", lambda: tame(said))


def _cluster(stats: "stats_pb2.ClusterStats") -> Document:
    """What is unset is unknown, which is null."""
    services, data = stats.services, stats.data
    groups, objects = data.pools.HasField("pgs"), data.HasField("objects")
    return {
        "id": stats.id,
        "status": stats.status,
        "checks": [each.description for each in stats.crashes],
        "mon": {"daemons": services.mon.daemon_count, "quorum": services.mon.quorum},
        "mgr": {"active": services.mgr.active, "standbys": list(services.mgr.standbys)},
        "mds": {"up": services.mds.daemons_up, "standbys": services.mds.hot_standby_count}
        if services.HasField("mds")
        else None,
        "osd": {
            "count": services.osd.osd_count,
            "up": services.osd.osd_up,
            "in": services.osd.osd_in,
        }
        if services.HasField("osd")
        else None,
        "rgw": {"active": services.rgw.active_daemon} if services.HasField("rgw") else None,
        "pools": data.pools.pools,
        "active_clean": data.pools.pgs.active_clean if groups else None,
        "objects": data.objects.object_count if objects else None,
        "stored": data.objects.size if objects else None,
        "usage": {
            "used": data.usage.used,
            "available": data.usage.available,
            "total": data.usage.total,
        }
        if data.HasField("usage")
        else None,
        "io": {
            "read": stats.iops.client_read,
            "write": stats.iops.client_write,
            "reads": stats.iops.client_read_ops,
            "writes": stats.iops.client_write_ops,
        }
        if stats.HasField("iops")
        else None,
    }


def _resource(it: "stats_pb2.ResourceInfo") -> Document:
    from protos.gen.koor.api.resources.stats.stats_pb2 import ReliabilityScore, ResourceStatus

    return {
        "name": it.name,
        "kind": it.kind,
        "status": ResourceStatus.Name(it.status).removeprefix("RESOURCE_"),
        "replicas": it.replicas,
        "reliability": ReliabilityScore.Name(it.reliability).removeprefix("RELIABILITY_"),
    }


async def _resources(call: Call) -> Any:
    from protos.gen.koor.api.services.stats.stats_pb2 import GetClusterResourcesRequest

    return await call.ask(_stats(call).GetClusterResources, GetClusterResourcesRequest())


def _stats(call: Call) -> "stats_pb2_grpc.StatsServiceStub":
    from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceStub

    return StatsServiceStub(call.channel)
