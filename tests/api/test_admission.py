"""The table of what may be asked of a cluster in which state: every cell of it, through gRPC."""

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import grpc
import pytest

from domain.admission import ADMISSION, ASKED, Asked, Verdict
from domain.cluster import Phase
from protos.gen.kaas import api_pb2 as pb
from protos.gen.ops import health_pb2
from protos.gen.ops.health_pb2_grpc import HealthStub
from tests.api.caller import Caller, answered, pool, refused, wanted
from tests.api.hands import Hands
from tests.api.test_pools import add, call, drop, scale, size

Bringing = Callable[[Caller, Hands], Awaitable[Any]]


ASKED_FOR = wanted(k8s_version="1.31.4", worker_node_pools=[pool("w", count=1)])


async def provisioning(caller: Caller, hands: Hands) -> None:
    await call(caller, ASKED_FOR)
    await hands.begun()


async def ended(caller: Caller, hands: Hands, phase: Phase) -> None:
    await call(caller, ASKED_FOR)
    await hands.ended(phase)
    await hands.wrote("UPDATE slots SET phase = 'healthy', kubelet = '1.31.4'")


async def reconciling(caller: Caller, hands: Hands) -> None:
    await ended(caller, hands, Phase.RUNNING)
    await call(caller, scale(size("w", 2)))
    await hands.begun()


async def stopping(caller: Caller, hands: Hands) -> None:
    await ended(caller, hands, Phase.RUNNING)
    await call(caller, pb.DeleteClusterMsg(name="hello"))
    await hands.begun()


BROUGHT: dict[Phase, Bringing] = {
    Phase.PROVISIONING: provisioning,
    Phase.RUNNING: lambda caller, hands: ended(caller, hands, Phase.RUNNING),
    Phase.RECONCILING: reconciling,
    Phase.DEGRADED: lambda caller, hands: ended(caller, hands, Phase.DEGRADED),
    Phase.ERROR: lambda caller, hands: ended(caller, hands, Phase.ERROR),
    Phase.STOPPING: stopping,
}

REQUESTS: dict[str, tuple[Asked, Any]] = {
    "AddNodePool": (Asked.POOLS, add(pool("x"))),
    "ScaleNodePool": (Asked.POOLS, scale(size("w", 5))),
    "DeleteNodePool": (Asked.POOLS, drop("w")),
    "UpgradeCluster": (Asked.UPGRADE, pb.UpgradeClusterMsg(name="hello", version="1.32.1")),
    "Repair": (Asked.REPAIR, health_pb2.RepairRequest(cluster="hello")),
    "DeleteCluster": (Asked.DELETE, pb.DeleteClusterMsg(name="hello")),
}


def test_every_cell_is_asked_for() -> None:
    assert BROUGHT.keys() == ADMISSION.keys()
    assert {asked for asked, _ in REQUESTS.values()} == set(ASKED.values())


@pytest.mark.parametrize(("phase", "method"), [*product(BROUGHT, REQUESTS)])
async def test_a_cell_of_the_table(caller: Caller, hands: Hands, phase: Phase, method: str) -> None:
    asked, request = REQUESTS[method]
    await BROUGHT[phase](caller, hands)
    if asked is Asked.REPAIR:
        await hands.wrote("UPDATE slots SET phase = 'released' WHERE pool = 'w'")
    stub = HealthStub(caller.channel) if asked is Asked.REPAIR else caller.cluster
    send = getattr(stub, method)
    assert (await hands.clusters.get("hello")).phase is phase
    latest, before = await hands.newest(), await hands.everything()
    verdict = ADMISSION[phase][asked]
    if verdict in (Verdict.BUSY, Verdict.BROKEN):
        refusal = await refused(send(request, timeout=20))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == f"CLUSTER_{verdict.name}"
        assert (refusal.facts["operation"], refusal.facts["state"]) == (latest.id, phase)
        assert await hands.everything() == before
        return
    _, trailers = await answered(send(request, timeout=20))
    newest = await hands.newest()
    assert trailers["windlass-operation"] == newest.id
    assert (newest.id == latest.id) is (verdict is Verdict.SAME)
    taken_over = latest.id if verdict is Verdict.TAKES_OVER else None
    if verdict is not Verdict.SAME:
        assert newest.supersedes == taken_over
