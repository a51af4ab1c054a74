from itertools import product

import pytest

from domain import radar, reliability
from domain.reliability import Score
from domain.storage import (
    Check,
    FileSystem,
    Gateway,
    Light,
    Manager,
    Mon,
    Mons,
    Observation,
    Osds,
    Pool,
)
from domain.storage_resources import Standing, daemons, nodes, resources
from tests.domain.ceph import seen

OK, DEGRADED, NONE = Score.OK, Score.DEGRADED, Score.NONE
READY, LOST = Standing.READY, Standing.NOT_READY


@pytest.mark.parametrize(
    ("case", "health", "capacity", "stability"),
    [
        ("ok", 100, 92.9, 100),
        ("under-load", 100, 80.8, 100),
        ("osd-down", 50, 82.1, 90),
        ("fs-failed", 0, 88.7, 80),
    ],
)
def test_the_radar_of_what_was_recorded(
    case: str, health: float, capacity: float, stability: float
) -> None:
    it = seen(case)
    read = radar.radar(it, it.light, [READY, READY, LOST], reliability.parts(it))
    assert (read.health, read.capacity, read.stability) == (health, capacity, stability)
    assert read.nodes == 66.7, "to one decimal"
    assert read.reliability is not None
    assert read.reliability <= 50, "it has one mon"


def test_nothing_is_worth_nothing() -> None:
    empty = seen().model_copy(update={"capacity": seen().capacity.model_copy(update={"total": 0})})
    read = radar.radar(empty, Light.OFFLINE, [], [])
    assert (read.health, read.nodes, read.capacity) == (0, 0, 0)
    assert radar.reliable([]) == 0
    assert radar.stability(seen("fs-failed").checks * 6) == 0


@pytest.mark.parametrize(
    ("checks", "plain", "weighted"),
    [
        ((), 100, 100),
        ((("OSD_DOWN", Light.WARN, "1 osds down"),), 90, 90),
        ((("MDS_ALL_DOWN", Light.ERR, "down"), ("FS_DEGRADED", Light.WARN, "1")), 80, 65),
        ((("RECENT_CRASH", Light.WARN, "2 daemons have recently crashed"),), 90, 80),
        ((("RECENT_CRASH", Light.WARN, "40 daemons have recently crashed"),), 90, 60),
        ((("OSDMAP_FLAGS", Light.WARN, "noout flag(s) set"), *[("X", Light.ERR, "x")] * 4), 50, 0),
    ],
)
def test_checks_are_counted_or_weighed(
    checks: tuple[tuple[str, Light, str], ...], plain: float, weighted: float
) -> None:
    told = [Check(code=code, light=light, says=says) for code, light, says in checks]
    assert (radar.stability(told), radar.weighed(told)) == (plain, weighted)
    muted = [check.model_copy(update={"muted": True}) for check in told]
    assert (radar.stability(muted), radar.weighed(muted)) == (plain, 100)
    assert radar.STABILITY.keys() == set(radar.Stability)


def test_every_light_has_its_figure() -> None:
    assert radar.HEALTH.keys() == set(Light)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [([OK, OK], 100), ([OK, DEGRADED], 75), ([OK, OK, OK, NONE], 50), ([DEGRADED, NONE], 25)],
)
def test_one_part_without_spare_caps_the_whole(scores: list[Score], mean: float) -> None:
    assert radar.reliable(scores) == mean


def _mons(number: int, ready: int, hosts: int) -> tuple[Mon, ...]:
    return tuple(
        Mon(name=str(each), in_quorum=each < ready, host=str(each % hosts))
        for each in range(number)
    )


@pytest.mark.parametrize(
    ("number", "ready", "hosts", "score"),
    [
        (3, 3, 3, OK),
        (5, 5, 5, OK),
        (3, 3, 2, DEGRADED),
        (4, 4, 4, DEGRADED),
        (3, 2, 3, DEGRADED),
        (5, 3, 5, DEGRADED),
        (5, 2, 5, NONE),
        (1, 1, 1, NONE),
        (2, 2, 2, NONE),
        (0, 0, 1, NONE),
    ],
)
def test_mons(number: int, ready: int, hosts: int, score: Score) -> None:
    assert reliability.mons(_mons(number, ready, hosts)) is score


@pytest.mark.parametrize(("ready", "score"), [(0, NONE), (1, DEGRADED), (2, OK), (3, OK)])
def test_pairs(ready: int, score: Score) -> None:
    assert reliability.pair(ready) is score
    manager = Manager(active="x" if ready else "", standbys=("y",) * max(0, ready - 1))
    assert reliability.managers(seen().model_copy(update={"manager": manager})) is score


def test_osds() -> None:
    assert reliability.osds(seen()) is OK
    assert reliability.osds(seen("osd-down")) is DEGRADED
    dead = seen("osd-down").model_copy(update={"states": {"undersized+peered": 1}})
    assert reliability.osds(dead) is NONE
    assert reliability.osds(seen().model_copy(update={"osds": Osds()})) is NONE


@pytest.mark.parametrize(
    ("up", "broken", "standbys", "replaying", "score"),
    [
        (1, False, 1, 0, OK),
        (1, False, 0, 1, OK),
        (1, False, 0, 0, DEGRADED),
        (0, False, 1, 0, NONE),
        (1, True, 1, 0, NONE),
    ],
)
def test_metadata_servers(
    up: int, broken: bool, standbys: int, replaying: int, score: Score
) -> None:
    it = FileSystem(name="fs", ranks=1, up=up, broken=broken, replaying=replaying)
    assert reliability.metadata_servers(it, standbys) is score


@pytest.mark.parametrize(
    ("size", "min_size", "chunks", "domain", "score"),
    [
        (3, 2, 0, "host", OK),
        (3, 2, 0, "rack", OK),
        (3, 2, 0, "osd", DEGRADED),
        (3, 1, 0, "host", DEGRADED),
        (2, 2, 0, "host", DEGRADED),
        (1, 1, 0, "host", NONE),
        (6, 5, 4, "host", OK),
        (6, 4, 4, "host", DEGRADED),
        (5, 5, 4, "host", DEGRADED),
        (4, 4, 4, "host", NONE),
    ],
)
def test_pools(size: int, min_size: int, chunks: int, domain: str, score: Score) -> None:
    it = Pool(id=1, name="p", size=size, min_size=min_size, data_chunks=chunks, domain=domain)
    assert reliability.pool(it) is score


def _whole() -> Observation:
    """A cluster with nothing to complain of."""
    pools = tuple(pool.model_copy(update={"domain": "host"}) for pool in seen().pools)
    gateways = tuple(Gateway(name=name, host=name, zone="default") for name in "ab")
    return seen().model_copy(
        update={
            "mons": Mons(all=_mons(3, 3, 3)),
            "manager": Manager(active="x", standbys=("y",)),
            "pools": pools,
            "standbys": 1,
            "gateways": gateways,
        }
    )


def test_a_cluster_with_all_it_should_have_is_reliable() -> None:
    it = _whole()
    assert set(reliability.parts(it)) == {OK}
    assert radar.radar(it, it.light, [READY], reliability.parts(it)).reliability == 100
    assert {
        each.score for each in [*resources("c", it, it.light), *daemons("c", it, it.light)]
    } == {OK}


def test_resources_are_named_in_their_order() -> None:
    it = seen()
    made = resources("lab", it, it.light)
    assert [(each.kind, each.name) for each in made] == [
        ("CephCluster", "lab"),
        *(("CephBlockPool", pool) for pool in sorted(pool.name for pool in it.pools)),
        ("CephFilesystem", "cephfs"),
        ("CephObjectStore", "default"),
    ]
    groups = daemons("lab", it, it.light)
    assert [(each.name, each.wanted) for each in groups] == [
        ("mds.cephfs", 1),
        ("mgr", 1),
        ("mon", 1),
        ("osd", 3),
        ("rgw.default", 1),
    ]
    assert {each.namespace for each in [*made, *groups]} == {"lab"}
    assert {each.standing for each in [*made, *groups]} == {Standing.READY}


def test_what_is_not_ready_is_not_reliable() -> None:
    it = _whole().model_copy(update={"states": {}})
    down = it.osds.all[0].model_copy(update={"up": False})
    it = it.model_copy(update={"osds": Osds(all=(down, *it.osds.all[1:]))})
    found = {each.name: each for each in daemons("lab", it, it.light)}
    assert (found["osd"].standing, found["osd"].score) == (Standing.NOT_READY, DEGRADED)
    broken = seen("fs-failed")
    kinds = {each.kind: each for each in resources("lab", broken, broken.light)}
    assert kinds["CephCluster"].standing is Standing.NOT_READY
    assert (kinds["CephFilesystem"].standing, kinds["CephFilesystem"].score) == (
        Standing.NOT_READY,
        NONE,
    )


def test_without_news_nobody_knows() -> None:
    it = seen()
    parts = [*resources("lab", it, Light.OFFLINE), *daemons("lab", it, Light.OFFLINE)]
    assert {each.standing for each in parts} == {Standing.UNKNOWN}
    assert [each.standing for each in nodes(it, Light.OFFLINE)] == [Standing.UNKNOWN]


def test_nodes_are_the_hosts() -> None:
    (node,) = nodes(seen(), Light.OK)
    assert (node.name, node.standing, node.internal) == ("node-a", Standing.READY, "127.0.0.1")
    assert node.roles == ("mds", "mgr", "mon", "osd", "rgw")
    dead = tuple(osd.model_copy(update={"up": False}) for osd in seen().osds.all)
    (node,) = nodes(seen().model_copy(update={"osds": Osds(all=dead)}), Light.WARN)
    assert node.standing is Standing.NOT_READY


def test_scores_are_ordered() -> None:
    assert all((a < b) == (a.value < b.value) for a, b in product(Score, Score))
