"""What whoever is woken gets to read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.cluster import Cluster, Phase
from domain.errors import Failure
from domain.machine import Role, SlotPhase
from domain.operation import Kind, Operation, OperationId, Stage, Step, StepKey, StepState
from domain.quarantine import Quarantined
from domain.repairs import Patient, Policy, Prudence, Remedy
from domain.seen import Inside, MachineSeen, MemberSeen, NodeSeen, Readiness
from domain.why import OLD, PHASES, SLOTS, WORDS, Facts, Reading, explain
from tests.domain.test_repairs import LONG_AGO, NOW, patient

MASTER = patient("control-plane-a", role=Role.CONTROL_PLANE)


def facts(
    *workers: Patient,
    phase: Phase = Phase.DEGRADED,
    masters: tuple[Patient, ...] = (MASTER,),
    wanted: int | None = None,
    policy: Policy = Policy.PROPOSE,
    failure: Failure | None = None,
    waiting_on: str = "",
    paused_by: str = "",
    gate: str = "",
    is_over: bool = True,
    stumbles: tuple[Step, ...] = (),
    quarantined: tuple[Quarantined, ...] = (),
    confirmed: datetime | None = NOW,
) -> Facts:
    operation = Operation(
        id=OperationId("op-1"),
        kind=Kind.SCALE_NODE_POOL,
        subject="cluster/hello",
        stage=Stage.FAILED if failure else Stage.SUCCEEDED if is_over else Stage.RUNNING,
        requester="ann",
        created=LONG_AGO,
        ended=LONG_AGO if is_over else None,
        failure=failure,
        waiting_on=waiting_on,
        paused_by=paused_by,
        gate=gate,
        gate_until=NOW if gate else None,
    )
    return Facts(
        cluster=Cluster(
            uid="uid",
            name="hello",
            phase=phase,
            message="scale: w has 1 place",
            version="1.32.1",
            endpoint="hello.test",
        ),
        policy=policy,
        wanted={"control-plane": len(masters), "w": len(workers) if wanted is None else wanted},
        patients=(*masters, *workers),
        confirmed=confirmed,
        operation=operation,
        stumbles=stumbles,
        quarantined=quarantined,
    )


def read(found: Facts) -> Reading:
    return explain(found, Prudence(), NOW)


def commands(found: Facts) -> list[str]:
    return [each.command for each in read(found).advice]


def test_there_is_a_word_for_everything() -> None:
    assert PHASES.keys() == set(Phase)
    assert SLOTS.keys() == set(SlotPhase)
    assert WORDS.keys() == set(Remedy)


def test_where_all_is_well_there_is_one_line_and_nothing_to_do() -> None:
    reading = read(facts(patient("w-a"), phase=Phase.RUNNING))
    assert len(reading.causes) == 1
    assert "runs" in reading.causes[0].says
    assert reading.advice == ()


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (timedelta(seconds=42), "42 s"),
        (timedelta(minutes=14), "14 min"),
        (timedelta(days=2), "2 d"),
    ],
)
def test_it_is_told_how_old_the_knowledge_is(age: timedelta, said: str) -> None:
    """As after a backup was restored, whose cluster may be gone."""
    top, *others = read(facts(patient("w-a"), phase=Phase.RUNNING, confirmed=NOW - age)).causes
    assert top.says.endswith(f"(as of {said} ago)")
    assert [cause.says.partition(",")[0] for cause in others] == (
        [f"nobody has looked at it for {said}"] if age > OLD else []
    )


def test_while_an_operation_runs_it_has_the_say() -> None:
    found = facts(phase=Phase.RECONCILING, is_over=False, confirmed=NOW - timedelta(days=1))
    assert "as of" not in read(found).causes[0].says


def test_nobody_looks_at_what_never_came_up() -> None:
    found = facts(phase=Phase.ERROR, confirmed=None)
    assert not [cause for cause in read(found).causes if "looked at" in cause.says]


def test_the_chain_leads_from_the_cluster_to_the_machine() -> None:
    sick = patient("w-a", SlotPhase.LOST, mends=1)
    node = NodeSeen(name="w-a", readiness=Readiness.UNKNOWN, reason="NodeStatusUnknown")
    machine = MachineSeen(slot="w-a", system_id="m-w-a", status="Deployed", power="off")
    seen = sick.state.model_copy(
        update={"node": node, "machine": machine, "hostname": "fox", "status": "Deployed"}
    )
    reading = read(facts(sick.model_copy(update={"state": seen}), patient("w-b")))
    about = [(each.about, each.depth) for each in reading.causes]
    assert about[:4] == [
        ("cluster/hello", 0),
        ("pool/w", 1),
        ("node/w-a", 2),
        ("machine/m-w-a", 3),
    ]
    says = [each.says for each in reading.causes]
    assert says[1] == "1 of 2 nodes of w are Ready"
    assert "is lost: nobody hears of it: NodeStatusUnknown; it was to be mended once" in says[2]
    assert says[3] == "m-w-a (fox) is Deployed in MAAS, its power off"
    [advice] = reading.advice
    assert advice.command == "windlass cluster repair hello"
    assert advice.because == "w-a: restart its machine, else replace it"


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (MachineSeen(slot="w-a", system_id="m-w-a", ours=False), "is gone from MAAS"),
        (
            MachineSeen(slot="w-a", system_id="m-w-a", status="Ready", ours=False),
            "was taken from us in MAAS, where it is Ready",
        ),
        (None, "is not heard of in MAAS"),
    ],
)
def test_what_became_of_a_machine_is_told(machine: MachineSeen | None, says: str) -> None:
    sick = patient("w-a", SlotPhase.LOST)
    state = sick.state.model_copy(update={"machine": machine})
    reading = read(facts(sick.model_copy(update={"state": state})))
    assert says in reading.causes[3].says


def test_an_operation_that_waits_says_for_what() -> None:
    found = facts(is_over=False, waiting_on="machines.release w-a: MAAS 503")
    assert "waits: machines.release" in read(found).causes[-1].says
    [advice] = read(found).advice
    assert advice.command == "windlass op watch op-1"
    assert "MAAS 503" in advice.because
    assert "has not ended" in read(facts(is_over=False)).advice[0].because


def test_an_operation_that_failed_says_in_which_step() -> None:
    key = StepKey(verb="machines.deploy", subject="w-a")
    stumbles = (
        Step(key=key, state=StepState.STUMBLED, started=LONG_AGO, attempts=3, note="MAAS 503"),
        Step(key=key, state=StepState.ACTIVE, started=LONG_AGO, attempts=2),
    )
    failure = Failure(kind="Failed", message="nothing came of it")
    reading = read(facts(patient("w-a", SlotPhase.RELEASED), failure=failure, stumbles=stumbles))
    says = [each.says for each in reading.causes if each.about == "operation/op-1"]
    assert "ended failed: nothing came of it" in says[0]
    assert says[1] == "machines.deploy w-a failed (tried 3 times): MAAS 503"
    assert says[2] == "machines.deploy w-a is tried again (tried 2 times): no reason given"


def test_places_that_are_missing_are_asked_for_again() -> None:
    found = facts(patient("w-a"), wanted=3)
    assert commands(found) == ["windlass pool scale hello w=3"]
    assert "and it has 1 place" in read(found).causes[1].says


def test_a_pool_that_is_not_gone_yet_is_deleted_again() -> None:
    found = facts(patient("w-a", SlotPhase.RELEASING), wanted=0)
    assert commands(found) == ["", "windlass pool delete hello w"]


def test_a_cluster_that_never_came_up_is_to_be_deleted() -> None:
    lost = patient("control-plane-a", SlotPhase.RELEASED, Role.CONTROL_PLANE)
    found = facts(phase=Phase.ERROR, masters=(lost,), failure=Failure(kind="Failed", message="x"))
    assert commands(found) == ["", "windlass cluster delete hello"]


def test_what_is_shunned_is_told_where_a_machine_is_looked_for() -> None:
    shunned = Quarantined(
        system_id="m9",
        hostname="",
        failures=2,
        last=LONG_AGO,
        until=datetime(2027, 1, 8, tzinfo=UTC),
        why="Failed deployment",
        cluster="blue",
    )
    found = facts(patient("w-a", SlotPhase.RELEASED), quarantined=(shunned,))
    assert "m9 (no name) is not taken until 2027-01-08" in read(found).causes[-1].says
    assert commands(found) == ["windlass cluster repair hello", "windlass machine lift m9"]
    well = facts(patient("w-a"), phase=Phase.RUNNING, quarantined=(shunned,))
    assert len(read(well).causes) == 1


def test_an_automatic_repair_is_announced() -> None:
    found = facts(patient("w-a", SlotPhase.LOST), policy=Policy.AUTOMATIC)
    assert "happens by itself" in read(found).advice[0].because
    stopped = found.operation.model_copy(update={"stage": Stage.CANCELLED})
    called_off = found.model_copy(update={"operation": stopped})
    assert "by itself" not in read(called_off).advice[0].because


def test_an_upgrade_that_stopped_is_to_be_gone_on_with() -> None:
    found = facts(patient("w-a"))
    pending = found.cluster.model_copy(update={"pending": "1.33.0"})
    reading = read(found.model_copy(update={"cluster": pending}))
    says = [each.says for each in reading.causes]
    assert "its upgrade from 1.32.1 to 1.33.0 is not finished" in says
    assert [each.command for each in reading.advice] == ["windlass cluster upgrade hello 1.33.0"]


def test_what_the_last_look_found_is_told_where_every_node_is_ready() -> None:
    worker = patient("w-a")
    machine = MachineSeen(slot="w-a", system_id="m-w-a", status="Ready", ours=False)
    taken = worker.state.model_copy(update={"machine": machine})
    members = (MemberSeen(name="control-plane-a", answers=False),)
    found = facts(worker.model_copy(update={"state": taken})).model_copy(
        update={"trouble": "certificates expire", "inside": Inside(members=members)}
    )
    causes = {(each.about, each.says) for each in read(found).causes}
    assert causes >= {
        ("cluster/hello", "when last looked at: certificates expire"),
        (
            "node/control-plane-a",
            "etcd member control-plane-a did not answer when it was last asked",
        ),
        ("machine/m-w-a", "m-w-a was taken from us in MAAS, where it is Ready"),
    }


@pytest.mark.parametrize(
    ("held", "says", "command"),
    [
        ({"paused_by": "ann"}, "running, paused by ann", "windlass op resume op-1"),
        ({"gate": "pool w"}, "for pool w to be approved", "windlass op approve op-1"),
        (
            {"paused_by": "ann", "waiting_on": "no machine is free"},
            "running, paused by ann and waits: no machine is free",
            "windlass op resume op-1",
        ),
        (
            {"paused_by": "ann", "gate": "pool w"},
            "running, paused by ann, before pool w, which is to be approved as well",
            "windlass op resume op-1",
        ),
        ({}, "is running", "windlass op watch op-1"),
    ],
)
def test_what_people_hold_up_is_told_with_what_lets_it_go_on(
    held: dict[str, Any], says: str, command: str
) -> None:
    found = facts(patient("w-a"), phase=Phase.RECONCILING, is_over=False, **held)
    assert commands(found) == [command]
    assert any(says in cause.says for cause in read(found).causes)


def test_a_silent_api_is_no_cluster_that_runs_and_needs_nothing() -> None:
    silence = "the API has given no answer since 2026-11-20 09:00:00 UTC: connection refused"
    for phase in (Phase.RUNNING, Phase.DEGRADED):
        found = facts(phase=phase).model_copy(update={"silence": silence, "trouble": silence})
        reading = read(found)
        assert reading.causes[0].says == f"hello may not be usable: {silence}"
        assert not [cause for cause in reading.causes if "its API answers" in cause.says]
        assert sum(silence in cause.says for cause in reading.causes) == 1
        assert reading.advice
    top = read(facts(phase=Phase.RUNNING)).causes[0]
    assert top.says == f"hello {PHASES[Phase.RUNNING]} (as of 0 s ago)"
