"""What may be mended: laws that hold whatever is broken, and what people are told."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.errors import Failed, Failure, Overdue, Unavailable
from domain.machine import Role, Slot, SlotPhase, SlotState
from domain.releases import Release
from domain.repairs import (
    ANSWERING,
    REMEDIES,
    Choice,
    Patient,
    Prudence,
    Remedy,
    again_from,
    choose,
    counted,
    is_beyond_reviving,
)

NOW = datetime(2027, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=3)
PRUDENCE = Prudence()
ANY: dict[str, int] = {}
"""No pool has more places than are wanted of it."""


def patient(
    name: str,
    phase: SlotPhase = SlotPhase.HEALTHY,
    role: Role = Role.WORKER,
    since: datetime = LONG_AGO,
    mends: int = 0,
    mended: datetime | None = None,
) -> Patient:
    slot = Slot(
        cluster_uid="uid",
        cluster="hello",
        name=name,
        role=role,
        pool="w" if role is Role.WORKER else "control-plane",
        release=Release(version="1.32.1", series="jammy"),
        public_key="ssh-ed25519 AAAA",
    )
    state = SlotState(slot=slot, phase=phase, system_id=f"m-{name}")
    return Patient(state=state, since=since, mends=mends, mended=mended)


def cluster(masters: list[SlotPhase], workers: list[SlotPhase]) -> list[Patient]:
    return [
        *(patient(f"c{n}", phase, Role.CONTROL_PLANE) for n, phase in enumerate(masters)),
        *(patient(f"w{n}", phase) for n, phase in enumerate(workers)),
    ]


phases = st.sampled_from(SlotPhase)
clusters = st.builds(
    cluster,
    st.lists(phases, min_size=1, max_size=5),
    st.lists(phases, max_size=8),
)


def chosen(choice: Choice) -> dict[str, Remedy]:
    return {each.named: each.remedy for each in choice.mending}


def test_every_phase_has_a_remedy_or_needs_none() -> None:
    assert REMEDIES.keys() == set(SlotPhase)
    assert [phase for phase, remedy in REMEDIES.items() if remedy is None] == [SlotPhase.HEALTHY]


@given(clusters)
def test_whatever_is_ill_is_mended_or_told_of_and_nothing_else_is(patients: list[Patient]) -> None:
    choice = choose(patients, PRUDENCE, NOW, wanted=ANY)
    mended, told = chosen(choice), [text.partition(" ")[0] for text in choice.left_alone]
    ill = [each.name for each in patients if each.remedy]
    assert sorted([*mended, *told]) == sorted(ill)
    for each in patients:
        assert mended.get(each.name, each.remedy) is each.remedy


@given(clusters)
def test_etcd_never_loses_the_majority_of_those_that_answer(patients: list[Patient]) -> None:
    masters = [each for each in patients if each.state.slot.role is Role.CONTROL_PLANE]
    answering = sum(each.state.phase in ANSWERING for each in masters)
    sick = [each.name for each in masters if each.remedy is Remedy.REVIVE]
    members = answering + len(sick)
    mending = [
        each for each in choose(patients, PRUDENCE, NOW, wanted=ANY).mending if each.named in sick
    ]
    for each in mending:
        if each.replaceable:
            assert 2 * answering > members
        else:
            assert (members, answering) == (1, 0)


@given(clusters)
def test_nobody_joins_a_control_plane_that_does_not_answer(patients: list[Patient]) -> None:
    masters = [each for each in patients if each.state.slot.role is Role.CONTROL_PLANE]
    choice = choose(patients, PRUDENCE, NOW, wanted=ANY)
    if not any(each.state.phase in ANSWERING for each in masters):
        leading = {each.name for each in masters}
        assert chosen(choice).keys() <= leading
        assert set(chosen(choice).values()) <= {Remedy.REVIVE}


@given(clusters)
def test_a_member_that_is_silent_is_mended_before_another_may_join(
    patients: list[Patient],
) -> None:
    sick = {
        each.name
        for each in patients
        if each.remedy is Remedy.REVIVE and each.state.slot.role is Role.CONTROL_PLANE
    }
    choice = choose(patients, PRUDENCE, NOW, wanted=ANY)
    order = [each for each in choice.mending if each.machine.slot.role is Role.CONTROL_PLANE]
    for index, each in enumerate(order):
        if each.remedy is Remedy.FILL:
            assert sick <= {before.named for before in order[:index]}


@given(clusters, st.floats(0, 1))
def test_when_too_many_fail_at_once_no_machine_is_restarted(
    patients: list[Patient], share: float
) -> None:
    prudence = Prudence(most_unhealthy=share)
    sick = [each for each in patients if each.remedy is Remedy.REVIVE]
    masters = [each for each in patients if each.state.slot.role is Role.CONTROL_PLANE]
    if not any(each.state.phase in ANSWERING for each in masters):
        return  # nothing is known of the workers then
    revived = Remedy.REVIVE in chosen(choose(patients, prudence, NOW, wanted=ANY)).values()
    if len(sick) > max(1, share * len(patients)):
        assert not revived


@given(clusters)
def test_a_node_that_fell_ill_just_now_may_come_back_by_itself(patients: list[Patient]) -> None:
    fresh = [each.model_copy(update={"since": NOW}) for each in patients]
    assert Remedy.REVIVE not in chosen(choose(fresh, PRUDENCE, NOW, wanted=ANY)).values()
    for each in fresh:
        of_one = chosen(choose(fresh, PRUDENCE, NOW, wanted=ANY, named=[each.name]))
        assert of_one.keys() <= {each.name}


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_who_was_mended_of_late_is_left_alone_longer_each_time(mends: int, passed: int) -> None:
    mended = NOW - timedelta(seconds=passed)
    again = again_from(mends, mended, PRUDENCE)
    assert again_from(mends - 1, mended, PRUDENCE) <= again
    assert timedelta(hours=1) <= again - mended <= timedelta(days=1)
    ill = [
        patient("c", role=Role.CONTROL_PLANE),
        patient("w", SlotPhase.JOINED, mends=mends, mended=mended),
    ]
    assert bool(choose(ill, PRUDENCE, NOW, wanted=ANY, unasked=True).mending) is (again <= NOW)
    assert choose(ill, PRUDENCE, NOW, wanted=ANY).mending, "whoever asks is not held up"
    assert counted(ill[1], PRUDENCE, NOW) in (1, mends + 1)


def test_a_node_that_worked_for_long_begins_anew() -> None:
    assert counted(patient("w"), PRUDENCE, NOW) == 1
    assert counted(patient("w", mends=4, mended=NOW - timedelta(days=3)), PRUDENCE, NOW) == 1
    assert counted(patient("w", mends=4, mended=NOW - timedelta(hours=3)), PRUDENCE, NOW) == 5


def test_a_node_that_is_named_is_doubted_and_no_other() -> None:
    patients = cluster([SlotPhase.HEALTHY] * 3, [SlotPhase.HEALTHY] * 2)
    assert choose(patients, PRUDENCE, NOW, wanted=ANY).mending == ()
    assert chosen(choose(patients, PRUDENCE, NOW, wanted=ANY, named=["c1", "w0"])) == {
        "c1": Remedy.REVIVE,
        "w0": Remedy.REVIVE,
    }
    assert choose(patients, PRUDENCE, NOW, wanted=ANY, named=["c0", "c1"]).mending == ()


def test_people_are_told_why_nothing_is_done() -> None:
    well, sick = SlotPhase.HEALTHY, SlotPhase.JOINED
    no_majority = choose(cluster([well, sick, sick], [well] * 5), PRUDENCE, NOW, wanted=ANY)
    assert no_majority.mending == ()
    assert "1 of 3 control planes answer" in no_majority.left_alone[0]
    crowd = choose(cluster([well], [sick] * 4), PRUDENCE, NOW, wanted=ANY)
    assert "one of 4 nodes of 5 that are not Ready, and at most 2" in crowd.left_alone[0]
    soon = [*cluster([well], []), patient("w", sick, since=NOW - timedelta(seconds=40))]
    assert (
        "is not Ready since 23:59:20 UTC, and may come back by itself"
        in choose(soon, PRUDENCE, NOW, wanted=ANY).left_alone[0]
    )
    alone = choose(cluster([sick], [sick]), PRUDENCE, NOW, wanted=ANY)
    assert [(each.named, each.replaceable) for each in alone.mending] == [("c0", False)]
    assert alone.left_alone == ("w0 waits for a control plane that works",)
    headless = choose(
        cluster([SlotPhase.RELEASED], [SlotPhase.RELEASED]), PRUDENCE, NOW, wanted=ANY
    )
    assert all("waits for a control plane" in text for text in headless.left_alone)


def test_a_place_that_somebody_took_away_is_not_filled_again() -> None:
    patients = cluster([SlotPhase.HEALTHY], [SlotPhase.HEALTHY, SlotPhase.RELEASING])
    for named in ((), ("w1",)):
        for wanted, told in ((0, "0 are"), (1, "1 is")):
            choice = choose(patients, PRUDENCE, NOW, wanted={"w": wanted}, named=named)
            assert choice.mending == ()
            assert f"w1 gets no machine: w has 2 places, and {told}" in choice.left_alone[0]
    assert chosen(choose(patients, PRUDENCE, NOW, wanted={"w": 2})) == {"w1": Remedy.FILL}
    lost = cluster([SlotPhase.HEALTHY], [SlotPhase.LOST, SlotPhase.HEALTHY, SlotPhase.HEALTHY])
    assert chosen(choose(lost, PRUDENCE, NOW, wanted={"w": 2})) == {"w0": Remedy.REVIVE}


def test_a_place_that_is_empty_since_just_now_is_not_filled_unless_somebody_asks() -> None:
    soon = NOW - timedelta(seconds=40)
    empty = [*cluster([SlotPhase.HEALTHY], []), patient("w", SlotPhase.RELEASED, since=soon)]
    unasked = choose(empty, PRUDENCE, NOW, wanted=ANY, unasked=True)
    assert unasked.mending == ()
    assert "w has no node since 23:59:20 UTC, and gets none by itself" in unasked.left_alone[0]
    assert chosen(choose(empty, PRUDENCE, NOW, wanted=ANY)) == {"w": Remedy.FILL}
    later = NOW + timedelta(seconds=300)
    assert choose(empty, PRUDENCE, later, wanted=ANY, unasked=True).mending


def test_a_member_of_etcd_that_is_silent_counts_for_no_majority() -> None:
    patients = cluster([SlotPhase.HEALTHY] * 2 + [SlotPhase.JOINED], [])
    assert chosen(choose(patients, PRUDENCE, NOW, wanted=ANY)) == {"c2": Remedy.REVIVE}
    own = choose(patients, PRUDENCE, NOW, wanted=ANY, silent=["c2"])
    assert chosen(own) == {"c2": Remedy.REVIVE}
    for silent in ("c0", "10.0.0.9"):  # one of them, or one that is no node any more
        for named in ((), ("c2",)):
            choice = choose(patients, PRUDENCE, NOW, wanted=ANY, silent=[silent], named=named)
            assert choice.mending == ()
            assert "is no majority without it" in choice.left_alone[0]
    missing = cluster([SlotPhase.HEALTHY] * 3 + [SlotPhase.RELEASED], [])
    choice = choose(missing, PRUDENCE, NOW, wanted=ANY, silent=["c0"])
    assert choice.left_alone == ("c3 waits for c0: etcd lets nobody in before",)


def test_a_machine_is_replaced_for_what_is_its_own_and_for_nothing_else() -> None:
    for own in (
        Overdue("it is not Ready again", reason="NODE_NOT_READY"),
        Failed("it was released by hand", reason="MACHINE_LOST"),
        Failed("nobody knows whether it is on", reason="POWER_UNKNOWN"),
        Overdue("it says that it is still on", reason="POWER_UNCHANGED"),
    ):
        assert is_beyond_reviving(Failure.of(own))
    for reason in ("MAAS_BUSY", "MAAS_DOWN", ""):
        assert not is_beyond_reviving(Failure.of(Unavailable("away", reason=reason)))
    for reason in ("MAAS_CREDENTIALS", "MAAS_FORBIDDEN", "MAAS_STRANGE", "UNEXPECTED", ""):
        assert not is_beyond_reviving(Failure.of(Failed("refused", reason=reason)))
    for error in (Overdue("a worker died at it"), Overdue("who knows", reason="API_SILENT")):
        assert not is_beyond_reviving(Failure.of(error))
