"""Which upgrades are offered, which are refused and why, and who has their turn when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cluster import Cluster, Phase
from domain.errors import Invalid
from domain.machine import Role, Slot, SlotPhase, SlotState
from domain.releases import Catalogue, Release, Version
from domain.upgrades import (
    HOLDING,
    OPEN,
    behind,
    chosen,
    fit,
    hindrance,
    joining,
    offered,
    planned,
    reaches,
    refusal,
    tolerates,
)

VERSIONS = ("1.30.8", "1.31.4", "1.31.9", "1.32.1", "1.33.0")

CATALOGUE = Catalogue(
    releases=tuple(Release(version=version, series="jammy") for version in reversed(VERSIONS)),
    default="1.32.1",
)

versions = st.builds(
    Version, major=st.integers(1, 2), minor=st.integers(20, 36), patch=st.integers(0, 9)
)
known_versions = st.sampled_from(VERSIONS)


def cluster(version: str = "1.31.4", phase: Phase = Phase.RUNNING, pending: str = "") -> Cluster:
    return Cluster(
        uid="u",
        name="hello",
        phase=phase,
        message="",
        version=version,
        pending=pending,
        endpoint="",
        operation="op-1",
    )


def node(
    kubelet: str = "1.31.4",
    *,
    name: str = "n",
    role: Role = Role.WORKER,
    pool: str = "p",
    phase: SlotPhase = SlotPhase.HEALTHY,
    series: str = "jammy",
    release: str = "1.31.4",
) -> SlotState:
    slot = Slot(
        cluster_uid="u",
        cluster="hello",
        name=name,
        role=role,
        pool=pool,
        release=Release(version=release, series=series),
        public_key="k",
    )
    return SlotState(slot=slot, phase=phase, kubelet=kubelet, system_id=f"id-{name}")


def master(kubelet: str = "1.31.4", **more: object) -> SlotState:
    given = {"name": "c0", "pool": "control-plane", "release": kubelet or "1.31.4", **more}
    return node(kubelet, role=Role.CONTROL_PLANE, **given)  # type: ignore[arg-type]


MASTER = master()


@st.composite
def sites(draw: st.DrawFn) -> tuple[Cluster, list[SlotState]]:
    """Any cluster that nothing is being done to, also one that could never come about."""
    phases = st.sampled_from(SlotPhase)
    masters = [
        master(draw(known_versions), name=f"c{number}", phase=draw(phases))
        for number in range(draw(st.sampled_from((1, 3))))
    ]
    workers = [
        node(draw(known_versions), name=f"w{number}", pool=pool, phase=draw(phases))
        for number, pool in enumerate(sorted(draw(st.lists(st.sampled_from("ab"), max_size=4))))
    ]
    pending = draw(st.sampled_from(("", *VERSIONS)))
    it = cluster(draw(known_versions), draw(st.sampled_from(sorted(OPEN))), pending)
    return it, masters + workers


def test_later_patches_and_the_next_minor_are_offered_oldest_first() -> None:
    assert offered(cluster(), [MASTER, node()], CATALOGUE) == ["1.31.9", "1.32.1"]
    assert hindrance(cluster(), [MASTER, node()], CATALOGUE) == ""


def test_the_newest_is_offered_nothing() -> None:
    newest = cluster("1.33.0"), [master("1.33.0")]
    assert offered(*newest, CATALOGUE) == []
    assert hindrance(*newest, CATALOGUE) == "the catalogue offers nothing newer than 1.33.0"


@pytest.mark.parametrize("phase", [each for each in Phase if each not in OPEN])
def test_what_is_being_changed_or_does_not_work_is_offered_nothing(phase: Phase) -> None:
    assert offered(cluster(phase=phase), [MASTER], CATALOGUE) == []
    assert hindrance(cluster(phase=phase), [MASTER], CATALOGUE) == f"cluster hello is {phase}"


def test_a_worker_may_be_missing_and_a_control_plane_may_not() -> None:
    short = cluster(phase=Phase.DEGRADED)
    lost = node("", phase=SlotPhase.RELEASED)
    assert offered(short, [MASTER, lost], CATALOGUE) == ["1.31.9", "1.32.1"]
    beaten = master(phase=SlotPhase.JOINED)
    assert offered(short, [MASTER, beaten], CATALOGUE) == []
    assert "c0 is joined" in hindrance(short, [MASTER, beaten], CATALOGUE)


def test_a_kubelet_that_stayed_behind_holds_the_others_back() -> None:
    slots = [MASTER, node("1.28.3")]
    assert offered(cluster(), slots, CATALOGUE) == ["1.31.9"]


def test_a_version_for_another_series_needs_another_machine() -> None:
    slots = [MASTER, node(series="noble")]
    assert offered(cluster(), slots, CATALOGUE) == []
    assert "n runs noble" in hindrance(cluster(), slots, CATALOGUE)


def test_of_several_series_the_one_that_the_machines_run_is_taken() -> None:
    both = [Release(version="1.32.1", series=series) for series in ("noble", "jammy")]
    catalogue = Catalogue(releases=tuple(both), default="1.32.1")
    for series in ("jammy", "noble"):
        assert fit([master(series=series)], "1.32.1", catalogue).series == series
    assert fit([], "1.32.1", catalogue).series == "noble"


def test_of_an_upgrade_that_is_not_finished_just_its_version_is_offered() -> None:
    half = cluster(phase=Phase.DEGRADED, pending="1.32.1")
    for slots in ([master("1.32.1"), node()], [master(phase=SlotPhase.JOINED), node()]):
        assert offered(half, slots, CATALOGUE) == ["1.32.1"]
    gone = half.model_copy(update={"pending": "1.32.0"})
    assert offered(gone, [MASTER], CATALOGUE) == []
    assert hindrance(gone, [MASTER], CATALOGUE) == "the catalogue does not offer 1.32.0 any more"


REFUSED = {
    "ALREADY_AT_VERSION": (cluster(), [MASTER, node()], "1.31.4"),
    "DOWNGRADE": (cluster(), [MASTER, node()], "1.30.8"),
    "MINOR_VERSION_SKIPPED": (cluster(), [MASTER, node()], "1.33.0"),
    "KUBELET_TOO_OLD": (cluster(), [MASTER, node("1.28.3")], "1.32.1"),
    "SERIES_DIFFERS": (cluster(), [MASTER, node(series="noble")], "1.32.1"),
    "CONTROL_PLANE_NOT_WHOLE": (cluster(), [master(phase=SlotPhase.JOINED)], "1.32.1"),
    "UPGRADE_PENDING": (cluster(pending="1.32.1"), [MASTER, node()], "1.31.9"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_refusal_says_why_what_it_is_about_and_what_to_do(reason: str) -> None:
    it, slots, version = REFUSED[reason]
    refused = refusal(it, slots, Release(version=version, series="jammy"))
    assert refused is not None
    assert refused.reason == reason
    assert refused.facts["version"] == "1.31.4"
    assert refused.facts["operation"] == "op-1"
    assert refused.do


def test_a_control_plane_without_any_node_is_not_gone_on_with() -> None:
    half = cluster(phase=Phase.DEGRADED, pending="1.32.1")
    lost = [master(phase=SlotPhase.RELEASED), node()]
    refused = refusal(half, lost, Release(version="1.32.1", series="jammy"))
    assert refused is not None
    assert refused.reason == "CONTROL_PLANE_NOT_WHOLE"


def test_while_a_member_of_etcd_is_silent_no_upgrade_is_begun() -> None:
    masters = [MASTER, master(name="c1"), master(name="c2")]
    assert offered(cluster(), masters, CATALOGUE, silent=["c2"]) == []
    assert "c2 did not answer" in hindrance(cluster(), masters, CATALOGUE, silent=["c2"])
    release = Release(version="1.32.1", series="jammy")
    half = cluster(phase=Phase.DEGRADED, pending="1.32.1")
    left = [master("1.32.1"), master(name="c1", phase=SlotPhase.JOINED), master(name="c2")]
    assert refusal(half, left, release, silent=["c1"]) is None, "it is its turn"
    refused = refusal(half, left, release, silent=["c1", "c2"])
    assert refused is not None
    assert refused.reason == "ETCD_MEMBER_SILENT"
    done = [master("1.32.1"), master("1.32.1", name="c1"), master("1.32.1", name="c2"), node()]
    assert refusal(half, done, release, silent=["c1"]) is None, "only workers are left"


def test_a_node_that_lags_behind_its_cluster_is_brought_after_it() -> None:
    release = Release(version="1.31.4", series="jammy")
    slots = [MASTER, node("1.30.8", name="late"), node(name="w")]
    assert refusal(cluster(), slots, release) is None
    upgrade = planned(cluster(), slots, release, at_once=1, drain_seconds=1)
    assert [machine.named for machine in upgrade.machines] == ["late"]
    assert (upgrade.leads, upgrade.forewarned) == (False, False)


@given(sites())
def test_what_is_offered_is_accepted_and_the_rest_has_a_reason(
    site: tuple[Cluster, list[SlotState]],
) -> None:
    it, slots = site
    found = offered(it, slots, CATALOGUE)
    assert bool(found) is not bool(hindrance(it, slots, CATALOGUE))
    assert set(found) <= {it.pending} or not it.pending
    for release in CATALOGUE.releases:
        refused = refusal(it, slots, release)
        if release.version in found:
            assert refused is None
        elif release.version != it.version:
            assert refused is not None
            assert refused.reason in REFUSED


@given(sites(), known_versions, st.integers(1, 3))
def test_everybody_who_is_behind_has_a_turn_control_planes_first_then_pool_by_pool(
    site: tuple[Cluster, list[SlotState]], version: str, at_once: int
) -> None:
    it, slots = site
    release = Release(version=version, series="jammy")
    upgrade = planned(it, slots, release, at_once=at_once, drain_seconds=1)
    turns = [machine.slot for machine in upgrade.machines]
    assert turns == [each.slot for each in behind(slots, version)]
    assert [slot.role for slot in turns] == sorted(slot.role for slot in turns)
    pools = [pool.name for pool in upgrade.pools]
    assert len(set(pools)) == len(pools)
    there = [each for each in slots if each.phase in HOLDING]
    assert upgrade.done + len(turns) == len(there)
    assert upgrade.headline(len(turns)).endswith(f"{len(there)}/{len(there)} nodes")
    masters = [each for each in there if each.slot.role is Role.CONTROL_PLANE]
    done = [each for each in masters if each.slot not in turns]
    assert upgrade.leads is not bool(done)
    assert {machine.slot for machine in upgrade.working} <= {each.slot for each in masters}
    assert bool(upgrade.through) is bool(masters)
    if upgrade.forewarned:
        assert upgrade.control_plane[0] == upgrade.working[0]


@given(sites())
def test_whoever_joins_is_no_newer_than_any_control_plane(
    site: tuple[Cluster, list[SlotState]],
) -> None:
    _, slots = site
    masters = [each for each in slots if each.slot.role is Role.CONTROL_PLANE]
    there = [each for each in masters if each.phase in HOLDING] or masters
    release = joining(slots)
    assert release in {each.slot.release for each in there}
    for each in there:
        assert Version.parse(release.version) <= Version.parse(each.slot.release.version)


@pytest.mark.parametrize("version", ["", "7", "1.29.0", "1.32.1-rc.1", "x" * 100])
def test_what_is_not_in_the_catalogue_is_wrong_and_says_so(version: str) -> None:
    with pytest.raises(Invalid) as refused:
        chosen("hello", version, CATALOGUE)
    [wrong] = refused.value.violations
    assert wrong.field == "version"


@pytest.mark.parametrize("version", ["1.32.1", "v1.32.1"])
def test_a_version_may_have_a_v_in_front(version: str) -> None:
    assert chosen("hello", version, CATALOGUE) == "1.32.1"


@given(versions, versions)
def test_an_upgrade_leads_to_something_newer_and_skips_nothing(now: Version, to: Version) -> None:
    if reaches(now, to):
        assert now < to
        assert (to.major, to.minor - now.minor) in {(now.major, 0), (now.major, 1)}
        assert not reaches(to, now)


@given(versions, versions)
def test_kubelets_before_1_25_are_less_patient(kubelet: Version, api: Version) -> None:
    behind = api.minor - kubelet.minor
    patience = 3 if kubelet.minor >= 25 or kubelet.major > 1 else 2
    assert tolerates(kubelet, api) is (kubelet.major == api.major and behind <= patience)
