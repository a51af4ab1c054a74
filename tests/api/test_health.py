"""The health service over a channel: why, repairs, policies and machines to shun."""

import grpc
import pytest

from domain.cluster import Phase
from domain.machine import Machine
from domain.operation import Kind, OperationId
from domain.quarantine import MachineFailure, Terms
from protos.gen.ops import health_pb2 as pb
from protos.gen.ops.health_pb2_grpc import HealthStub
from store.quarantine import Quarantine
from tests.api.caller import Caller, answered, pool, refused, under, wanted
from tests.api.hands import Hands


@pytest.fixture
def health(caller: Caller) -> HealthStub:
    return HealthStub(caller.channel)


async def standing(caller: Caller, hands: Hands) -> list[str]:
    """A cluster with two workers, whose nodes are Ready as far as the rows know; their names."""
    await caller.cluster.CreateCluster(wanted(worker_node_pools=[pool("w", count=2)]), timeout=20)
    await hands.ended(Phase.RUNNING)
    await hands.wrote("UPDATE slots SET phase = 'healthy', system_id = 'm1'")
    return [state.slot.name for state in (await hands.clusters.nodes("hello")).slots]


async def ill(hands: Hands, name: str) -> None:
    await hands.wrote("UPDATE slots SET phase = 'joined' WHERE name = :name", name=name)


async def test_a_repair_is_accepted_once_and_names_its_operation(
    caller: Caller, hands: Hands, health: HealthStub
) -> None:
    _, first, _ = await standing(caller, hands)
    reply = await health.Repair(pb.RepairRequest(cluster="hello"), timeout=20)
    assert reply.operation == ""
    await ill(hands, first)
    refusal = await refused(health.Repair(pb.RepairRequest(cluster="hello"), timeout=20))
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "NOTHING_MENDABLE"
    request, key = pb.RepairRequest(cluster="hello", nodes=[first, first]), under("key-1")
    reply, trailers = await answered(health.Repair(request, metadata=key, timeout=20))
    operation = await hands.newest()
    assert operation.kind is Kind.REPAIR_CLUSTER
    assert trailers["windlass-operation"] == operation.id
    assert reply.operation == f"operations/{operation.id}"
    again, _ = await answered(health.Repair(request, metadata=key, timeout=20))
    assert again == reply
    refusal = await refused(health.Repair(pb.RepairRequest(cluster="hello"), timeout=20))
    assert refusal.reason == "CLUSTER_BUSY"


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [(["stranger"], "NODE_NOT_FOUND"), ([""], "INVALID_REQUEST"), (["a\0"], "INVALID_REQUEST")],
)
async def test_only_nodes_that_are_there_are_mended(
    caller: Caller, hands: Hands, health: HealthStub, nodes: list[str], reason: str
) -> None:
    await standing(caller, hands)
    request = pb.RepairRequest(cluster="hello", nodes=nodes)
    assert (await refused(health.Repair(request, timeout=20))).reason == reason


async def test_of_no_cluster_nothing_is_told_or_done(caller: Caller, health: HealthStub) -> None:
    for call in (
        health.Repair(pb.RepairRequest(cluster="nobody"), timeout=20),
        health.Why(pb.WhyRequest(cluster="nobody"), timeout=20),
        health.GetPolicy(pb.GetPolicyRequest(cluster="nobody"), timeout=20),
        health.SetPolicy(pb.SetPolicyRequest(cluster="nobody", policy=pb.OFF), timeout=20),
    ):
        assert (await refused(call)).reason == "CLUSTER_NOT_FOUND"
    assert (await refused(health.Why(pb.WhyRequest(), timeout=20))).fields == ["cluster"]


async def test_a_policy_is_told_and_set(caller: Caller, hands: Hands, health: HealthStub) -> None:
    await standing(caller, hands)
    get = pb.GetPolicyRequest(cluster="hello")
    assert (await health.GetPolicy(get, timeout=20)).policy == pb.PROPOSE
    for policy in (pb.OFF, pb.AUTOMATIC, pb.PROPOSE):
        request = pb.SetPolicyRequest(cluster="hello", policy=policy)
        assert (await health.SetPolicy(request, timeout=20)).policy == policy
        assert (await health.GetPolicy(get, timeout=20)).policy == policy
    refusal = await refused(health.SetPolicy(pb.SetPolicyRequest(cluster="hello"), timeout=20))
    assert refusal.fields == ["policy"]


async def test_why_tells_of_the_node_and_what_to_type(
    caller: Caller, hands: Hands, health: HealthStub
) -> None:
    _, first, _ = await standing(caller, hands)
    reading = await health.Why(pb.WhyRequest(cluster="hello"), timeout=20)
    assert (reading.phase, len(reading.causes), len(reading.advice)) == ("running", 1, 0)
    await hands.wrote("UPDATE slots SET phase = 'released' WHERE name = :name", name=first)
    reading = await health.Why(pb.WhyRequest(cluster="hello"), timeout=20)
    assert [cause.about for cause in reading.causes][:3] == [
        "cluster/hello",
        "pool/w",
        f"node/{first}",
    ]
    assert reading.causes[2].HasField("since")
    assert [each.command for each in reading.advice] == ["windlass cluster repair hello"]


async def test_machines_are_shunned_until_they_are_let_go(
    caller: Caller, hands: Hands, health: HealthStub
) -> None:
    await standing(caller, hands)
    slot = (await hands.clusters.nodes("hello")).slots[0].slot
    quarantine = Quarantine(hands.database, Terms())
    for turn in (1, 2):
        machine = Machine(slot=slot, system_id="m9", hostname="fox")
        failure = MachineFailure(operation=OperationId("o"), machine=machine, turn=turn, why="no")
        await quarantine.count(failure)
    shown = await health.Quarantined(pb.QuarantinedRequest(), timeout=20)
    [machine_shown] = shown.machines
    assert (machine_shown.system_id, machine_shown.failures) == ("m9", 2)
    await health.Lift(pb.LiftRequest(system_id="m9"), timeout=20)
    assert not (await health.Quarantined(pb.QuarantinedRequest(), timeout=20)).machines
    refusal = await refused(health.Lift(pb.LiftRequest(system_id="m9"), timeout=20))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "MACHINE_NOT_FOUND")
