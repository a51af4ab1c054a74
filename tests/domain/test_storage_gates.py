"""When OSDs may be taken out or in, and when that is done."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ceph_releases import KNOWN, major, newest, refuse_unknown, too_far
from domain.errors import Conflict, Invalid, NotFound
from domain.storage import Check, Light, Manager, Mons, Observation, Osds
from domain.storage_gates import (
    alarming,
    behind,
    refuse,
    refuse_upgrade,
    restless,
    unsettled,
    unsound,
)
from domain.storage_plan import (
    MOST_OSDS,
    Marking,
    OsdMark,
    Renewal,
    Target,
    ids,
    pool_name,
    refuse_unconfirmed,
)
from sim.ceph_memory import MemoryCeph
from tests.domain.ceph import seen

OUT, BACK = OsdMark(id=0, inside=False), OsdMark(id=0, inside=True)


def marking(*osds: int, inside: bool = False) -> Marking:
    return Marking(cluster="ceph", marks=tuple(OsdMark(id=each, inside=inside) for each in osds))


def why(observation: Observation, *osds: int, inside: bool = False, known: bool = True) -> str:
    with pytest.raises(Conflict) as refusal:
        refuse(observation, marking(*osds, inside=inside), known=known)
    assert refusal.value.reason == "STORAGE_NOT_SAFE"
    return refusal.value.message


def test_one_osd_of_each_host_is_enough_and_no_host_may_go() -> None:
    ceph = MemoryCeph()
    refuse(ceph.seen(), marking(0))
    refuse(ceph.seen(), marking(0, 2, 4))
    said = why(ceph.seen(), 0, 1)
    assert "the pool first keeps 3 copies on different hosts, and 2 would be left" in said


def test_what_is_out_already_counts() -> None:
    assert "2 would be left" in why(MemoryCeph(outside={1}).seen(), 0)


def test_a_dead_osd_may_go_while_its_copies_are_missing_and_no_other_may() -> None:
    ceph = MemoryCeph(dead={0})
    refuse(ceph.seen(), marking(0))
    degraded = MemoryCeph(dead={0, 1}).seen()
    assert "active and clean" in why(degraded, 2)
    assert "active and clean" not in why(degraded, 0)


def test_while_groups_serve_nobody_nothing_is_taken_out() -> None:
    assert "8 placement groups serve nobody" in why(MemoryCeph(dead={0, 1, 2, 3}).seen(), 0)


def test_three_of_the_size_of_three_stay() -> None:
    """On one host with three OSDs no copy finds another place."""
    assert "on different OSDs, and 2 would be left" in why(seen(), 2)


def test_the_others_must_not_get_too_full() -> None:
    assert "the OSDs left would be 90% full" in why(MemoryCeph(used=0.75).seen(), 0)
    refuse(MemoryCeph(used=0.7).seen(), marking(0))


@pytest.mark.parametrize(
    ("code", "light", "refused"),
    [
        ("OSD_NEARFULL", Light.WARN, True),
        ("MDS_ALL_DOWN", Light.ERR, True),
        ("OSDMAP_FLAGS", Light.WARN, False),
    ],
)
def test_some_checks_forbid_it(code: str, light: Light, refused: bool) -> None:
    told = Check(code=code, light=light, says="oh")
    ill = MemoryCeph().seen().model_copy(update={"checks": (told,)})
    if refused:
        assert f"{code}: oh" in why(ill, 0)
    else:
        refuse(ill, marking(0))


def test_nothing_is_done_in_the_dark() -> None:
    assert "no news" in why(MemoryCeph().seen(), 0, known=False)
    assert "no news" in why(MemoryCeph().seen().model_copy(update={"live": False}), 0)


def test_a_dead_osd_is_not_taken_in() -> None:
    assert "osd.0 is down" in why(MemoryCeph(dead={0}, outside={0}).seen(), 0, inside=True)
    refuse(MemoryCeph(outside={0}).seen(), marking(0, inside=True))


def test_what_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"osd\.77"):
        refuse(MemoryCeph().seen(), marking(77))
    with pytest.raises(NotFound, match=r"osd\.77"):
        unsettled(MemoryCeph().seen(), OsdMark(id=77, inside=True), safe=True)


def test_it_is_waited_for_the_mark_the_groups_and_ceph_s_word() -> None:
    ceph = MemoryCeph()
    assert unsettled(ceph.seen(), OUT, safe=True) == "osd.0 is not out"
    assert unsettled(ceph.seen(), BACK, safe=False) == ""
    ceph.mark(OUT)
    assert unsettled(ceph.seen(), OUT, safe=False) == (
        "8 of 8 placement groups are still to be moved"
    )
    assert "nowhere else" in unsettled(ceph.seen(), OUT, safe=False)
    assert unsettled(ceph.seen(), OUT, safe=True) == ""
    deaf = ceph.seen().model_copy(update={"live": False})
    assert "hears no mon" in unsettled(deaf, OUT, safe=True)


def test_scrubbing_is_rest() -> None:
    states = {"active+clean": 5, "active+clean+scrubbing+deep": 2, "active+clean+snaptrim": 1}
    assert restless(MemoryCeph().seen().model_copy(update={"states": states})) == 1


@given(st.sets(st.integers(0, 5), min_size=1), st.sets(st.integers(0, 5)))
def test_whatever_is_let_go_leaves_a_place_for_every_copy(
    leaving: set[int], outside: set[int]
) -> None:
    ceph = MemoryCeph(outside=outside)
    try:
        refuse(ceph.seen(), marking(*leaving))
    except Conflict:
        return
    left = MemoryCeph(outside=outside | leaving).seen()
    assert restless(left) == 0


def test_osds_are_named_once_and_not_too_many() -> None:
    assert ids((3, 1, 3)) == (1, 3)
    for wrong in ((), (-1,), tuple(range(MOST_OSDS + 1))):
        with pytest.raises(Invalid, match="by their numbers"):
            ids(wrong)


@pytest.mark.parametrize("name", ["", "Big", "wl-1f6f-rbd", "a/b", "-a", ".mgr", "x" * 64])
def test_some_names_are_no_names_for_pools(name: str) -> None:
    with pytest.raises(Invalid, match="must be 1 to 63"):
        pool_name(name)


def test_data_goes_only_if_its_name_was_typed_twice() -> None:
    refuse_unconfirmed("backups", "backups")
    with pytest.raises(Conflict) as refusal:
        refuse_unconfirmed("backups", "")
    assert refusal.value.reason == "DATA_AT_STAKE"


NEW = Target(cluster="ceph", version="19.2.3")
FIT = MemoryCeph().seen()
DONE = MemoryCeph(version="19.2.3").seen().model_copy(update={"release": "squid"})
ILL = Check(code="MON_DOWN", light=Light.WARN, says="1/3 mons down")


def test_a_cluster_that_is_well_may_be_upgraded() -> None:
    refuse_upgrade(FIT, NEW)
    slow = Check(code="SLOW_OPS", light=Light.WARN, says="slow")
    refuse_upgrade(FIT.model_copy(update={"checks": (slow,)}), NEW)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"live": False}, "there is no news"),
        ({"checks": (ILL,)}, "MON_DOWN: 1/3 mons down"),
        ({"states": {"active+clean": 7, "peering": 1}}, "1 of 8 placement groups are not active"),
        ({"mons": Mons()}, "0 mons are in quorum, and 3 must be"),
        ({"manager": Manager(active="x")}, "1 manager is there, and no other"),
        ({"osds": Osds(flags=("noout",))}, "flags are set: noout"),
        ({"versions": ("17.2.8", "18.2.7")}, "daemons run 17.2.8, 18.2.7"),
        ({"versions": ("16.2.15", "18.2.7")}, "from 16.2.15 to 19.2.3 are more than 2"),
        ({"version": "16.2.15"}, "from 16.2.15 to 19.2.3 are more than 2 major versions"),
        ({"version": "20.1.0"}, "it runs 20.1.0, and Ceph does not go back"),
        ({"version": ""}, "nobody knows how to get from an unknown version"),
    ],
)
def test_each_gate_refuses_with_its_figures(changed: dict[str, object], said: str) -> None:
    with pytest.raises(Conflict, match=r"may not be upgraded to 19\.2\.3 now") as refusal:
        refuse_upgrade(FIT.model_copy(update=changed), NEW)
    assert said in refusal.value.message


def crash(hours: float | None, code: str = "RECENT_CRASH") -> Check:
    """`hours` ago, if it is known when."""
    latest = None if hours is None else FIT.at - timedelta(hours=hours)
    return Check(code=code, light=Light.WARN, says="1 daemons crashed", latest=latest)


@pytest.mark.parametrize(
    ("check", "borne"),
    [
        (crash(23), False),
        (crash(25), True),
        (crash(25, "RECENT_MGR_MODULE_CRASH"), True),
        (crash(None), False),
        (crash(25, "MON_DOWN"), False),
        (ILL.model_copy(update={"muted": True}), True),
    ],
)
def test_crashes_of_yesterday_and_what_was_muted_keep_nobody_from_it(
    check: Check, borne: bool
) -> None:
    try:
        refuse_upgrade(FIT.model_copy(update={"checks": (check,)}), NEW)
    except Conflict:
        assert not borne
    else:
        assert borne


def test_daemons_of_two_versions_are_brought_to_the_newer() -> None:
    half = FIT.model_copy(update={"version": "19.2.3", "versions": ("18.2.7", "19.2.3")})
    refuse_upgrade(half, NEW)
    assert (behind(half, NEW), behind(DONE, NEW)) == (["18.2.7"], [])


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({}, ""),
        ({"versions": (), "release": ""}, ""),
        ({"checks": (crash(1), ILL.model_copy(update={"muted": True}))}, ""),
        ({"live": False}, "Ceph's manager hears no mon"),
        ({"versions": ("18.2.7", "19.2.3")}, "daemons still run 18.2.7"),
        ({"release": "reef"}, "OSDs may still be of reef"),
        (
            {"states": {"active+clean": 7, "active+undersized": 1}},
            "1 of 8 placement groups are not active and clean",
        ),
        ({"checks": (ILL,)}, "MON_DOWN: 1/3 mons down"),
    ],
)
def test_an_upgrade_is_done_when_all_is_new_and_well(changed: dict[str, object], left: str) -> None:
    assert unsound(DONE.model_copy(update=changed), NEW) == left


@pytest.mark.parametrize(("name", "number"), [("pacific", 16), ("reef", 18), ("squid", 19)])
def test_releases_go_through_the_alphabet(name: str, number: int) -> None:
    assert (major(name), major("")) == (number, 0)


def test_nobody_upgrades_what_has_no_orchestrator() -> None:
    with pytest.raises(Conflict) as refusal:
        refuse_upgrade(FIT.model_copy(update={"modules": ("dashboard", "rook")}), NEW)
    assert refusal.value.reason == "CEPH_NO_UPGRADES"


def test_all_reasons_are_told_at_once() -> None:
    with pytest.raises(Conflict) as refusal:
        refuse_upgrade(MemoryCeph(used=0.8, dead={0, 1}).seen(), NEW, known=False)
    for said in ("no news", "not active and clean", "80% of its space is used"):
        assert said in refusal.value.message


def test_missing_copies_are_no_alarm_and_silence_is() -> None:
    assert alarming(MemoryCeph(dead={0, 1}).seen()) == ""
    assert alarming(MemoryCeph(dead={0, 1, 2, 3}).seen()) == "8 placement groups serve nobody"
    broken = Check(code="MDS_ALL_DOWN", light=Light.ERR, says="down")
    assert alarming(FIT.model_copy(update={"checks": (ILL, broken)})) == "MDS_ALL_DOWN: down"
    lost = Check(code="UPGRADE_FAILED_PULL", light=Light.WARN, says="no image")
    told = alarming(FIT.model_copy(update={"checks": (ILL, lost)}))
    assert told == "UPGRADE_FAILED_PULL: no image"


def test_the_newest_version_is_the_newest_that_can_be_reached() -> None:
    assert newest("16.2.13", KNOWN) == "18.2.7"
    assert newest("18.2.4", KNOWN) == "19.2.3"
    assert newest("18.2.4", KNOWN, majors=False) == "18.2.7"
    assert newest("19.2.3", KNOWN) == newest("", KNOWN) == ""
    assert too_far("18.2.4", "18.2.7") == []
    with pytest.raises(Invalid, match="not among the versions"):
        refuse_unknown("20.2.0", KNOWN)


def test_an_upgrade_says_how_far_it_is() -> None:
    assert Renewal(version="18.2.7").said(NEW) == "on the way to 19.2.3"
    assert Renewal(version="18.2.7", done=3, total=9).said(NEW) == "3 of 9 daemons run 19.2.3"
    assert not Renewal(version="19.2.3", running=True).is_over(NEW)
    assert Renewal(version="19.2.3").is_over(NEW)
