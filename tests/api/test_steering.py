"""Operations steered from outside, and changes tried out: through both doors, on both databases."""

from typing import Any

import grpc
import httpx2
import pytest

from domain.cluster import Phase
from domain.outline import USUALLY
from domain.wishes import FORCE
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import operations_pb2 as pb
from protos.gen.ops.health_pb2 import RepairRequest
from tests.api.caller import Caller, pool, refused, under, wanted
from tests.api.hands import Hands
from tests.api.test_pools import add, drop, scale, size, standing

PLAN = "cnct.kaas.api.Cluster"


async def ask(caller: Caller, what: str, request: Any, **how: Any) -> Any:
    return await getattr(caller.operations, what)(request, timeout=20, **how)


async def plan(caller: Caller, request: Any, **how: Any) -> pb.PlanResponse:
    method = type(request).__name__.removesuffix("Msg")
    asked = pb.PlanRequest(method=f"{PLAN}/{method}", request=request.SerializeToString())
    found: pb.PlanResponse = await ask(caller, "Plan", asked, **how)
    return found


async def test_an_operation_is_paused_shown_as_such_and_resumed(
    caller: Caller, hands: Hands
) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    operation = await hands.begun()
    paused = await ask(caller, "Pause", pb.PauseOperationRequest(name=operation.id))
    assert (paused.stage, paused.paused_by) == (pb.RUNNING, "anonymous")
    cluster = await caller.cluster.GetCluster(kaas.GetClusterMsg(name="hello"), timeout=20)
    assert "paused by anonymous" in cluster.cluster.status_message
    resumed = await ask(caller, "Resume", pb.ResumeOperationRequest(name=operation.id))
    assert resumed.paused_by == ""


async def test_an_operation_is_cancelled_by_our_own_service_too(
    caller: Caller, hands: Hands
) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    operation = await hands.newest()
    cancelled = await ask(caller, "Cancel", pb.CancelOperationRequest(name=operation.id))
    assert cancelled.cancel_requested
    refusal = await refused(ask(caller, "Pause", pb.PauseOperationRequest(name=operation.id)))
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "OPERATION_ENDED",
    )
    assert refusal.facts["operation"] == operation.id


async def test_what_waits_for_nothing_is_not_approved(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    operation = await hands.begun()
    refusal = await refused(ask(caller, "Approve", pb.ApproveOperationRequest(name=operation.id)))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_AWAITED")
    strange = pb.ApproveOperationRequest(name=operation.id, gate="\n")
    assert (await refused(ask(caller, "Approve", strange))).fields == ["gate"]


EMPTIED: dict[str, int] = {"w": pb.RETURNED, "control-plane": pb.KEPT}
"""Control planes take everybody's pods once there are no workers: they are told."""

PLANS: dict[str, tuple[Any, str, dict[str, int]]] = {
    "create": (
        wanted("other", worker_node_pools=[pool("w", count=2)]),
        "create-cluster",
        {"control-plane": pb.TAKEN, "w": pb.TAKEN},
    ),
    "add": (add(pool("x", count=2)), "add-node-pool", {"x": pb.TAKEN}),
    "scale up": (scale(size("w", 3)), "scale-node-pool", {"w": pb.TAKEN}),
    "scale down": (scale(size("w", 0)), "scale-node-pool", EMPTIED),
    "drop": (drop("w"), "delete-node-pool", EMPTIED),
    "delete": (
        kaas.DeleteClusterMsg(name="hello"),
        "delete-cluster",
        {"control-plane": pb.RETURNED, "w": pb.RETURNED},
    ),
}


@pytest.mark.parametrize("what", PLANS)
async def test_a_plan_is_what_would_be_done_and_changes_nothing(
    caller: Caller, hands: Hands, what: str
) -> None:
    request, kind, fates = PLANS[what]
    await standing(caller, hands)
    await hands.wrote("UPDATE slots SET system_id = 'abc', hostname = 'metal'")
    before = await hands.everything()
    foreseen = await plan(caller, request, metadata=under())
    assert await hands.everything() == before
    assert foreseen.kind == kind
    assert {each.pool: each.fate for each in foreseen.machines} == fates
    for each in foreseen.machines:
        assert (each.system_id, each.hostname) == (
            ("abc", "metal") if each.fate != pb.TAKEN else ("", "")
        )
    method = type(request).__name__.removesuffix("Msg")
    await getattr(caller.cluster, method)(request, timeout=20)
    operation = await hands.newest()
    done = await ask(caller, "Get", pb.GetOperationRequest(name=operation.id))
    assert [step.verb for step in done.steps] == [step.verb for step in foreseen.steps]


OWNER = (
    'ClusterInst {"cloudlet_key":{"name":"west","operator_key":{"name":"tele"}},'
    '"cluster_key":{"name":"shop"},"developer":"acme"}'
)


async def test_a_plan_warns_that_a_cluster_belongs_to_a_clusterinst(
    caller: Caller, hands: Hands
) -> None:
    await standing(caller, hands)
    followed = [request for what, (request, _, _) in PLANS.items() if what != "create"]
    for request in followed:
        assert list((await plan(caller, request, metadata=under())).warnings) == []
    await hands.wrote("UPDATE clusters SET owner = :owner", owner=OWNER)
    for request in followed:
        assert list((await plan(caller, request, metadata=under())).warnings) == [
            "cluster hello belongs to ClusterInst tele/west/shop/acme, which does not follow what "
            "is done here; change or delete that instead"
        ]
    other = await plan(caller, PLANS["create"][0], metadata=under())
    assert list(other.warnings) == []


async def test_a_repair_can_be_foreseen(caller: Caller, hands: Hands) -> None:
    await standing(caller, hands)
    await hands.wrote("UPDATE slots SET phase = 'released' WHERE pool = 'w'")
    request = RepairRequest(cluster="hello").SerializeToString()
    before = await hands.everything()
    asked = pb.PlanRequest(method="windlass.v1.Health/Repair", request=request)
    foreseen = await ask(caller, "Plan", asked)
    assert await hands.everything() == before
    assert (foreseen.kind, [each.pool for each in foreseen.machines]) == ("repair-cluster", ["w"])
    policy = pb.PlanRequest(method="windlass.v1.Health/SetPolicy", request=b"")
    assert (await refused(ask(caller, "Plan", policy))).fields == ["method"]


async def test_a_plan_of_nothing_says_so(caller: Caller, hands: Hands) -> None:
    await standing(caller, hands)
    foreseen = await plan(caller, scale(size("w", 1)))
    assert (foreseen.kind, list(foreseen.steps), list(foreseen.machines)) == ("", [], [])


async def test_a_plan_tells_how_long_the_same_steps_took(caller: Caller, hands: Hands) -> None:
    await standing(caller, hands)
    await caller.cluster.ScaleNodePool(scale(size("w", 2)), timeout=20)
    operation = await hands.begun()
    for verb in USUALLY:
        await hands.did(operation.id, verb, "w-1")
    assert (await plan(caller, wanted("other"))).HasField("duration")


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        (wanted("hello"), grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS"),
        (scale(size("y", 1)), grpc.StatusCode.NOT_FOUND, "POOL_NOT_FOUND"),
        (scale(size("w", -1)), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
        (drop("w", cluster="none"), grpc.StatusCode.NOT_FOUND, "CLUSTER_NOT_FOUND"),
    ],
)
async def test_a_plan_is_refused_as_the_change_would_be(
    caller: Caller, hands: Hands, request_: Any, code: grpc.StatusCode, reason: str
) -> None:
    await standing(caller, hands)
    before = await hands.everything()
    foreseen = await refused(plan(caller, request_))
    assert await hands.everything() == before
    method = type(request_).__name__.removesuffix("Msg")
    done = await refused(getattr(caller.cluster, method)(request_, timeout=20))
    assert (foreseen.code, foreseen.reason) == (code, reason)
    assert foreseen[:5] == done[:5]


@pytest.mark.parametrize(
    ("method", "request_", "reason"),
    [
        ("", b"", "INVALID_REQUEST"),
        ("windlass.v1.Operations/Pause", b"", "INVALID_REQUEST"),
        (f"{PLAN}/GetClusterList", b"", "NOT_A_CHANGE"),
        (f"/{PLAN}/DeleteCluster", b"\xff", "MALFORMED_REQUEST"),
    ],
)
async def test_what_is_no_change_has_no_plan(
    caller: Caller, method: str, request_: bytes, reason: str
) -> None:
    asked = pb.PlanRequest(method=method, request=request_)
    refusal = await refused(ask(caller, "Plan", asked))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)


class TestForce:
    async def test_takes_over_from_a_delete_that_is_stuck(
        self, caller: Caller, hands: Hands
    ) -> None:
        await standing(caller, hands)
        request = kaas.DeleteClusterMsg(name="hello")
        await caller.cluster.DeleteCluster(request, timeout=20)
        plain = await hands.begun()
        again = [((FORCE, "true"),), ((FORCE, "true"),), ()]
        for metadata in again:
            await caller.cluster.DeleteCluster(request, timeout=20, metadata=metadata)
        forced = await hands.newest()
        assert forced.id != plain.id
        assert forced.supersedes == plain.id
        assert (await hands.operations.plan(forced.id)).forced
        assert (await hands.counts())["operations"] == 3

    @pytest.mark.parametrize(
        ("request_", "said", "reason"),
        [
            (wanted("other"), "true", "WISH_NOT_HEEDED"),
            (scale(size("w", 3)), "true", "WISH_NOT_HEEDED"),
            (kaas.DeleteClusterMsg(name="hello"), "yes", "WISH_NOT_UNDERSTOOD"),
        ],
    )
    async def test_is_for_deletes_and_said_plainly(
        self, caller: Caller, hands: Hands, request_: Any, said: str, reason: str
    ) -> None:
        await standing(caller, hands)
        before = await hands.everything()
        method = getattr(caller.cluster, type(request_).__name__.removesuffix("Msg"))
        refusal = await refused(method(request_, timeout=20, metadata=((FORCE, said),)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
        assert await hands.everything() == before

    async def test_is_another_request_under_the_same_id(self, caller: Caller, hands: Hands) -> None:
        await standing(caller, hands)
        request, key = kaas.DeleteClusterMsg(name="hello"), under()
        await caller.cluster.DeleteCluster(request, timeout=20, metadata=key)
        forced = caller.cluster.DeleteCluster(request, timeout=20, metadata=(*key, (FORCE, "true")))
        assert (await refused(forced)).reason == "REQUEST_ID_REUSED"

    async def test_is_a_header_over_rest(
        self, caller: Caller, http: httpx2.AsyncClient, hands: Hands
    ) -> None:
        await standing(caller, hands)
        answer = await http.delete("/api/v1/cluster?name=hello", headers={FORCE: "true"})
        assert answer.status_code == 200
        assert (await hands.operations.plan((await hands.newest()).id)).forced
        assert (await hands.clusters.get("hello")).phase is Phase.STOPPING
