"""What the manager of a simulated Ceph cluster can be asked, as a table."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from sim.ceph import health
from sim.ceph.cluster import DAEMONS, Pool, SimulatedCluster

OFF = (
    "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to true "
    "before you can destroy a pool"
)


HOSTS_AT_A_TIME = 2
"""Fewer than there are, as with real ones, which tell of five."""


class Asked(NamedTuple):
    named: Mapping[str, str]
    """What stands in the path."""
    query: Mapping[str, str]
    body: Mapping[str, Any]


class RefusedError(Exception):
    def __init__(self, status: int, said: Mapping[str, Any]) -> None:
        super().__init__(said)
        self.status, self.said = status, said

    @classmethod
    def plainly(cls, status: int, word: str, detail: str) -> "RefusedError":
        """As the web server behind it answers."""
        return cls(status, {"status": f"{status} {word}", "detail": detail, "request_id": ""})

    @classmethod
    def errno(cls, number: int, words: str) -> "RefusedError":
        """As a command that fails."""
        detail = f"[errno -{number}] {words}"
        return cls(400, {"detail": detail, "code": str(number), "component": "pool"})


class Route(NamedTuple):
    method: str
    path: str
    """With names in braces for what stands there."""
    answer: Callable[[SimulatedCluster, Asked], Any]
    status: int = 200
    version: str = "1.0"


def finds(routes: Iterable[Route], method: str, path: str) -> tuple[Route, Mapping[str, str]]:
    for route in routes:
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path)
        found = re.fullmatch(pattern, path)
        if found and route.method == method:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
    raise RefusedError.plainly(404, "Not Found", f"The path '/api/{path}' was not found.")


def _pool(cluster: SimulatedCluster, asked: Asked) -> Pool:
    if asked.named["name"] not in cluster.state.pools:
        raise RefusedError.plainly(404, "Not Found", "The path 'No such pool' was not found.")
    return cluster.state.pools[asked.named["name"]]


def show_pool(cluster: SimulatedCluster, asked: Asked) -> Any:
    pool = _pool(cluster, asked)
    shown = {
        "pool": pool.id,
        "pool_name": pool.name,
        "type": pool.kind,
        "size": pool.size,
        "min_size": pool.min_size,
        "pg_num": pool.groups,
        "flags_names": ",".join(pool.flags),
        "application_metadata": pool.applications,
        "quota_max_bytes": pool.most_bytes,
    }
    wanted = asked.query.get("attrs", "")
    return {name: shown[name] for name in wanted.split(",") if name in shown} if wanted else shown


def create_pool(cluster: SimulatedCluster, asked: Asked) -> None:
    """Again and of the same type is a success that changes nothing."""
    body = asked.body
    there = cluster.state.pools.get(body["pool"])
    if there is None:
        cluster.create(
            body["pool"],
            groups=body["pg_num"],
            size=body.get("size", 3),
            applications=list(body.get("application_metadata", ())),
        )
    elif there.kind != body["pool_type"]:
        words = f"pool '{there.name}' cannot change to type {body['pool_type']}"
        raise RefusedError.errno(22, words)


def change_pool(cluster: SimulatedCluster, asked: Asked) -> None:
    pool, body = _pool(cluster, asked), asked.body
    pool.most_bytes = body.get("quota_max_bytes", pool.most_bytes)
    pool.applications = list(body.get("application_metadata", pool.applications))
    if "nodelete" in body:
        kept = [flag for flag in pool.flags if flag != "nodelete"]
        pool.flags = [*kept, *(["nodelete"] * (body["nodelete"] == "true"))]
    cluster.keep()


def delete_pool(cluster: SimulatedCluster, asked: Asked) -> None:
    pool = cluster.state.pools.get(asked.named["name"])
    if pool is None:
        return
    if "cephfs" in pool.applications:
        raise RefusedError.errno(16, f"pool '{pool.name}' is in use by CephFS")
    if not cluster.deletes_pools():
        raise RefusedError.errno(1, OFF)
    if "nodelete" in pool.flags:
        words = "pool deletion is disabled; you must unset nodelete flag for the pool first"
        raise RefusedError.errno(1, words)
    del cluster.state.pools[pool.name]
    cluster.keep()


def mark_osd(cluster: SimulatedCluster, asked: Asked) -> None:
    """Whatever is asked of whichever OSD, it says yes."""
    cluster.mark(int(asked.named["id"]), str(asked.body.get("action")))


def safe_to_destroy(cluster: SimulatedCluster, asked: Asked) -> Any:
    """Of OSDs that it has never heard of, it has no statistics."""
    wanted = json.loads(asked.query["ids"])
    known = [osd for osd in wanted if osd in cluster.osds]
    safe = [osd for osd in known if cluster.drained(osd)]
    return {
        "safe_to_destroy": safe,
        "active": [osd for osd in known if osd not in safe],
        "missing_stats": [osd for osd in wanted if osd not in known],
        "stored_pgs": [],
        "is_safe_to_destroy": safe == wanted,
    }


def hosts(cluster: SimulatedCluster, asked: Asked) -> Any:
    """A few at a time, unless it is said how many: -1 is all of them."""
    limit = int(asked.query.get("limit", HOSTS_AT_A_TIME))
    found = health.hosts(cluster)
    return found if limit == -1 else found[:limit]


def look(cluster: SimulatedCluster) -> Any:
    found = health.full(cluster)
    cluster.look()
    return found


def set_flags(cluster: SimulatedCluster, asked: Asked) -> list[str]:
    cluster.state.flags = sorted(set(asked.body["flags"]) - set(health.FLAGS))
    cluster.keep()
    return show_flags(cluster)


def show_flags(cluster: SimulatedCluster) -> list[str]:
    return sorted([*health.FLAGS, *cluster.state.flags])


def configure(cluster: SimulatedCluster, asked: Asked) -> None:
    for name, said in asked.body["options"].items():
        cluster.state.conf.setdefault(name, {})[said["section"]] = said["value"]
    cluster.keep()


def unset(cluster: SimulatedCluster, asked: Asked) -> None:
    cluster.state.conf.get(asked.named["name"], {}).pop(asked.query["section"], None)
    cluster.keep()


def show_setting(cluster: SimulatedCluster, asked: Asked) -> Any:
    name = asked.named["name"]
    said = cluster.state.conf.get(name, {})
    value = [{"section": section, "value": value} for section, value in said.items()]
    return {"name": name, "type": "bool", **({"value": value} if value else {})}


def write_user(cluster: SimulatedCluster, asked: Asked) -> str:
    entity = asked.body["user_entity"]
    caps = {each["entity"]: each["cap"] for each in asked.body["capabilities"]}
    cluster.authorise(entity, caps)
    return f"Successfully edited user '{entity}'"


def create_user(cluster: SimulatedCluster, asked: Asked) -> str:
    entity = asked.body["user_entity"]
    caps = {each["entity"]: each["cap"] for each in asked.body["capabilities"]}
    if cluster.state.users.get(entity, caps) != caps:
        raise RefusedError.errno(22, f"key for {entity} exists but cap mon does not match")
    cluster.authorise(entity, caps)
    return f"Successfully created user '{entity}'"


def export_user(cluster: SimulatedCluster, asked: Asked) -> str:
    (entity,) = asked.body["entities"]
    caps = cluster.state.users[entity].items()
    rights = "".join(f'\tcaps {kind} = "{cap}"\n' for kind, cap in sorted(caps))
    return f"[{entity}]\n\tkey = {cluster.state.keys[entity]}\n{rights}\n"


def begin_upgrade(cluster: SimulatedCluster, asked: Asked) -> str:
    if cluster.state.renewing:
        words = f"Upgrade to {cluster.state.renewing} is in progress"
        raise RefusedError.errno(22, words)
    cluster.renew(asked.body["version"])
    return f"Initiating upgrade to ceph/ceph:v{asked.body['version']}"


def hold_upgrade(paused: bool) -> Callable[[SimulatedCluster, Asked], str]:
    def hold(cluster: SimulatedCluster, _: Asked) -> str:
        cluster.state.paused = paused
        cluster.keep()
        return "Paused upgrade" if paused else "Resumed upgrade"

    return hold


def stop_upgrade(cluster: SimulatedCluster, _: Asked) -> str:
    cluster.stop_renewing()
    return "Stopped upgrade"


def show_upgrade(cluster: SimulatedCluster, _: Asked) -> Any:
    cluster.replace()
    state, done = cluster.state, len(DAEMONS) - len(cluster.old)
    return {
        "target_image": f"ceph/ceph:v{state.renewing}" if state.renewing else None,
        "in_progress": bool(state.renewing),
        "which": "Upgrading all daemon types on all hosts" if state.renewing else "<unknown>",
        "services_complete": [],
        "progress": f"{done}/{len(DAEMONS)} daemons upgraded" if state.renewing else None,
        "message": "",
        "is_paused": state.paused,
    }


ROUTES = (
    Route("POST", "auth", lambda _, __: None, 201),
    Route("POST", "auth/logout", lambda _, __: None),
    Route("GET", "health/full", lambda cluster, _: look(cluster)),
    Route("GET", "summary", lambda cluster, _: health.summary(cluster)),
    Route("GET", "host", hosts, version="1.3"),
    Route("GET", "rgw/daemon", lambda cluster, _: health.gateways(cluster)),
    Route("GET", "osd", lambda cluster, _: health.osds(cluster), version="1.1"),
    Route("GET", "osd/safe_to_destroy", safe_to_destroy),
    Route("PUT", "osd/{id}/mark", mark_osd),
    Route("GET", "osd/flags", lambda cluster, _: show_flags(cluster)),
    Route("PUT", "osd/flags", set_flags),
    Route("POST", "pool", create_pool, 201),
    Route("GET", "pool/{name}", show_pool),
    Route("PUT", "pool/{name}", change_pool),
    Route("DELETE", "pool/{name}", delete_pool, 204),
    Route("PUT", "cluster_conf", configure),
    Route("GET", "cluster_conf/{name}", show_setting),
    Route("DELETE", "cluster_conf/{name}", unset, 204),
    Route("POST", "cluster/upgrade/start", begin_upgrade),
    Route("PUT", "cluster/upgrade/pause", hold_upgrade(paused=True)),
    Route("PUT", "cluster/upgrade/resume", hold_upgrade(paused=False)),
    Route("PUT", "cluster/upgrade/stop", stop_upgrade),
    Route("GET", "cluster/upgrade/status", show_upgrade),
    Route("POST", "cluster/user", create_user, 201),
    Route("PUT", "cluster/user", write_user),
    Route("POST", "cluster/user/export", export_user),
    Route(
        "DELETE",
        "cluster/user/{name}",
        lambda cluster, asked: cluster.forget(asked.named["name"]),
        204,
    ),
)
