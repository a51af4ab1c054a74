"""Upgrades through the kaas contract: what is offered, what is refused, and what is accepted."""

from typing import Any

import grpc
import httpx2
import pytest

from domain.cluster import Phase
from domain.operation import Kind, Stage
from domain.upgrades import TOUCHES
from protos.gen.kaas import api_pb2 as pb
from protos.gen.ops import operations_pb2 as ops
from tests.api.caller import Caller, answered, pool, refused, under, wanted
from tests.api.hands import Hands

BEFORE, NEXT = "1.30.8", "1.31.4"


async def standing(caller: Caller, hands: Hands, *, kubelet: str = BEFORE) -> None:
    """A cluster with a worker, whose nodes are Ready as far as the rows know."""
    spec = wanted(k8s_version=BEFORE, worker_node_pools=[pool("w", count=1)])
    await caller.cluster.CreateCluster(spec, timeout=20)
    await hands.ended(Phase.RUNNING)
    await hands.wrote("UPDATE slots SET phase = 'healthy', kubelet = :runs", runs=BEFORE)
    if kubelet != BEFORE:
        await hands.wrote("UPDATE slots SET kubelet = :runs WHERE ordinal = 1", runs=kubelet)


async def upgrade(caller: Caller, version: str = NEXT, **how: Any) -> pb.UpgradeClusterReply:
    asked = pb.UpgradeClusterMsg(name="hello", version=version)
    reply: pb.UpgradeClusterReply = await caller.cluster.UpgradeCluster(asked, timeout=20, **how)
    return reply


async def offered(caller: Caller) -> tuple[bool, list[str], str]:
    """What can be upgraded to, and why that is nothing."""
    asked = pb.GetUpgradeClusterInformationMsg(name="hello")
    call = caller.cluster.GetUpgradeClusterInformation(asked, timeout=20)
    reply, trailers = await answered(call)
    return reply.ok, list(reply.versions), trailers.get("windlass-why", "")


async def half_done(caller: Caller, hands: Hands) -> None:
    """A cluster whose control plane is upgraded and whose worker is not."""
    await standing(caller, hands)
    await upgrade(caller)
    operation = await hands.begun()
    [lead, _] = (await hands.clusters.nodes("hello")).slots
    await hands.did(operation.id, TOUCHES, lead.slot.name)
    await hands.wrote("UPDATE slots SET kubelet = :runs WHERE ordinal = 0", runs=NEXT)
    await hands.ended(Phase.DEGRADED)


async def test_tells_what_a_cluster_can_be_upgraded_to_or_why_it_cannot(
    caller: Caller, hands: Hands
) -> None:
    spec = wanted(k8s_version=BEFORE, worker_node_pools=[pool("w", count=1)])
    await caller.cluster.CreateCluster(spec, timeout=20)
    assert await offered(caller) == (False, [], "cluster hello is provisioning")
    await hands.ended(Phase.RUNNING)
    await hands.wrote("UPDATE slots SET kubelet = :runs, phase = 'healthy'", runs=BEFORE)
    assert await offered(caller) == (True, [NEXT], "")
    await hands.wrote("UPDATE slots SET kubelet = '1.27.9' WHERE ordinal = 1")
    ok, versions, why = await offered(caller)
    assert (ok, versions) == (False, []), "a kubelet would be left too far behind"
    assert "is 1.27.9: too old" in why


@pytest.mark.parametrize("version", ["", "7", "1.29.0", "latest", "1.31.4-rc.1", "x" * 1_000_000])
async def test_a_version_that_is_not_offered_is_wrong(
    caller: Caller, hands: Hands, version: str
) -> None:
    await standing(caller, hands)
    before = await hands.counts()
    refusal = await refused(upgrade(caller, version))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields == ["version"]
    assert await hands.counts() == before


@pytest.mark.parametrize(
    ("version", "kubelet", "reason"),
    [
        (BEFORE, BEFORE, "ALREADY_AT_VERSION"),
        ("1.32.1", BEFORE, "MINOR_VERSION_SKIPPED"),
        (NEXT, "1.27.9", "KUBELET_TOO_OLD"),
    ],
)
async def test_what_cannot_be_done_now_is_refused_with_what_is_in_the_way(
    caller: Caller, hands: Hands, version: str, kubelet: str, reason: str
) -> None:
    await standing(caller, hands, kubelet=kubelet)
    create, before = await hands.newest(), await hands.counts()
    refusal = await refused(upgrade(caller, version))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, reason)
    assert refusal.facts["operation"] == create.id
    assert (refusal.facts["state"], refusal.facts["version"]) == ("running", BEFORE)
    assert await hands.counts() == before


async def test_no_cluster_goes_back(caller: Caller, hands: Hands) -> None:
    await standing(caller, hands)
    await hands.wrote("UPDATE clusters SET version = '1.32.1'")
    refusal = await refused(upgrade(caller))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "DOWNGRADE")


@pytest.mark.parametrize("version", [NEXT, f"v{NEXT}"])
async def test_an_upgrade_is_accepted_once_and_names_its_operation(
    caller: Caller, hands: Hands, version: str
) -> None:
    await standing(caller, hands)
    asked, key = pb.UpgradeClusterMsg(name="hello", version=version), under("key-1")
    reply, trailers = await answered(caller.cluster.UpgradeCluster(asked, metadata=key, timeout=20))
    assert reply.ok
    operation = await hands.newest()
    assert (operation.kind, operation.stage) == (Kind.UPGRADE_CLUSTER, Stage.REQUESTED)
    assert trailers["windlass-operation"] == operation.id
    _, again = await answered(caller.cluster.UpgradeCluster(asked, metadata=key, timeout=20))
    assert again["windlass-operation"] == operation.id
    listed = await caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20)
    assert [cluster.status for cluster in listed.clusters] == [pb.RECONCILING]
    assert "upgrade 1.30.8->1.31.4: 0/2 nodes" in listed.clusters[0].status_message
    assert await offered(caller) == (False, [], "cluster hello is reconciling")
    refusal = await refused(upgrade(caller))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CLUSTER_BUSY")
    assert refusal.facts["operation"] == operation.id


@pytest.mark.parametrize("wish", ["", "pool"])
async def test_a_plan_tells_where_an_upgrade_would_wait(
    caller: Caller, hands: Hands, wish: str
) -> None:
    await standing(caller, hands)
    request = pb.UpgradeClusterMsg(name="hello", version=NEXT).SerializeToString()
    asked = ops.PlanRequest(method="cnct.kaas.api.Cluster/UpgradeCluster", request=request)
    wishes = (("windlass-approve-each", wish),) if wish else ()
    foreseen = await caller.operations.Plan(asked, timeout=20, metadata=wishes)
    worker = (await hands.clusters.nodes("hello")).slots[1].slot.name
    told = [(gate.name, gate.before) for gate in foreseen.gates]
    assert told == ([("pool w", worker)] if wish else [])


async def test_a_half_done_upgrade_is_told_and_resumed_by_the_same_call(
    caller: Caller, hands: Hands
) -> None:
    await half_done(caller, hands)
    assert await offered(caller) == (True, [NEXT], "")
    refusal = await refused(upgrade(caller, "1.32.1"))
    assert (refusal.reason, refusal.facts["pending"]) == ("UPGRADE_PENDING", NEXT)
    assert f"windlass cluster upgrade hello {NEXT}" in refusal.facts["do"]
    assert (await upgrade(caller)).ok
    plan = await hands.operations.plan((await hands.newest()).id)
    assert plan.upgrade is not None
    assert [machine.slot.pool for machine in plan.upgrade.machines] == ["w"]


async def test_over_rest_nothing_offered_is_explained_too(
    caller: Caller, hands: Hands, http: httpx2.AsyncClient
) -> None:
    await standing(caller, hands)
    seen = await http.get("/api/v1/cluster/upgrade?name=hello")
    assert (seen.status_code, seen.json()) == (200, {"ok": True, "versions": [NEXT]})
    document = {"name": "hello", "version": NEXT}
    asked = await http.put("/api/v1/cluster/upgrade", json=document)
    assert (asked.status_code, asked.json()) == (200, {"ok": True})
    assert asked.headers["windlass-operation"] == (await hands.newest()).id
    seen = await http.get("/api/v1/cluster/upgrade?name=hello")
    assert (seen.status_code, seen.json()) == (200, {})
    assert seen.headers["windlass-why"] == "cluster hello is reconciling"
