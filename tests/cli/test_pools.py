import json

import pytest

from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import Peer, told
from tests.cli.running import Windlass


@pytest.fixture
def changing(peer: Peer) -> Peer:
    """A server that carries every change out as the operation op-1."""
    peer.next_operation = "op-1"
    peer.stories["op-1"] = told("op-1")
    return peer


async def test_pools_are_added_as_they_are_typed(changing: Peer, windlass: Windlass) -> None:
    typed = ["w=2", "gpu=1:large", "--instance-type", "small", "--label", "a=b"]
    outcome = await windlass("pool", "add", "hello", *typed)
    assert outcome.code == 0
    [request] = changing.requests("AddNodePool")
    assert request.clusterName == "hello"
    pools = request.worker_node_pools
    assert [(each.name, each.count, each.instanceType) for each in pools] == [
        ("w", 2, "small"),
        ("gpu", 1, "large"),
    ]
    assert [[(each.name, each.value) for each in pool.labels] for pool in pools] == [
        [("a", "b")]
    ] * 2
    assert "windlass op watch op-1" in outcome.out


@pytest.mark.parametrize("command", [("pool", "scale"), ("cluster", "scale")])
async def test_pools_are_scaled_by_either_name(
    changing: Peer, windlass: Windlass, command: tuple[str, str]
) -> None:
    outcome = await windlass(*command, "hello", "w=3", "x=0", "--wait")
    assert outcome.code == 0
    [request] = changing.requests("ScaleNodePool")
    assert [(each.name, each.count) for each in request.node_pools] == [("w", 3), ("x", 0)]
    assert changing.requests("Watch")


async def test_pools_are_deleted_and_waited_for(changing: Peer, windlass: Windlass) -> None:
    changing.stories["op-1"] = told("op-1", end=ops.FAILED)
    outcome = await windlass("pool", "delete", "hello", "w", "x", "--wait")
    assert outcome.code == 1
    [request] = changing.requests("DeleteNodePool")
    assert list(request.node_pool_names) == ["w", "x"]


async def test_a_pool_that_is_as_wanted_is_said_to_be(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("pool", "scale", "hello", "w=3", "--wait")
    assert outcome.code == 0
    assert "nothing to do" in outcome.out
    outcome = await windlass("pool", "scale", "hello", "w=3", "-o", "json")
    assert json.loads(outcome.out) == {"name": "hello", "operation": None}


@pytest.mark.parametrize(
    "typed", [("scale", "hello", "w"), ("scale", "hello", "w=x"), ("add", "hello", "w"), ("add",)]
)
async def test_what_is_no_pool_is_not_sent(
    peer: Peer, windlass: Windlass, typed: tuple[str, ...]
) -> None:
    outcome = await windlass("pool", *typed)
    assert outcome.code == 2
    assert not peer.asked
