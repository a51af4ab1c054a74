"""Pools of a cluster that stands, through the kaas contract."""

from typing import Any

import grpc
import pytest

from domain.cluster import Phase
from domain.operation import Kind, Stage
from protos.gen.kaas import api_pb2 as pb
from tests.api.caller import Caller, answered, label, pool, refused, under, wanted
from tests.api.hands import Hands


def size(name: str, count: int) -> pb.ScaleNodePoolSpec:
    return pb.ScaleNodePoolSpec(name=name, count=count)


def add(*pools: pb.MachineSpec, cluster: str = "hello") -> pb.AddNodePoolMsg:
    return pb.AddNodePoolMsg(clusterName=cluster, worker_node_pools=pools)


def scale(*sizes: pb.ScaleNodePoolSpec, cluster: str = "hello") -> pb.ScaleNodePoolMsg:
    return pb.ScaleNodePoolMsg(clusterName=cluster, node_pools=sizes)


def drop(*names: str, cluster: str = "hello") -> pb.DeleteNodePoolMsg:
    return pb.DeleteNodePoolMsg(clusterName=cluster, node_pool_names=names)


async def call(caller: Caller, request: Any, **how: Any) -> Any:
    """Ask with the method that takes the message."""
    name = type(request).__name__.removesuffix("Msg")
    return await getattr(caller.cluster, name)(request, timeout=20, **how)


async def standing(caller: Caller, hands: Hands) -> None:
    """A cluster with the pool `w` of one, whose nodes are Ready as far as the rows know."""
    await caller.cluster.CreateCluster(wanted(worker_node_pools=[pool("w", count=1)]), timeout=20)
    await hands.ended(Phase.RUNNING)
    await hands.wrote("UPDATE slots SET phase = 'healthy'")


BAD = {
    "no cluster to add to": (add(pool("x"), cluster=""), "clusterName"),
    "no cluster to scale": (scale(size("w", 1), cluster=""), "clusterName"),
    "no cluster to delete from": (drop("w", cluster="a\0b"), "clusterName"),
    "no pool to add": (add(), "worker_node_pools"),
    "a pool without a name": (add(pool("")), "worker_node_pools[0].name"),
    "a pool called control-plane": (add(pool("control-plane")), "worker_node_pools[0].name"),
    "a pool of fewer than none": (add(pool("x", count=-1)), "worker_node_pools[0].count"),
    "a pool of too many": (add(pool("x", count=501)), "worker_node_pools[0].count"),
    "a pool twice": (add(pool("x"), pool("x")), "worker_node_pools[1].name"),
    "too many pools": (add(*(pool(f"x{n}") for n in range(51))), "worker_node_pools"),
    "a strange instance type": (
        add(pool("x", instanceType="a b")),
        "worker_node_pools[0].instanceType",
    ),
    "a label that is ours": (
        add(pool("x", labels=[label("node-pool", "y")])),
        "worker_node_pools[0].labels[0].name",
    ),
    "too many labels": (
        add(pool("x", labels=[label(f"a{n}") for n in range(65)])),
        "worker_node_pools[0].labels",
    ),
    "nothing to scale": (scale(), "node_pools"),
    "the control plane scaled": (scale(size("control-plane", 3)), "node_pools[0].name"),
    "scaled below none": (scale(size("w", -1)), "node_pools[0].count"),
    "scaled beyond bounds": (scale(size("w", 501)), "node_pools[0].count"),
    "scaled twice": (scale(size("w", 1), size("w", 2)), "node_pools[1].name"),
    "too many to scale": (scale(*(size(f"x{n}", 1) for n in range(51))), "node_pools"),
    "nothing to delete": (drop(), "node_pool_names"),
    "the control plane deleted": (drop("control-plane"), "node_pool_names[0]"),
    "a name that is none": (drop("w", ""), "node_pool_names[1]"),
    "a name that never ends": (drop("w" * 1_000_000), "node_pool_names[0]"),
}


@pytest.mark.parametrize("what", BAD)
async def test_bad_input_is_refused_by_its_field(caller: Caller, hands: Hands, what: str) -> None:
    request, field = BAD[what]
    await standing(caller, hands)
    before = await hands.counts()
    refusal = await refused(call(caller, request))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields == [field]
    assert await hands.counts() == before


@pytest.mark.parametrize("request_", [add(pool("x")), scale(size("w", 2)), drop("w")])
async def test_of_no_cluster_nothing_is_changed(caller: Caller, request_: Any) -> None:
    refusal = await refused(call(caller, request_))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "CLUSTER_NOT_FOUND")


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        (add(pool("x"), pool("w")), grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS"),
        (scale(size("w", 2), size("y", 1)), grpc.StatusCode.NOT_FOUND, "POOL_NOT_FOUND"),
        (drop("w", "y"), grpc.StatusCode.NOT_FOUND, "POOL_NOT_FOUND"),
    ],
)
async def test_one_pool_that_does_not_fit_sinks_the_request(
    caller: Caller, hands: Hands, request_: Any, code: grpc.StatusCode, reason: str
) -> None:
    await standing(caller, hands)
    before = await hands.counts()
    refusal = await refused(call(caller, request_))
    assert (refusal.code, refusal.reason) == (code, reason)
    assert await hands.counts() == before


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (add(pool("x", count=2)), Kind.ADD_NODE_POOL),
        (scale(size("w", 3)), Kind.SCALE_NODE_POOL),
        (drop("w", "w"), Kind.DELETE_NODE_POOL),
    ],
)
async def test_a_change_is_accepted_once_and_names_its_operation(
    caller: Caller, hands: Hands, request_: Any, kind: Kind
) -> None:
    await standing(caller, hands)
    name = type(request_).__name__.removesuffix("Msg")
    key = under("key-1")
    method = getattr(caller.cluster, name)
    reply, trailers = await answered(method(request_, metadata=key, timeout=20))
    assert reply.ok
    operation = await hands.newest()
    assert (operation.kind, operation.stage) == (kind, Stage.REQUESTED)
    assert trailers["windlass-operation"] == operation.id
    _, again = await answered(method(request_, metadata=key, timeout=20))
    assert again["windlass-operation"] == operation.id
    listed = await caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20)
    assert [cluster.status for cluster in listed.clusters] == [pb.RECONCILING]
    for other in (add(pool("y")), scale(size("w", 2)), drop("w")):
        refusal = await refused(call(caller, other))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.facts["operation"] == operation.id
        assert refusal.facts["state"] == "reconciling"


async def test_the_present_size_is_fine_and_starts_nothing(caller: Caller, hands: Hands) -> None:
    await standing(caller, hands)
    create = await hands.newest()
    reply = await call(caller, scale(size("w", 1)))
    assert reply.ok
    assert (await hands.newest()).id == create.id
