"""A9: an agent's token is good for the nodes it names."""

import grpc
import pytest

from domain.node_scope import NodeScope, covers, is_scope
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import NodeServiceStub
from protos.gen.ops.access_pb2 import CreateTokenRequest
from protos.gen.ops.access_pb2_grpc import TokensStub
from tests.agents import enrolled
from tests.api.caller import refused
from tests.api.closed import Closed
from tests.api.signed import bearer

NOT_NAMED = 2
"""How a node is told that it may not be one."""


@pytest.mark.parametrize(
    ("scope", "node", "pool", "fits"),
    [
        ("n1", "n1", "edge", True),
        ("n1", "n10", "edge", False),
        ("n1@edge", "n1", "edge", True),
        ("n1@edge", "n1", "other", False),
        ("rack1-*", "rack1-7", "edge", True),
        ("rack1-*", "rack2-7", "edge", False),
        ("rack1-*@edge", "rack1-7", "other", False),
        ("*@edge", "n1", "edge", True),
        ("*@edge", "n1", "default", False),
        ("any", "n1", "edge", True),
    ],
)
def test_a_scope_holds_what_it_names(scope: str, node: str, pool: str, fits: bool) -> None:
    assert is_scope(scope)
    assert NodeScope(names=(scope,)).holds(node, pool) is fits


@pytest.mark.parametrize("wrong", ["", "*", "a*b", "n1@", "@edge", "a b", "n1@a@b", "n/1"])
def test_what_names_everything_by_accident_is_no_scope(wrong: str) -> None:
    assert not is_scope(wrong)


@pytest.mark.parametrize(
    ("own", "wanted", "covered"),
    [
        ("rack1-*", "rack1-7", True),
        ("rack1-*", "rack1-a*", True),
        ("rack1-*", "rack*", False),
        ("rack1-*", "any", False),
        ("rack1-*@edge", "rack1-7", False),
        ("rack1-*@edge", "rack1-7@edge", True),
        ("n1", "n1*", False),
        ("any", "x*", True),
    ],
)
def test_nobody_gives_away_more_than_they_have(own: str, wanted: str, covered: bool) -> None:
    assert covers(NodeScope(names=(own,)), wanted) is covered


async def token(closed: Closed, *nodes: str) -> tuple[tuple[str, str], ...]:
    admin = bearer(closed.tokens["ada"])
    asked = CreateTokenRequest(user="agent-7", nodes=nodes)
    made = await TokensStub(closed.channel).Create(asked, metadata=admin, timeout=30)
    return tuple(bearer(made.secret))


async def registered(closed: Closed, node: str, carries: tuple[tuple[str, str], ...]) -> int:
    return (await enrolled(closed.channel, node, closed.address, *carries)).code


async def left(closed: Closed, node: str) -> None:
    admin = bearer(closed.tokens["ada"])
    request = pb.NodeUnregisterRequest(id=node)
    await NodeServiceStub(closed.channel).Unregister(request, metadata=admin, timeout=30)


async def test_a_token_registers_the_nodes_it_names_and_no_others(closed: Closed) -> None:
    carries = await token(closed, "rack9-*@default", "lone9")
    assert await registered(closed, "rack9-1", carries) == 0
    assert await registered(closed, "lone9", carries) == 0
    assert await registered(closed, "foreign9", carries) == NOT_NAMED
    elsewhere = (*carries, ("windlass-pool", "gold"))
    assert await registered(closed, "rack9-2", elsewhere) == NOT_NAMED
    for node in ("rack9-1", "lone9"):
        await left(closed, node)


async def test_a_token_that_names_no_node_is_good_for_none(closed: Closed) -> None:
    assert await registered(closed, "n99", await token(closed)) == NOT_NAMED


async def test_one_token_does_not_speak_for_the_nodes_of_another_of_its_user(
    closed: Closed,
) -> None:
    mine, other = await token(closed, "mine9"), await token(closed, "other9")
    assert await registered(closed, "mine9", mine) == 0
    stub = NodeServiceStub(closed.channel)
    call = stub.Unregister(pb.NodeUnregisterRequest(id="mine9"), metadata=other, timeout=30)
    refusal = await refused(call)
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.PERMISSION_DENIED,
        "NODE_NOT_YOURS",
    )
    await left(closed, "mine9")
