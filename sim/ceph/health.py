"""The documents that a manager answers with, made out of what the cluster is at the moment."""

from datetime import UTC, datetime
from typing import Any

from sim.ceph.cluster import (
    HOSTS,
    MANAGERS,
    MONS,
    OSD_BYTES,
    OSDS_PER_HOST,
    Pool,
    SimulatedCluster,
)

Document = dict[str, Any]

STEPS = [
    {"op": "take", "item": -1, "item_name": "default"},
    {"op": "chooseleaf_firstn", "num": 0, "type": "host"},
    {"op": "emit"},
]
RULE = {"rule_id": 0, "rule_name": "replicated_rule", "type": 1, "steps": STEPS}
FLAGS = ["pglog_hardlimit", "purged_snapdirs", "recovery_deletes", "sortbitwise"]
FILE_SYSTEM = "home"
WARN = "HEALTH_WARN"


def zulu(seconds: float) -> str:
    """A time as mons spell it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def offset(seconds: float) -> str:
    """The same as the maps of OSDs and managers spell it."""
    return zulu(seconds).replace("Z", "+0000")


def address(host: str, port: int) -> str:
    return f"10.40.0.{HOSTS.index(host) + 11}:{port}/0"


def full(cluster: SimulatedCluster) -> Document:
    """GET health/full"""
    state, dead = cluster.state, cluster.dead()
    states = dict(cluster.all_states(dead))
    missing = cluster.missing_copies(dead)
    objects = sum(pool.objects for pool in state.pools.values())
    checks = _checks(cluster, dead, states, objects, missing)
    return {
        "health": {"status": WARN if checks else "HEALTH_OK", "checks": checks, "mutes": []},
        "mon_status": _mons(cluster),
        "fs_map": _file_systems(cluster),
        "osd_map": _osd_map(cluster, dead),
        "scrub_status": "Inactive",
        "pg_info": {
            "object_stats": {
                "num_objects": objects,
                "num_object_copies": objects * 3,
                "num_objects_degraded": missing,
                "num_objects_misplaced": 0,
                "num_objects_unfound": 0,
            },
            "statuses": states,
            "pgs_per_osd": sum(states.values()) * 3 / len(cluster.osds),
        },
        "mgr_map": {
            "epoch": 4,
            "flags": 0,
            "active_gid": 4110,
            "active_name": MANAGERS[0],
            "active_addr": address(HOSTS[0], 6825),
            "active_mgr_features": 4540138314316775423,
            "available": True,
            "last_failure_osd_epoch": 0,
            "active_change": offset(state.born),
            "modules": ["cephadm", "dashboard", "iostat", "prometheus"],
            "standbys": [{"gid": 4111 + at, "name": name} for at, name in enumerate(MANAGERS[1:])],
        },
        "pools": [_pool(cluster, pool, dead) for pool in state.pools.values()],
        "df": _df(cluster),
        "client_perf": {
            "read_bytes_sec": 0,
            "read_op_per_sec": 0,
            "recovering_bytes_per_sec": 0,
            "write_bytes_sec": 0,
            "write_op_per_sec": 0,
        },
        "hosts": len(HOSTS),
        "rgw": 2,
        "iscsi_daemons": {"up": 0, "down": 0},
    }


def summary(cluster: SimulatedCluster) -> Document:
    """GET summary"""
    return {
        "health_status": full(cluster)["health"]["status"],
        "mgr_id": MANAGERS[0],
        "mgr_host": "",
        "have_mon_connection": cluster.hears_mons(),
        "executing_tasks": [],
        "finished_tasks": [],
        "version": cluster.banner(f"mgr.{MANAGERS[0]}"),
        "rbd_mirroring": {"warnings": 0, "errors": 0},
    }


def hosts(cluster: SimulatedCluster) -> list[Document]:
    """GET host"""
    return [
        {
            "hostname": host,
            "services": [
                {"type": kind, "id": name, "ceph_version": cluster.banner(f"{kind}.{name}")}
                for kind, name in _daemons(at, cluster)
            ],
            "ceph_version": cluster.banner(f"mon.{MONS[at]}"),
            "addr": address(host, 0).partition(":")[0],
            "labels": [],
            "sources": {"ceph": True, "orchestrator": False},
            "status": "",
        }
        for at, host in enumerate(HOSTS)
    ]


def _daemons(at: int, cluster: SimulatedCluster) -> list[tuple[str, str]]:
    found = [("mon", MONS[at])]
    if at < len(MANAGERS):
        found += [("mgr", MANAGERS[at]), ("mds", MONS[at]), ("rgw", MONS[at])]
    found += [("osd", str(osd)) for osd in cluster.osds if cluster.host(osd) == HOSTS[at]]
    return sorted(found)


def gateways(cluster: SimulatedCluster) -> list[Document]:
    """GET rgw/daemon"""
    return [
        {
            "id": name,
            "service_map_id": str(4152 + at),
            "version": cluster.banner(f"rgw.{name}"),
            "server_hostname": HOSTS[at],
            "realm_name": "",
            "zonegroup_name": "default",
            "zone_name": "default",
            "default": at == 0,
        }
        for at, name in enumerate(MONS[: len(MANAGERS)])
    ]


def osds(cluster: SimulatedCluster) -> list[Document]:
    """GET osd"""
    return [
        {**each, "id": each["osd"], "host": {"name": cluster.host(each["osd"])}}
        for each in _osds(cluster, cluster.dead())
    ]


def _osds(cluster: SimulatedCluster, dead: frozenset[int]) -> list[Document]:
    return [
        {
            "osd": osd,
            "up": int(osd not in dead),
            "in": int(osd not in cluster.state.out),
            "weight": float(osd not in cluster.state.out),
            "state": ["exists", *(["up"] * (osd not in dead))],
            "public_addr": address(cluster.host(osd), 6800 + osd),
        }
        for osd in cluster.osds
    ]


def _check(code: str, message: str, count: int, severity: str = WARN) -> Document:
    return {
        "severity": severity,
        "summary": {"message": message, "count": count},
        "detail": [],
        "muted": False,
        "type": code,
    }


def _checks(
    cluster: SimulatedCluster,
    dead: frozenset[int],
    states: dict[str, int],
    objects: int,
    missing: int,
) -> list[Document]:
    found = []
    if down := len(dead - set(cluster.state.out)):
        found.append(_check("OSD_DOWN", f"{down} osds down", down))
    if flags := cluster.state.flags:
        found.append(_check("OSDMAP_FLAGS", f"{','.join(flags)} flag(s) set", len(flags)))
    if inactive := sum(count for state, count in states.items() if "active" not in state):
        said = f"Reduced data availability: {inactive} pgs inactive"
        found.append(_check("PG_AVAILABILITY", said, inactive))
    degraded = sum(count for state, count in states.items() if "degraded" in state)
    if missing and degraded:
        copies = objects * 3
        said = (
            f"{missing}/{copies} objects degraded ({missing / copies:.3%}), {degraded} pgs degraded"
        )
        found.append(_check("PG_DEGRADED", f"Degraded data redundancy: {said}", degraded))
    if full := sum(pool.full for pool in cluster.state.pools.values()):
        found.append(_check("POOL_FULL", f"{full} pool(s) full", full))
    if (ago := cluster.crashed()) is not None:
        when = zulu(datetime.now(UTC).timestamp() - ago)
        told = [{"message": f"osd.0 crashed on host {HOSTS[0]} at {when}"}]
        found.append(
            {**_check("RECENT_CRASH", "1 daemons have recently crashed", 1), "detail": told}
        )
    if cluster.state.renewing and not cluster.finds_image():
        found.append(_check("UPGRADE_FAILED_PULL", "Upgrade: failed to pull target image", 1))
    return found


def _mons(cluster: SimulatedCluster) -> Document:
    state = cluster.state
    return {
        "name": MONS[0],
        "rank": 0,
        "state": "leader",
        "election_epoch": 6,
        "quorum": list(range(len(MONS))),
        "quorum_age": 79,
        "outside_quorum": [],
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": {
            "epoch": 1,
            "fsid": state.fsid,
            "modified": zulu(state.born),
            "created": zulu(state.born),
            "min_mon_release": 18,
            "min_mon_release_name": "reef",
            "mons": [
                {
                    "rank": at,
                    "name": name,
                    "addr": address(HOSTS[at], 6789),
                    "public_addr": address(HOSTS[at], 6789),
                    "priority": 0,
                    "weight": 0,
                }
                for at, name in enumerate(MONS)
            ],
        },
    }


def _file_systems(cluster: SimulatedCluster) -> Document:
    kept = [pool.id for pool in cluster.state.pools.values() if "cephfs" in pool.applications]
    mdsmap = {
        "epoch": 4,
        "max_mds": 1,
        "in": [0],
        "up": {"mds_0": 4139},
        "failed": [],
        "damaged": [],
        "stopped": [],
        "info": {
            "gid_4139": {
                "gid": 4139,
                "name": MONS[0],
                "rank": 0,
                "state": "up:active",
                "addr": address(HOSTS[0], 6827),
            }
        },
        "metadata_pool": kept[0],
        "data_pools": kept[1:],
        "enabled": True,
        "fs_name": FILE_SYSTEM,
        "standby_count_wanted": 1,
        "created": offset(cluster.state.born),
        "modified": offset(cluster.state.born),
    }
    return {
        "epoch": 4,
        "default_fscid": 1,
        "standbys": [{"gid": 4140, "name": MONS[1], "rank": -1, "state": "up:standby"}],
        "filesystems": [{"mdsmap": mdsmap, "id": 1}],
    }


def _osd_map(cluster: SimulatedCluster, dead: frozenset[int]) -> Document:
    state = cluster.state
    flags = sorted([*FLAGS, *state.flags])
    nodes = [
        {
            "id": -3 - at,
            "name": host,
            "type": "host",
            "type_id": 1,
            "children": [at * OSDS_PER_HOST + each for each in range(OSDS_PER_HOST)],
        }
        for at, host in enumerate(HOSTS)
    ]
    return {
        "epoch": state.epoch,
        "fsid": state.fsid,
        "created": offset(state.born),
        "modified": offset(state.changed),
        "last_up_change": offset(state.up_changed or state.born),
        "last_in_change": offset(state.changed),
        "flags": ",".join(flags),
        "flags_set": flags,
        "crush_version": 3,
        "full_ratio": 0.95,
        "backfillfull_ratio": 0.9,
        "nearfull_ratio": 0.85,
        "pool_max": state.next_pool - 1,
        "max_osd": len(cluster.osds),
        "require_osd_release": cluster.release,
        "osds": _osds(cluster, dead),
        "erasure_code_profiles": {"default": {"k": "2", "m": "2", "plugin": "jerasure"}},
        "tree": {"nodes": nodes, "stray": []},
        "crush": {"rules": [RULE]},
    }


def _pool(cluster: SimulatedCluster, pool: Pool, dead: frozenset[int]) -> Document:
    return {
        "pool": pool.id,
        "pool_name": pool.name,
        "flags_names": ",".join([*pool.flags, *(("full", "full_quota") if pool.full else ())]),
        "type": 1,
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": 0,
        "pg_autoscale_mode": "on",
        "pg_num": pool.groups,
        "quota_max_bytes": pool.most_bytes,
        "quota_max_objects": 0,
        "erasure_code_profile": "",
        "application_metadata": {each: {} for each in pool.applications},
        "pg_status": cluster.states(pool, dead),
    }


def _df(cluster: SimulatedCluster) -> Document:
    total, used = OSD_BYTES * len(cluster.osds), cluster.used()
    return {
        "stats": {
            "total_bytes": total,
            "total_avail_bytes": total - used,
            "total_used_bytes": used,
            "total_used_raw_bytes": used,
            "total_used_raw_ratio": used / total,
            "num_osds": len(cluster.osds),
        },
        "pools": [
            {
                "name": pool.name,
                "id": pool.id,
                "stats": {
                    "stored": pool.stored,
                    "objects": pool.objects,
                    "bytes_used": pool.stored * pool.size,
                    "max_avail": (total - used) // pool.size,
                },
            }
            for pool in cluster.state.pools.values()
        ],
    }
