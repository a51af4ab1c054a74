from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.storage import Light, count
from domain.storage_answers import (
    checks,
    failure_domain,
    file_system,
    moment,
    observed,
    version,
    versions,
)
from domain.storage_look import Look, Seen
from tests.domain.ceph import AT, answers, recorded, seen

PACIFIC = "ceph version 16.2.15 (618f440892089921c3e944a991122ddc44e60516) pacific (stable)"


@pytest.mark.parametrize(
    ("case", "figures"),
    [
        ("ok", (Light.OK, 3, 3, 3, 49, 212, 7331, 913842176, 0, 0, 1, 0)),
        ("under-load", (Light.OK, 3, 3, 3, 73, 11045, 515176190, 2465419264, 5285669, 322, 1, 0)),
        ("osd-down", (Light.WARN, 3, 2, 2, 0, 7110, 676049658, 1536561152, 0, 0, 1, 0)),
        ("fs-failed", (Light.ERR, 3, 3, 3, 65, 2706, 162878121, 1444401152, 0, 0, 0, 1)),
        ("reef", (Light.OK, 3, 3, 3, 49, 214, 466730, 85217280, 170, 0, 1, 0)),
    ],
)
def test_what_was_recorded_is_read_as_it_was(case: str, figures: tuple[Any, ...]) -> None:
    it = seen(case)
    osds = it.osds.all
    assert figures == (
        it.light,
        len(osds),
        sum(osd.up for osd in osds),
        sum(osd.inside for osd in osds),
        it.clean,
        it.objects,
        it.stored,
        it.capacity.used,
        it.rates.bytes_written,
        it.rates.writes,
        it.metadata_servers_up,
        it.hot_standbys,
    )
    assert it.mons.quorum == ("a",)
    assert it.live


def test_who_and_where_is_read_too() -> None:
    it = seen()
    assert (it.version, it.fsid) == ("16.2.15", "cfccd7ec-201c-479b-b8f8-81736944ebd0")
    assert it.manager.active == "x"
    assert it.manager.since == datetime(2026, 11, 18, 8, 29, 36, 575584, UTC)
    assert it.mons.created == datetime(2026, 11, 18, 8, 29, 31, 630053, UTC)
    assert {(osd.host, osd.address) for osd in it.osds.all} == {("node-a", "127.0.0.1")}
    assert it.osds.flags == ()
    assert [(it.host, it.zone) for it in it.gateways] == [("node-a", "default")]
    assert it.hosts[0].services == ("mds", "mgr", "mon", "osd", "rgw")
    assert (it.versions, it.release) == (("16.2.15",), "pacific")
    assert {pool.domain for pool in it.pools} == {"osd"}


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("0.000000", None),
        (0, None),
        ("1970-01-01T00:00:00.000000+0000", None),
        (1763454571, datetime(2025, 11, 18, 8, 29, 31, tzinfo=UTC)),
        ("2026-11-18T08:29:31.630053Z", datetime(2026, 11, 18, 8, 29, 31, 630053, UTC)),
        ("2026-11-18T09:29:31.630053+0100", datetime(2026, 11, 18, 8, 29, 31, 630053, UTC)),
    ],
)
def test_time_has_four_spellings(said: object, read: datetime | None) -> None:
    assert moment(said) == read


def test_a_rank_is_up_when_its_daemon_reports() -> None:
    dead = recorded("fs-map.mds-killed")["filesystems"][0]
    assert (file_system(dead).up, file_system(dead).broken) == (0, True)
    nobody = {"mdsmap": {**dead["mdsmap"], "up": {}}}
    assert file_system(nobody).up == 0
    unknown = {"mdsmap": {**dead["mdsmap"], "info": {}}}
    assert (file_system(unknown).up, file_system(unknown).broken) == (0, True)


def test_several_file_systems_are_summed() -> None:
    said = answers()
    fs_map = said.health["fs_map"]
    second = {"mdsmap": {**fs_map["filesystems"][0]["mdsmap"], "fs_name": "second"}}
    health = {**said.health, "fs_map": {**fs_map, "filesystems": [*fs_map["filesystems"], second]}}
    assert observed(said._replace(health=health), AT).metadata_servers_up == 2


def test_only_those_in_quorum_are_named() -> None:
    said = answers()
    status = said.health["mon_status"]
    five = [{"rank": rank, "name": name, "public_addr": ""} for rank, name in enumerate("abcde")]
    many = {**status, "quorum": [0, 2, 4], "monmap": {**status["monmap"], "mons": five}}
    it = observed(said._replace(health={**said.health, "mon_status": many}), AT)
    assert it.mons.quorum == ("a", "c", "e")


def test_errors_come_before_warnings() -> None:
    assert [each.code for each in seen("fs-failed").checks] == ["MDS_ALL_DOWN", "FS_DEGRADED"]
    two = recorded("health-full.two-osds-down.part")["health"]["checks"]
    assert [each.code for each in checks(reversed(two))] == ["OSD_DOWN", "PG_DEGRADED"]


def test_the_latest_crash_is_told() -> None:
    said = (
        "osd.1 crashed on host node-a at 2026-11-18T08:37:17.017323Z",
        "mgr module devicehealth crashed in daemon mgr.x on host a at 2026-11-18T09:00:00.000000Z",
        "unidentified daemon crashed on host (unknown) at unknown time",
        "and 3 more",
    )
    check = {
        "type": "RECENT_CRASH",
        "severity": "HEALTH_WARN",
        "summary": {"message": "6 daemons have recently crashed", "count": 6},
    }
    [told] = checks([{**check, "detail": [{"message": each} for each in said]}])
    assert told.latest == datetime(2026, 11, 18, 9, tzinfo=UTC)
    [untold] = checks([{**check, "detail": [{"message": said[-1]}]}])
    assert untold.latest is None


def test_daemons_of_several_versions_are_told_the_oldest_first() -> None:
    def runs(version: str) -> dict[str, str]:
        return {"type": "osd", "ceph_version": f"ceph version {version} (6b0e) reef (stable)"}

    hosts = [{"services": [runs("18.2.10"), runs("18.2.7")]}, {"services": [runs("18.2.7")]}, {}]
    assert versions(hosts) == ("18.2.7", "18.2.10")
    assert versions([{"services": [{"type": "osd"}]}]) == ()


def test_what_serves_nobody_is_told_by_the_placement_groups() -> None:
    states = recorded("health-full.two-osds-down.part")["pg_info"]["statuses"]
    assert count(states, lambda words: "active" not in words) == 57
    assert seen("osd-down").inactive == 0


def test_the_narrowest_choice_is_the_failure_domain() -> None:
    steps = [{"op": "take"}, {"op": "choose_indep", "type": "host"}]
    assert failure_domain(steps) == "host"
    assert failure_domain([*steps, {"op": "chooseleaf_indep", "type": "osd"}]) == "osd"
    assert failure_domain([]) == ""


def test_a_banner_that_is_none_tells_no_version() -> None:
    assert (version(PACIFIC), version("something else"), version("")) == ("16.2.15", "", "")


@pytest.mark.parametrize("part", ["health", "mon_status", "osd_map", "df"])
def test_an_answer_without_its_parts_is_none(part: str) -> None:
    said = answers()
    lacking = {name: each for name, each in said.health.items() if name != part}
    with pytest.raises(LookupError):
        observed(said._replace(health=lacking), AT)


def test_old_news_are_no_news() -> None:
    it = Seen(cluster="ceph", look=Look(observation=seen()), every=timedelta(seconds=15))
    assert it.light(AT + timedelta(seconds=45)) is Light.OK
    assert it.light(AT + timedelta(seconds=46)) is Light.OFFLINE
    deaf = Look(observation=seen().model_copy(update={"live": False}))
    assert it.model_copy(update={"look": deaf}).light(AT) is Light.OFFLINE


def test_what_was_seen_can_be_kept() -> None:
    it = seen("under-load")
    assert type(it).model_validate_json(it.model_dump_json()) == it
    assert len(it.model_dump_json()) < 10_000
