import json

import pytest
from syrupy.assertion import SnapshotAssertion

from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import Peer, told
from tests.cli.running import Windlass


@pytest.fixture
def upgrading(peer: Peer) -> Peer:
    """A server that carries the upgrade out as the operation op-1."""
    peer.next_operation = "op-1"
    peer.stories["op-1"] = told("op-1")
    return peer


async def test_an_upgrade_is_asked_for_and_can_be_followed(
    upgrading: Peer, windlass: Windlass
) -> None:
    outcome = await windlass("cluster", "upgrade", "hello", "v1.32.1", "--request-id", "key-1")
    assert outcome.code == 0
    [request] = upgrading.requests("UpgradeCluster")
    assert (request.name, request.version) == ("hello", "v1.32.1")
    [(_, metadata, _)] = upgrading.asked
    assert metadata["x-request-id"] == "key-1"
    assert outcome.out.splitlines() == [
        "cluster hello: the upgrade to v1.32.1 is accepted",
        "  follow it with windlass op watch op-1",
    ]


@pytest.mark.parametrize(("end", "code"), [(ops.SUCCEEDED, 0), (ops.FAILED, 1)])
async def test_an_upgrade_that_is_waited_for_ends_as_its_operation(
    upgrading: Peer, windlass: Windlass, end: "ops.Stage.ValueType", code: int
) -> None:
    upgrading.stories["op-1"] = told("op-1", end=end)
    outcome = await windlass("cluster", "upgrade", "hello", "1.32.1", "--wait")
    assert outcome.code == code
    assert upgrading.requests("Watch")


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
@pytest.mark.parametrize("offered", [[], ["1.31.9", "1.32.1"]], ids=["none", "some"])
async def test_what_is_offered_looks_as_it_always_did(
    peer: Peer, windlass: Windlass, snapshot: SnapshotAssertion, offered: list[str], form: str
) -> None:
    peer.offered = offered
    outcome = await windlass("cluster", "upgrades", "hello", "-o", form)
    assert outcome.code == 0
    assert (outcome.out, outcome.err) == snapshot


async def test_why_nothing_is_offered_is_no_riddle(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("cluster", "upgrades", "hello")
    assert outcome.err.strip().endswith(peer.why)
    outcome = await windlass("cluster", "upgrades", "hello", "-o", "json")
    assert json.loads(outcome.out) == {"cluster": "hello", "why_none": peer.why, "items": []}


async def test_a_server_that_says_not_why_is_believed(peer: Peer, windlass: Windlass) -> None:
    peer.why = ""
    outcome = await windlass("cluster", "upgrades", "hello")
    assert outcome.err.strip() == "cluster hello can be upgraded to nothing now"


@pytest.mark.parametrize("typed", [("upgrade", "hello"), ("upgrades",)])
async def test_a_command_that_is_not_whole_is_not_sent(
    peer: Peer, windlass: Windlass, typed: tuple[str, ...]
) -> None:
    outcome = await windlass("cluster", *typed)
    assert outcome.code == 2
    assert not peer.asked
