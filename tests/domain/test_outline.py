from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cluster import ClusterPlan, PoolChange, PoolUpgrade, Retiring, Upgrade
from domain.machine import Machine, Role, Slot
from domain.operation import CHANGES, SETTLED, STORED, TRACKED, Kind, Step, StepKey, StepState
from domain.outline import (
    OUTLINES,
    STORAGE_OUTLINES,
    USUALLY,
    Lane,
    Leg,
    keys,
    outline,
    progress,
    read,
    told,
)
from domain.releases import Release
from domain.repairs import Mending, Remedy, Repair
from domain.share import PoolTerms, Share
from domain.storage_plan import Marking, OsdMark, StoragePlan, Target

RELEASE = Release(version="1.32.1", series="jammy")
START = datetime(2026, 1, 1, tzinfo=UTC)


def _plan(control_planes: int, workers: int) -> ClusterPlan:
    def slot(name: str, role: Role) -> Slot:
        return Slot(
            cluster_uid="uid",
            cluster="hello",
            name=name,
            role=role,
            pool="pool",
            release=RELEASE,
            public_key="ssh-ed25519 AAAA",
        )

    return ClusterPlan(
        uid="uid",
        name="hello",
        release=RELEASE,
        endpoint="hello.windlass.test",
        control_plane=tuple(slot(f"c{n}", Role.CONTROL_PLANE) for n in range(control_planes)),
        workers=tuple(slot(f"w{n}", Role.WORKER) for n in range(workers)),
    )


remedies = st.sampled_from(Remedy)
plans = st.builds(_plan, st.sampled_from((1, 3, 5)), st.integers(0, 6))
verbs = st.sampled_from([*USUALLY, "weather.look"])


@st.composite
def outlines(draw: st.DrawFn) -> tuple[Leg, ...]:
    """Any outline, also one that no operation has."""
    shape = draw(st.lists(st.lists(st.lists(verbs, max_size=4), max_size=4), max_size=4))
    legs = []
    for leg, steps_by_lane in enumerate(shape):
        lanes = tuple(
            Lane(
                steps=tuple(
                    StepKey(verb=verb, subject=f"{leg}-{lane}-{step}")
                    for step, verb in enumerate(steps)
                )
            )
            for lane, steps in enumerate(steps_by_lane)
        )
        cut = draw(st.integers(0, len(lanes)))
        at_once = draw(st.integers(1, 3))
        legs.append(Leg(lanes=lanes[:cut], queue=lanes[cut:], at_once=at_once))
    return tuple(legs)


@st.composite
def seen(draw: st.DrawFn, legs: tuple[Leg, ...]) -> list[Step]:
    """What may have been seen of an outline so far."""
    steps = []
    for key in keys(legs):
        state = draw(st.sampled_from(StepState))
        started = START + timedelta(seconds=draw(st.floats(0, 5000)))
        begun = state is not StepState.PENDING
        done = state is StepState.DONE or (begun and draw(st.booleans()))
        steps.append(Step(key=key, state=state, started=started if begun else None, done=done))
    return [step for step in steps if draw(st.booleans())]


learnt = st.dictionaries(verbs, st.floats(0, 3600))
moments = st.floats(-100, 10_000).map(lambda seconds: START + timedelta(seconds=seconds))


def test_every_kind_has_one_outline_or_no_steps() -> None:
    assert not OUTLINES.keys() & STORAGE_OUTLINES.keys()
    assert OUTLINES.keys() | STORAGE_OUTLINES.keys() | TRACKED == set(Kind)
    assert STORAGE_OUTLINES.keys() == STORED


@pytest.mark.parametrize("kind", sorted(OUTLINES))
@given(plan=plans)
def test_every_kind_has_an_outline_in_which_no_step_comes_twice(
    kind: Kind, plan: ClusterPlan
) -> None:
    steps = keys(outline(kind, plan))
    assert len(set(map(str, steps))) == len(steps)
    assert {step.verb for step in steps} <= set(USUALLY)
    touched = {step.subject for step in steps} - {plan.name}
    own = {plan.endpoint} | {slot.name for slot in plan.slots}
    changed = set() if kind in SETTLED else own
    assert touched == changed


STORAGE_PLANS: dict[Kind, dict[str, Any]] = {
    Kind.TAKE_OSDS_OUT: {"marking": Marking(cluster="ceph", marks=(OsdMark(id=3, inside=False),))},
    Kind.TAKE_OSDS_IN: {"marking": Marking(cluster="ceph", marks=(OsdMark(id=3, inside=True),))},
    Kind.CREATE_POOL: {"share": Share.of("c0ffee00-1", PoolTerms(), "own")},
    Kind.DELETE_POOL: {"share": Share.of("c0ffee00-1", PoolTerms(), "own")},
    Kind.UPGRADE_STORAGE: {"target": Target(cluster="ceph", version="19.2.3")},
}


@pytest.mark.parametrize("kind", sorted(STORED))
def test_what_is_done_to_ceph_is_foreseen_and_of_an_empty_plan_nothing_is(kind: Kind) -> None:
    plan = StoragePlan.model_validate({"cluster": "ceph", **STORAGE_PLANS[kind]})
    steps = keys(read(kind, plan.model_dump_json()))
    assert steps
    assert {step.verb for step in steps} <= set(USUALLY)
    assert outline(kind, StoragePlan(cluster="ceph")) == ()


def test_at_the_edge_there_are_no_steps() -> None:
    assert read(Kind.CREATE_APPINST, "of another form") == ()


@given(plans, st.sampled_from(sorted(CHANGES)))
def test_a_change_of_pools_touches_what_it_changes_and_nothing_else(
    plan: ClusterPlan, kind: Kind
) -> None:
    machines = [Machine(slot=slot, system_id="m") for slot in plan.workers]
    change = PoolChange(
        through=(),
        adding=plan.workers[::3],
        readmitting=plan.workers[1::3],
        retiring=tuple(Retiring(machine=each, works=True) for each in machines[2::3]),
    )
    legs = outline(kind, plan.model_copy(update={"change": change}))
    steps = keys(legs)
    assert len(set(map(str, steps))) == len(steps)
    assert {step.verb for step in steps} <= set(USUALLY)
    assert {step.subject for step in steps} == {slot.name for slot in plan.workers}
    assert change.size == len(plan.workers)


@given(plans, st.integers(0, 5), st.integers(1, 3), st.booleans())
def test_an_upgrade_touches_the_nodes_whose_turn_it_is_and_looks_at_the_control_planes(
    plan: ClusterPlan, done: int, at_once: int, leads: bool
) -> None:
    masters = tuple(Machine(slot=slot, system_id="m") for slot in plan.control_plane)
    workers = tuple(Machine(slot=slot, system_id="m") for slot in plan.workers)
    upgrade = Upgrade(
        release=RELEASE,
        before="1.31.4",
        working=masters,
        control_plane=masters[done:],
        pools=(PoolUpgrade(name="pool", machines=workers),) if workers else (),
        leads=leads,
        at_once=at_once,
    )
    steps = keys(outline(Kind.UPGRADE_CLUSTER, plan.model_copy(update={"upgrade": upgrade})))
    assert len(set(map(str, steps))) == len(steps)
    renewed = [step.subject for step in steps if step.verb == "kubeadm.renew_kubelet"]
    assert renewed == [machine.named for machine in upgrade.machines]
    looked = [step.subject for step in steps if step.verb == "kubernetes.wait_node"]
    assert looked == [machine.named for machine in masters]
    [network] = [n for n, step in enumerate(steps) if step.verb == "kubernetes.install_network"]
    turns = [step.subject for step in steps[:network] if step.verb == "kubeadm.renew_kubelet"]
    assert turns == [machine.named for machine in upgrade.control_plane], "before the workers"
    asked = [step.verb for step in steps if step.verb in ("kubeadm.foresee", "kubeadm.back_up")]
    if upgrade.forewarned:
        assert asked == ["kubeadm.foresee", "kubeadm.back_up"]
    else:
        assert asked == (["kubeadm.back_up"] if leads else [])


@given(plans, st.data())
def test_a_repair_touches_what_it_mends_and_the_endpoint(
    plan: ClusterPlan, data: st.DataObject
) -> None:
    mending = tuple(
        Mending(machine=Machine(slot=slot, system_id="m"), remedy=data.draw(remedies))
        for slot in plan.slots
    )
    repair = Repair(mending=mending)
    steps = keys(outline(Kind.REPAIR_CLUSTER, plan.model_copy(update={"repair": repair})))
    assert len(set(map(str, steps))) == len(steps)
    assert {step.verb for step in steps} <= set(USUALLY)
    touched = {step.subject for step in steps}
    assert touched - {plan.endpoint} == {slot.name for slot in plan.slots}
    masters = [each.remedy for each in mending[: len(plan.control_plane)]]
    led = sum(step.subject == plan.endpoint for step in steps)
    assert led == sum(remedy is not Remedy.READMIT for remedy in masters)


@given(st.data())
def test_progress_is_never_all_and_never_negative(data: st.DataObject) -> None:
    legs = data.draw(outlines())
    now = progress(legs, data.draw(seen(legs)), data.draw(learnt), data.draw(moments))
    assert 0 <= now.percent <= 99
    assert now.eta is None or now.eta > timedelta()


@given(st.data())
def test_progress_never_slips_back_as_steps_end(data: st.DataObject) -> None:
    legs = data.draw(outlines())
    steps = {step.key: step for step in data.draw(seen(legs))}
    usual, moment = data.draw(learnt), data.draw(moments)
    past = [progress(legs, steps.values(), usual, moment)]
    for key in data.draw(st.permutations(keys(legs))):
        steps[key] = Step(key=key, state=StepState.DONE, started=START, done=True)
        past.append(progress(legs, steps.values(), usual, moment))
    for before, after in pairwise(past):
        assert after.percent >= before.percent
        assert (after.eta or timedelta()) <= (before.eta or timedelta())
    if keys(legs):
        assert past[-1].percent == 99
        assert past[-1].eta is None


@given(st.data())
def test_progress_never_slips_back_as_time_passes(data: st.DataObject) -> None:
    legs = data.draw(outlines())
    steps, usual = data.draw(seen(legs)), data.draw(learnt)
    early, late = sorted((data.draw(moments), data.draw(moments)))
    before, after = (progress(legs, steps, usual, moment) for moment in (early, late))
    assert after.percent >= before.percent
    assert (after.eta or timedelta()) <= (before.eta or timedelta())


@given(plans)
def test_nothing_seen_is_no_progress_and_nothing_learnt_no_estimate(plan: ClusterPlan) -> None:
    legs = outline(Kind.CREATE_CLUSTER, plan)
    start = progress(legs, [], {}, START)
    assert (start.percent, start.eta) == (0, None)
    verbs = {key.verb for key in keys(legs)}
    for verb in verbs:
        others = dict.fromkeys(verbs - {verb}, 4.0)
        assert progress(legs, [], others, START).eta is None, "the rest would be guessed"
    assert progress(legs, [], dict.fromkeys(verbs, 4.0), START).eta is not None


def test_what_is_done_side_by_side_takes_as_long_as_the_longest_lane() -> None:
    legs = (
        Leg(lanes=(_lane("a.b", "a.b"), _lane("a.b"))),
        Leg(lanes=(_lane("a.c"),)),
    )
    now = progress(legs, [], {"a.b": 10.0, "a.c": 5.0}, START)
    assert now.eta == timedelta(seconds=25)


def test_what_waits_for_its_turn_takes_as_long_as_those_who_are_let_in_at_once() -> None:
    """Ten workers, two at a time, beside a control plane that has the road to itself."""
    queue = (_lane("a.b"),) * 10
    alone = Leg(lanes=(_lane("a.c"),), queue=queue, at_once=2)
    assert progress((alone,), [], {"a.b": 4.0, "a.c": 5.0}, START).eta == timedelta(seconds=20)
    assert progress((alone,), [], {"a.b": 4.0, "a.c": 25.0}, START).eta == timedelta(seconds=25)
    few = alone.model_copy(update={"queue": queue[:1]})
    assert progress((few,), [], {"a.b": 4.0, "a.c": 1.0}, START).eta == timedelta(seconds=4)


@given(plans)
def test_workers_are_estimated_as_they_are_worked_on(plan: ClusterPlan) -> None:
    """So many at once, on the metal and on the way into the cluster."""
    usual = {"machines.wait_deployed": 100.0, "kubeadm.join": 10.0}
    rest = dict.fromkeys(USUALLY, 0.0) | usual
    one = plan.model_copy(update={"workers_at_once": 1})
    eta = progress(outline(Kind.CREATE_CLUSTER, one), [], rest, START).eta
    others, workers = len(plan.control_plane) - 1, len(plan.workers)
    wanted = 100 * max(1, workers) + 10 * (others + workers)
    assert eta is not None
    assert eta.total_seconds() == pytest.approx(wanted, abs=0.5)


def test_a_step_that_takes_too_long_counts_as_nearly_done() -> None:
    legs = (Leg(lanes=(_lane("a.b"),)),)
    (key,) = keys(legs)
    step = Step(key=key, state=StepState.ACTIVE, started=START)
    late = progress(legs, [step], {"a.b": 10.0}, START + timedelta(hours=1))
    assert late.percent == 95
    assert late.eta == timedelta(seconds=0.5)


def test_a_step_that_is_taken_again_since_its_answer_was_lost_stays_done() -> None:
    legs = (Leg(lanes=(_lane("a.b", "a.c"),)),)
    first, _ = keys(legs)
    done = Step(key=first, state=StepState.DONE, started=START, done=True)
    again = done.model_copy(update={"state": StepState.ACTIVE})
    assert progress(legs, [again], {}, START) == progress(legs, [done], {}, START)


def _lane(*names: str) -> Lane:
    return Lane(
        steps=tuple(StepKey(verb=verb, subject=f"{len(names)}{n}") for n, verb in enumerate(names))
    )


def test_what_is_seen_is_told_in_the_outlines_order_and_the_rest_last() -> None:
    legs = (Leg(lanes=(_lane("a.b", "a.c"),)),)
    first, second = keys(legs)
    undo = Step(key=StepKey(verb="a.x", subject="s", undo=True), state=StepState.DONE)
    other = Step(key=StepKey(verb="a.b", subject="s", turn=2), state=StepState.ACTIVE)
    done = Step(key=second, state=StepState.DONE)
    assert told(legs, [undo, done, other]) == [
        Step(key=first, state=StepState.PENDING),
        done,
        undo,
        other,
    ]
