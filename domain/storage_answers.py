"""What the manager of a Ceph cluster answers, read as what was seen.

Whatever an answer cannot do without raises LookupError, TypeError, ValueError, AttributeError or
ArithmeticError, which the client translates; what Ceph leaves out while it is zero is zero."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from domain.storage import (
    Capacity,
    Check,
    FileSystem,
    Gateway,
    Host,
    Light,
    Manager,
    Mon,
    Mons,
    Observation,
    Osd,
    Osds,
    Pool,
    Rates,
)

Document = Mapping[str, Any]

SEVERITY = (Light.ERR, Light.WARN, Light.OK)
"""The worst first."""

ALWAYS = frozenset({"sortbitwise", "recovery_deletes", "purged_snapdirs", "pglog_hardlimit"})
"""Flags of the OSD map that nobody sets: they say which release wrote it."""

CRASHED = re.compile(r" crashed .* at (\d{4}-\S+)$")

LATEST_SECONDS = 253_402_300_800.0
"""The end of the year 9999, after which there are no dates."""

REPLICATED = 1
"""The type of a pool that keeps copies; every other keeps chunks."""


class Answers(NamedTuple):
    """What is asked for one look."""

    health: Document
    """GET health/full"""
    summary: Document
    """GET summary"""
    hosts: Sequence[Document] = ()
    """GET host"""
    gateways: Sequence[Document] = ()
    """GET rgw/daemon"""


def moment(said: object) -> datetime | None:
    """A time in any of Ceph's spellings: `…Z` and `…+0000`, both of which may stand in one answer,
    seconds since 1970, and zero for never."""
    if isinstance(said, str) and "-" in said:
        read = datetime.fromisoformat(said).astimezone(UTC)
        return read if read.timestamp() else None
    seconds = float(str(said))
    if not 0 <= seconds < LATEST_SECONDS:
        raise ValueError(f"{said} is no time")
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def versions(hosts: Iterable[Document]) -> tuple[str, ...]:
    """Those of all daemons, each once, the oldest first."""
    daemons = (each for said in hosts for each in said.get("services", ()))
    found = {version(each.get("ceph_version", "")) for each in daemons}
    return tuple(sorted(found - {""}, key=_numbers))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def version(banner: str) -> str:
    """`16.2.15` of `ceph version 16.2.15 (618f…) pacific (stable)`."""
    words = banner.split()
    return words[2] if words[:2] == ["ceph", "version"] and len(words) > 2 else ""


def observed(answers: Answers, at: datetime) -> Observation:
    """One look, out of everything that was answered."""
    health, summary = answers.health, answers.summary
    osd_map, mgr_map, fs_map = (
        health["osd_map"],
        health.get("mgr_map", {}),
        health.get("fs_map", {}),
    )
    info = health.get("pg_info", {})
    return Observation(
        at=at,
        live=bool(summary["have_mon_connection"]),
        version=version(summary.get("version", "")),
        fsid=health["mon_status"]["monmap"]["fsid"],
        light=Light(health["health"]["status"]),
        checks=checks(health["health"].get("checks", ())),
        modules=tuple(sorted(mgr_map.get("modules", ()))),
        mons=mons(health["mon_status"]),
        manager=Manager(
            active=mgr_map.get("active_name", ""),
            standbys=tuple(each["name"] for each in mgr_map.get("standbys", ())),
            since=moment(mgr_map.get("active_change", 0)),
        ),
        file_systems=tuple(file_system(each) for each in fs_map.get("filesystems", ())),
        standbys=len(fs_map.get("standbys", ())),
        osds=osds(osd_map),
        active_gateways=health.get("rgw", 0),
        gateways=tuple(gateway(each) for each in answers.gateways),
        pools=pools(health),
        states=info.get("statuses", {}),
        objects=info.get("object_stats", {}).get("num_objects", 0),
        capacity=capacity(health["df"]["stats"]),
        rates=rates(health.get("client_perf", {})),
        hosts=tuple(host(each) for each in answers.hosts),
        versions=versions(answers.hosts),
        release=osd_map.get("require_osd_release", ""),
    )


def checks(said: Iterable[Document]) -> tuple[Check, ...]:
    """The failing checks, errors first, then by code."""
    read = [
        Check(
            code=each["type"],
            light=Light(each["severity"]),
            says=each["summary"]["message"],
            muted=each.get("muted", False),
            latest=_latest(each.get("detail", ())),
        )
        for each in said
    ]
    return tuple(sorted(read, key=lambda check: (SEVERITY.index(check.light), check.code)))


def _latest(details: Iterable[Document]) -> datetime | None:
    """When a daemon crashed last: `osd.1 crashed on host ceph-1 at 2026-11-18T08:37:17.017323Z`."""
    told = (CRASHED.search(each["message"]) for each in details)
    return max((time for found in told if found and (time := moment(found[1]))), default=None)


def mons(status: Document) -> Mons:
    """Every mon of the map, and whether its rank is in the quorum."""
    monmap, quorum = status["monmap"], frozenset(status.get("quorum", ()))
    return Mons(
        all=tuple(
            Mon(
                name=mon["name"],
                in_quorum=mon["rank"] in quorum,
                host=_address(mon.get("public_addr", "")),
            )
            for mon in monmap["mons"]
        ),
        created=moment(monmap.get("created", 0)),
        changed=moment(monmap.get("modified", 0)),
    )


def addresses(health: Document) -> dict[str, str]:
    """Where each mon listens, with its port."""
    monmap = health["mon_status"]["monmap"]
    return {mon["name"]: mon.get("public_addr", "") for mon in monmap["mons"]}


def _address(said: str) -> str:
    """`10.0.0.7` of `10.0.0.7:6809/5996`."""
    return said.partition("/")[0].rpartition(":")[0].strip("[]")


def file_system(said: Document) -> FileSystem:
    mdsmap = said["mdsmap"]
    daemons: Mapping[str, Document] = mdsmap.get("info", {})
    serving = [daemons.get(f"gid_{gid}", {"laggy_since": ""}) for gid in mdsmap["up"].values()]
    late = [each for each in serving if "laggy_since" in each]
    return FileSystem(
        name=mdsmap["fs_name"],
        ranks=mdsmap["max_mds"],
        up=len(serving) - len(late),
        broken=bool(late or mdsmap.get("failed") or mdsmap.get("damaged")),
        replaying=sum(each.get("state") == "up:standby-replay" for each in daemons.values()),
        pools=(mdsmap["metadata_pool"], *mdsmap["data_pools"]),
    )


def osds(osd_map: Document) -> Osds:
    places = _places(osd_map.get("tree", {}).get("nodes", ()))
    return Osds(
        all=tuple(
            Osd(
                id=each["osd"],
                up=bool(each["up"]),
                inside=bool(each["in"]),
                host=places.get(each["osd"], ""),
                address=_address(each.get("public_addr", "")),
                weight=each.get("weight", 1.0),
            )
            for each in osd_map["osds"]
        ),
        up_changed=moment(osd_map.get("last_up_change", 0)),
        in_changed=moment(osd_map.get("last_in_change", 0)),
        flags=tuple(sorted(set(osd_map.get("flags_set", ())) - ALWAYS)),
    )


def _places(nodes: Iterable[Document]) -> dict[int, str]:
    """On which host each OSD is."""
    hosts = [node for node in nodes if node.get("type") == "host"]
    return {child: node["name"] for node in hosts for child in node.get("children", ())}


def gateway(said: Document) -> Gateway:
    return Gateway(
        name=said["id"], host=said.get("server_hostname", ""), zone=said.get("zone_name", "")
    )


def pools(health: Document) -> tuple[Pool, ...]:
    osd_map = health["osd_map"]
    profiles: Mapping[str, Document] = osd_map.get("erasure_code_profiles", {})
    domains = {
        rule["rule_id"]: failure_domain(rule.get("steps", ()))
        for rule in osd_map.get("crush", {}).get("rules", ())
    }
    held = {each["id"]: each["stats"] for each in health["df"].get("pools", ())}
    read = []
    for each in health.get("pools", ()):
        profile = profiles.get(each.get("erasure_code_profile", ""), {})
        stats = held.get(each["pool"], {})
        read.append(
            Pool(
                id=each["pool"],
                name=each["pool_name"],
                size=each["size"],
                min_size=each["min_size"],
                data_chunks=0 if each["type"] == REPLICATED else int(profile.get("k", 0)),
                domain=domains.get(each["crush_rule"], ""),
                states=each.get("pg_status", {}),
                stored=stats.get("stored", 0),
                objects=stats.get("objects", 0),
                most_bytes=each.get("quota_max_bytes", 0),
                applications=tuple(sorted(each.get("application_metadata", ()))),
                full=is_full(each.get("flags_names", "")),
            )
        )
    return tuple(read)


def is_full(flags: str) -> bool:
    """Whether a pool takes no more, by its flags: `hashpspool,full,full_quota`."""
    return "full" in flags.split(",")


def failure_domain(steps: Iterable[Document]) -> str:
    """What no two copies share. Of several choices the last and narrowest one counts."""
    chosen = [step["type"] for step in steps if str(step.get("op", "")).startswith("choose")]
    return chosen[-1] if chosen else ""


def capacity(stats: Document) -> Capacity:
    return Capacity(
        used=stats["total_used_bytes"],
        available=stats["total_avail_bytes"],
        total=stats["total_bytes"],
        used_ratio=stats["total_used_raw_ratio"],
    )


def rates(said: Document) -> Rates:
    return Rates(
        bytes_read=int(said.get("read_bytes_sec", 0)),
        bytes_written=int(said.get("write_bytes_sec", 0)),
        reads=int(said.get("read_op_per_sec", 0)),
        writes=int(said.get("write_op_per_sec", 0)),
    )


def host(said: Document) -> Host:
    return Host(
        name=said["hostname"],
        address=said.get("addr", ""),
        services=tuple(sorted({each["type"] for each in said.get("services", ())})),
        away=said.get("status") == "offline",
    )
