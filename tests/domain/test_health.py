"""How a cluster is by what is seen of it: laws first, then the cases people ask about."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cluster import Phase
from domain.health import (
    JUDGED,
    LACKS,
    MOST_NAMED,
    NODES,
    WATCHED,
    Finding,
    Tolerance,
    Watched,
    is_expiring,
    judge,
    leading,
)
from domain.machine import Role, Slot, SlotPhase, SlotState
from domain.releases import Release
from domain.seen import Inside, MachineSeen, MemberSeen, NodeSeen, Readiness, Sight

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
TOLERANCE = Tolerance()
VERSION = "1.32.1"


def slot(name: str, role: Role) -> Slot:
    return Slot(
        cluster_uid="uid",
        cluster="hello",
        name=name,
        role=role,
        pool="control-plane" if role is Role.CONTROL_PLANE else "w",
        release=Release(version=VERSION, series="jammy"),
        public_key="ssh-ed25519 AAAA",
    )


def state(name: str, phase: SlotPhase = SlotPhase.HEALTHY, **more: Any) -> SlotState:
    role = Role.CONTROL_PLANE if name.startswith("control") else Role.WORKER
    filled = {"system_id": f"m-{name}", "address": "10.0.0.1", "kubelet": VERSION} | more
    return SlotState(slot=slot(name, role), phase=phase, **filled)


def watched(*states: SlotState, phase: Phase = Phase.RUNNING, **more: Any) -> Watched:
    slots = states or (state("control-plane-a"), state("w-a"), state("w-b"))
    of_finding = {key: more.pop(key) for key in list(more) if key in Finding.model_fields}
    workers = sum(each.slot.role is Role.WORKER for each in slots)
    known: dict[str, Any] = {
        "uid": "uid",
        "name": "hello",
        "endpoint": "hello.test",
        "version": VERSION,
        "operation": "op",
        "busy": False,
        "published": True,
        "wanted": {"w": workers},
        "finding": Finding(phase=phase, slots=slots, **of_finding),
    }
    return Watched(**known | more)


def after(cluster: Watched, finding: Finding) -> Watched:
    return cluster.model_copy(update={"finding": finding})


def seen(cluster: Watched, **worse: NodeSeen | None) -> Sight:
    """A look at which everything is well but for these nodes; None: there is no such node."""
    nodes = [
        worse.get(name.replace("-", "_"), NodeSeen(name=name, readiness=Readiness.READY))
        for name in (each.slot.name for each in cluster.finding.slots)
    ]
    return Sight(uid="uid", taken=NOW, nodes=tuple(node for node in nodes if node))


def metal(name: str, **more: Any) -> MachineSeen:
    return MachineSeen(**{"slot": name, "system_id": f"m-{name}", "status": "Deployed"} | more)


moments = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))
names = st.sampled_from(["control-plane-a", "control-plane-b", "w-a", "w-b", "stranger"])
nodes = st.builds(
    NodeSeen,
    name=names,
    readiness=st.sampled_from(Readiness),
    reason=st.sampled_from(["", "KubeletNotReady"]),
    kubelet=st.sampled_from(["", VERSION, "1.31.4"]),
    schedulable=st.booleans(),
)
machines = st.builds(
    MachineSeen,
    slot=names,
    system_id=names.map("m-{}".format),
    status=st.sampled_from(["", "Deployed", "Ready", "Broken"]),
    power=st.sampled_from(["on", "off"]),
    ours=st.booleans(),
)
insides = st.builds(
    Inside,
    members=st.none()
    | st.lists(
        st.builds(MemberSeen, name=names, answers=st.booleans(), learner=st.booleans()),
        max_size=3,
        unique_by=lambda member: member.name,
    ).map(tuple),
    expires=st.none() | moments,
    expires_on=st.just("control-plane-a"),
    admitted_until=st.none() | moments,
)
answered = st.builds(
    Sight,
    uid=st.just("uid"),
    taken=moments,
    nodes=st.lists(nodes, unique_by=lambda node: node.name).map(tuple),
    machines=st.none() | st.lists(machines, unique_by=lambda one: one.slot).map(tuple),
    inside=st.none() | insides,
)
unanswered = st.builds(
    Sight,
    uid=st.just("uid"),
    taken=moments,
    unanswered=st.just("connection refused"),
    machines=st.none() | st.lists(machines, unique_by=lambda one: one.slot).map(tuple),
    inside=st.none() | insides,
)
clusters = st.builds(
    lambda phases, phase: watched(
        *(
            state(name, slot_phase)
            for name, slot_phase in zip(
                ["control-plane-a", "control-plane-b", "w-a", "w-b"], phases, strict=True
            )
        ),
        phase=phase,
    ),
    st.lists(st.sampled_from(SlotPhase), min_size=4, max_size=4),
    st.sampled_from(sorted(JUDGED)),
)


@given(clusters, st.one_of(answered, unanswered))
def test_seeing_the_same_again_is_no_news(cluster: Watched, sight: Sight) -> None:
    once = judge(cluster, sight, TOLERANCE)
    assert judge(after(cluster, once), sight, TOLERANCE) == once


@given(clusters, answered)
def test_the_order_nodes_are_listed_in_does_not_matter(cluster: Watched, sight: Sight) -> None:
    other = sight.model_copy(update={"nodes": (sight.nodes or ())[::-1]})
    assert judge(cluster, sight, TOLERANCE) == judge(cluster, other, TOLERANCE)


@given(clusters, answered)
def test_running_means_that_every_node_wanted_is_ready(cluster: Watched, sight: Sight) -> None:
    found = judge(cluster, sight, TOLERANCE)
    assert found.phase in (Phase.RUNNING, Phase.DEGRADED)
    if found.phase is Phase.RUNNING:
        assert {each.phase for each in found.slots} == {SlotPhase.HEALTHY}
        assert all(each.node is None or each.node.schedulable for each in found.slots)
        assert not found.inside or not found.inside.silent


@given(clusters, st.one_of(answered, unanswered))
def test_whoever_is_short_says_what_of(cluster: Watched, sight: Sight) -> None:
    found = judge(cluster, sight, TOLERANCE)
    if sight.unanswered or found.phase is not Phase.RUNNING:
        assert found.trouble


@given(clusters, unanswered)
def test_a_silent_api_is_never_an_improvement(cluster: Watched, sight: Sight) -> None:
    assert judge(cluster, sight, TOLERANCE).phase in {cluster.finding.phase, Phase.ERROR}


@given(clusters, st.one_of(answered, unanswered))
def test_only_nodes_change_by_being_looked_at(cluster: Watched, sight: Sight) -> None:
    found = judge(cluster, sight, TOLERANCE)
    for before, now in zip(cluster.finding.slots, found.slots, strict=True):
        assert now.slot == before.slot
        assert now.system_id == before.system_id
        assert now.phase is before.phase or {before.phase, now.phase} <= WATCHED


@given(clusters, unanswered, answered)
def test_an_api_that_answers_again_is_all_that_error_waits_for(
    cluster: Watched, silence: Sight, sight: Sight
) -> None:
    broken = after(cluster, judge(cluster, silence, TOLERANCE))
    found = judge(broken, sight, TOLERANCE)
    assert found.phase is not Phase.ERROR
    assert found.silent_since is None
    assert not found.why


def test_every_readiness_is_a_phase_of_a_slot() -> None:
    assert NODES.keys() == set(Readiness)


def test_what_a_slot_lacks_is_said_for_every_phase_but_the_last() -> None:
    assert LACKS.keys() == set(SlotPhase) - {SlotPhase.HEALTHY}


def test_all_well_is_running_and_says_nothing() -> None:
    found = judge(watched(phase=Phase.DEGRADED), seen(watched()), TOLERANCE)
    assert (found.phase, found.trouble) == (Phase.RUNNING, "")


@pytest.mark.parametrize(
    ("node", "phase", "said"),
    [
        (
            NodeSeen(name="w-a", readiness=Readiness.NOT_READY, reason="KubeletNotReady"),
            SlotPhase.JOINED,
            "w-a is not Ready (KubeletNotReady)",
        ),
        (
            NodeSeen(name="w-a", readiness=Readiness.UNKNOWN, reason="NodeStatusUnknown"),
            SlotPhase.LOST,
            "w-a is lost (NodeStatusUnknown)",
        ),
        (None, SlotPhase.LOST, "w-a is lost (there is no such node)"),
        (
            NodeSeen(name="w-a", readiness=Readiness.READY, kubelet="1.31.4"),
            SlotPhase.HEALTHY,
            "w-a runs 1.31.4, not 1.32.1",
        ),
    ],
)
def test_a_node_that_is_not_as_wanted_degrades(
    node: NodeSeen | None, phase: SlotPhase, said: str
) -> None:
    found = judge(watched(), seen(watched(), w_a=node), TOLERANCE)
    assert (found.phase, found.trouble) == (Phase.DEGRADED, said)
    assert found.slots[1].phase is phase


CLOSED = NodeSeen(name="w-a", readiness=Readiness.READY, schedulable=False)
SICK = NodeSeen(name="w-a", readiness=Readiness.NOT_READY, schedulable=False)


@pytest.mark.parametrize(
    ("before", "node", "now", "said"),
    [
        (SlotPhase.HEALTHY, CLOSED, SlotPhase.HEALTHY, "w-a takes no pods: somebody closed it"),
        (SlotPhase.JOINED, CLOSED, SlotPhase.DRAINING, "w-a takes no pods"),
        (SlotPhase.LOST, CLOSED, SlotPhase.DRAINING, "w-a takes no pods"),
        (SlotPhase.DRAINING, CLOSED, SlotPhase.DRAINING, "w-a takes no pods"),
        (SlotPhase.DRAINING, SICK, SlotPhase.JOINED, "w-a is not Ready"),
        (SlotPhase.DRAINING, None, SlotPhase.LOST, "w-a is lost (there is no such node)"),
    ],
)
def test_a_closed_node_is_told_and_what_an_operation_closed_stays_known(
    before: SlotPhase, node: NodeSeen | None, now: SlotPhase, said: str
) -> None:
    cluster = watched(state("control-plane-a"), state("w-a", before))
    found = judge(cluster, seen(cluster, w_a=node), TOLERANCE)
    assert (found.phase, found.trouble) == (Phase.DEGRADED, said)
    assert found.slots[1].phase is now


def test_a_node_that_somebody_opened_again_takes_pods() -> None:
    cluster = watched(state("control-plane-a"), state("w-a", SlotPhase.DRAINING))
    found = judge(cluster, seen(cluster), TOLERANCE)
    assert (found.phase, found.slots[1].phase) == (Phase.RUNNING, SlotPhase.HEALTHY)


def test_a_control_plane_that_was_being_emptied_is_lost_with_its_api() -> None:
    cluster = watched(state("control-plane-a", SlotPhase.DRAINING), phase=Phase.DEGRADED)
    assert [machine.named for machine in cluster.control_planes] == ["control-plane-a"]
    found = judge(cluster, silence(inside=members(False, False, False)), TOLERANCE)
    assert (found.phase, found.slots[0].phase) == (Phase.ERROR, SlotPhase.LOST)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (metal("w-a", status="Broken"), "machine m-w-a of w-a is Broken in MAAS"),
        (
            metal("w-a", status="Ready", ours=False),
            "machine m-w-a of w-a was taken from us in MAAS, where it is Ready",
        ),
        (metal("w-b", power="off"), "machine m-w-a of w-a is gone from MAAS"),
    ],
)
def test_metal_that_is_not_as_wanted_degrades(machine: MachineSeen, said: str) -> None:
    others = (metal(name) for name in ("control-plane-a", "w-a", "w-b"))
    told = {each.slot: each for each in (*others, machine)}
    if machine.slot != "w-a":
        del told["w-a"]
    sight = seen(watched()).model_copy(update={"machines": tuple(told.values())})
    found = judge(watched(), sight, TOLERANCE)
    assert (found.phase, found.trouble) == (Phase.DEGRADED, said)
    unheard = judge(after(watched(), found), seen(watched()), TOLERANCE)
    assert unheard == found, "MAAS said nothing more"


def test_a_lost_node_without_power_says_so() -> None:
    lost = NodeSeen(name="w-a", readiness=Readiness.UNKNOWN)
    sight = seen(watched(), w_a=lost).model_copy(update={"machines": (metal("w-a", power="off"),)})
    assert "w-a is lost; machine m-w-a of w-a is off" in judge(watched(), sight, TOLERANCE).trouble


def test_a_pool_short_of_places_degrades() -> None:
    cluster = watched(wanted={"w": 3, "gpu": 1})
    found = judge(cluster, seen(cluster), TOLERANCE)
    assert found.phase is Phase.DEGRADED
    assert found.trouble == "gpu has 0 places, and 1 is wanted; w has 2 places, and 3 are wanted"


def silence(after_seconds: float = 0.0, inside: Inside | None = None) -> Sight:
    taken = NOW + timedelta(seconds=after_seconds)
    return Sight(uid="uid", taken=taken, unanswered="connection refused", inside=inside)


def test_silence_is_told_at_once_and_is_an_error_after_the_limit() -> None:
    first = judge(watched(), silence(), TOLERANCE)
    assert first.phase is Phase.RUNNING
    assert "no answer since 2026-11-18 12:00:00 UTC: connection refused" in first.trouble
    cluster = after(watched(), first)
    almost = judge(cluster, silence(TOLERANCE.silent_seconds - 1), TOLERANCE)
    assert almost == first
    down = judge(cluster, silence(TOLERANCE.silent_seconds), TOLERANCE)
    assert down.phase is Phase.ERROR
    assert {each.phase for each in down.slots} == {SlotPhase.LOST}
    back = judge(after(cluster, down), seen(cluster), TOLERANCE)
    assert (back.phase, back.trouble) == (Phase.RUNNING, "")


def members(*answer: bool) -> Inside:
    told = (
        MemberSeen(name=f"control-plane-{letter}", answers=answers)
        for letter, answers in zip("abc", answer, strict=True)
    )
    return Inside(members=tuple(told))


def test_a_lost_quorum_is_an_error_at_once() -> None:
    found = judge(watched(), silence(inside=members(True, False, False)), TOLERANCE)
    assert found.phase is Phase.ERROR
    assert found.trouble.startswith("etcd has lost its quorum: 1 of 3 members answer; the API has")


def test_one_silent_member_of_three_degrades() -> None:
    masters = [state(f"control-plane-{letter}") for letter in "ab"]
    cluster = watched(*masters)
    sight = seen(cluster).model_copy(update={"inside": members(True, False, False)})
    found = judge(cluster, sight, TOLERANCE)
    assert found.phase is Phase.DEGRADED
    assert found.trouble == (
        "etcd member control-plane-b does not answer; "
        "etcd member control-plane-c, which is no node of this cluster, does not answer"
    )


@pytest.mark.parametrize(("days", "due", "told"), [(40, False, 0), (20, True, 0), (9, True, 1)])
def test_a_kubeconfig_is_renewed_before_anybody_has_to_hear_of_it(
    days: int, due: bool, told: int
) -> None:
    inside = Inside(admitted_until=NOW + timedelta(days=days))
    assert is_expiring(inside, NOW, TOLERANCE) is due
    cluster = watched()
    found = judge(cluster, seen(cluster).model_copy(update={"inside": inside}), TOLERANCE)
    assert found.trouble.count("the kubeconfig opens nothing after") == told
    assert not is_expiring(None, NOW, TOLERANCE)


def test_the_endpoint_should_lead_to_the_control_planes_that_are_ready() -> None:
    first = state("control-plane-a", address="10.0.0.1")
    lost = state("control-plane-b", SlotPhase.LOST, address="10.0.0.2")
    closed = state("control-plane-c", SlotPhase.DRAINING, address="10.0.0.3")
    cluster = watched(first, lost, closed, state("w-a"))
    endpoint = leading(cluster, cluster.finding)
    assert endpoint is not None
    assert (endpoint.name, endpoint.addresses) == ("hello.test", ("10.0.0.1", "10.0.0.3"))
    there = cluster.model_copy(update={"led": ("10.0.0.3", "10.0.0.1")})
    assert leading(there, there.finding) is None
    dead = watched(lost, led=("10.0.0.1",))
    assert leading(dead, dead.finding) is None


def test_the_endpoint_does_not_lead_to_a_server_that_is_silent_while_another_answers() -> None:
    deaf = NodeSeen(name="", readiness=Readiness.READY, serves=False)
    first, second = (
        state(f"control-plane-{letter}", address=f"10.0.0.{number}", node=deaf)
        for number, letter in enumerate("ab", start=1)
    )
    third = state("control-plane-c", address="10.0.0.3")
    cluster = watched(first, second, third)
    endpoint = leading(cluster, cluster.finding)
    assert endpoint is not None
    assert endpoint.addresses == ("10.0.0.3",)
    none_answers = watched(first, second)
    endpoint = leading(none_answers, none_answers.finding)
    assert endpoint is not None
    assert endpoint.addresses == ("10.0.0.1", "10.0.0.2"), "the best guess there is"


def test_a_silent_api_server_degrades_while_its_node_is_ready() -> None:
    cluster = watched(state("control-plane-a"), state("control-plane-b"))
    for readiness, said in (
        (Readiness.READY, "the API server on control-plane-b does not answer"),
        (Readiness.NOT_READY, "control-plane-b is not Ready"),
    ):
        node = NodeSeen(name="control-plane-b", readiness=readiness, serves=False)
        found = judge(cluster, seen(cluster, control_plane_b=node), TOLERANCE)
        assert (found.phase, found.trouble) == (Phase.DEGRADED, said)


def test_a_control_plane_that_etcd_does_not_count_degrades() -> None:
    masters = [
        state(f"control-plane-{letter}", address=f"10.0.0.{number}")
        for number, letter in enumerate("abc", start=1)
    ]
    cluster = watched(*masters, state("w-a", address="10.0.0.4"))
    nameless = MemberSeen(name="https://10.0.0.2:2380", answers=True)
    for told, missing in (
        (None, ""),
        ((), ""),
        (members(True, True, True).members, ""),
        ((MemberSeen(name="control-plane-a", answers=True), nameless), "control-plane-c"),
    ):
        sight = seen(cluster).model_copy(update={"inside": Inside(members=told)})
        found = judge(cluster, sight, TOLERANCE)
        assert found.trouble == (f"{missing} is no member of etcd" if missing else "")


def test_a_certificate_that_expires_soon_is_told_and_degrades_nothing() -> None:
    inside = Inside(expires=NOW + timedelta(days=20), expires_on="control-plane-a")
    found = judge(watched(), seen(watched()).model_copy(update={"inside": inside}), TOLERANCE)
    assert found.phase is Phase.RUNNING
    assert found.trouble.startswith("certificates of control-plane-a expire on 2026-12-08")


def test_many_troubles_are_counted_rather_than_told() -> None:
    cluster = watched(*(state(f"w-{number}", SlotPhase.FAILED) for number in range(40)))
    found = judge(cluster, seen(cluster), TOLERANCE)
    assert found.trouble.endswith(f"; and {40 - MOST_NAMED} more")


@pytest.mark.parametrize(
    ("more", "judged", "stands"),
    [
        ({}, True, True),
        ({"busy": True, "phase": Phase.RECONCILING}, False, True),
        ({"busy": True, "phase": Phase.STOPPING}, False, False),
        ({"phase": Phase.ERROR}, True, True),
        ({"phase": Phase.ERROR, "published": False}, False, False),
        ({"phase": Phase.PROVISIONING, "busy": True, "published": True}, False, False),
    ],
)
def test_operations_own_the_phase(more: dict[str, Any], judged: bool, stands: bool) -> None:
    cluster = watched(**more)
    assert (cluster.judged, cluster.stands) == (judged, stands)


def test_the_api_is_asked_through_control_planes_that_work_first() -> None:
    cluster = watched(
        state("control-plane-a", SlotPhase.LOST, address="10.0.0.1"),
        state("control-plane-b", address="10.0.0.2"),
        state("control-plane-c", SlotPhase.DEPLOYING, address="10.0.0.3"),
        state("w-a", address="10.0.0.4"),
    )
    assert cluster.node.addresses == ("10.0.0.2", "10.0.0.1")
    assert [machine.system_id for machine in cluster.machines] == [
        f"m-{name}" for name in ("control-plane-a", "control-plane-b", "control-plane-c", "w-a")
    ]
