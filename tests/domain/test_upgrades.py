"""Which upgrades are offered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cluster import Cluster, Phase
from domain.machine import Role, Slot, SlotPhase, SlotState
from domain.releases import Catalogue, Release, Version
from domain.upgrades import offered, reaches, tolerates

VERSIONS = ("1.30.8", "1.31.4", "1.31.9", "1.32.1", "1.33.0")
CHANGEABLE = (Phase.RUNNING, Phase.DEGRADED)

CATALOGUE = Catalogue(
    releases=tuple(Release(version=version, series="jammy") for version in reversed(VERSIONS)),
    default="1.32.1",
)

versions = st.builds(
    Version, major=st.integers(1, 2), minor=st.integers(20, 36), patch=st.integers(0, 9)
)


def cluster(version: str = "1.31.4", phase: Phase = Phase.RUNNING) -> Cluster:
    return Cluster(uid="u", name="hello", phase=phase, message="", version=version, endpoint="")


def node(
    kubelet: str = "1.31.4",
    *,
    role: Role = Role.WORKER,
    phase: SlotPhase = SlotPhase.HEALTHY,
    series: str = "jammy",
) -> SlotState:
    release = Release(version="1.31.4", series=series)
    slot = Slot(
        cluster_uid="u",
        cluster="hello",
        name="n",
        role=role,
        pool="p",
        release=release,
        public_key="k",
    )
    return SlotState(slot=slot, phase=phase, kubelet=kubelet)


MASTER = node(role=Role.CONTROL_PLANE)


def test_later_patches_and_the_next_minor_are_offered_oldest_first() -> None:
    assert offered(cluster(), [MASTER, node()], CATALOGUE) == ["1.31.9", "1.32.1"]


def test_the_newest_is_offered_nothing() -> None:
    assert offered(cluster("1.33.0"), [MASTER], CATALOGUE) == []


@pytest.mark.parametrize("phase", [each for each in Phase if each not in CHANGEABLE])
def test_what_is_being_changed_or_does_not_work_is_offered_nothing(phase: Phase) -> None:
    assert offered(cluster(phase=phase), [MASTER], CATALOGUE) == []


def test_a_worker_may_be_missing_and_a_control_plane_may_not() -> None:
    short = cluster(phase=Phase.DEGRADED)
    lost = node("", phase=SlotPhase.RELEASED)
    assert offered(short, [MASTER, lost], CATALOGUE) == ["1.31.9", "1.32.1"]
    beaten = node(role=Role.CONTROL_PLANE, phase=SlotPhase.JOINED)
    assert offered(short, [MASTER, beaten], CATALOGUE) == []


def test_a_kubelet_that_stayed_behind_holds_the_others_back() -> None:
    slots = [MASTER, node("1.28.3")]
    assert offered(cluster(), slots, CATALOGUE) == ["1.31.9"]


def test_a_version_for_another_series_needs_another_machine() -> None:
    slots = [MASTER, node(series="noble")]
    assert offered(cluster(), slots, CATALOGUE) == []


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
