"""Commands that steer operations, and commands that only say what they would do."""

import json

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from syrupy.assertion import SnapshotAssertion

from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import Peer, Refusal, Story, operation, refused, told
from tests.cli.running import Windlass

FORMATS = ("table", "json", "yaml", "name")


@pytest.fixture
def waiting(peer: Peer) -> Peer:
    """A server on which the operation op-1 stands before a gate."""
    standing = operation("op-1", percent=42, gate="pool w")
    standing.gate_until.FromJsonString("2026-03-15T12:00:00Z")
    peer.stories["op-1"] = Story(standing, [])
    peer.next_operation = "op-1"
    return peer


@pytest.fixture
def foreseeing(peer: Peer) -> Peer:
    """A server that foresees how a pool is scaled down and up."""
    peer.plan = ops.PlanResponse(
        kind="scale-node-pool",
        subject="cluster/hello",
        duration=Duration(seconds=130),
        machines=[
            ops.PlannedMachine(node="w-7xk2p", pool="w", fate=ops.TAKEN, instance_type="large"),
            ops.PlannedMachine(
                node="x-aaaaa", pool="x", fate=ops.RETURNED, system_id="4y3h7n", hostname="metal-7"
            ),
        ],
        steps=[
            ops.Step(verb="machines.allocate", subject="w-7xk2p", state=ops.PENDING, turn=1),
            ops.Step(verb="kubeadm.join", subject="w-7xk2p", state=ops.PENDING, turn=1),
            ops.Step(verb="machines.release", subject="x-aaaaa", state=ops.PENDING, turn=2),
        ],
    )
    return peer


async def test_an_operation_is_paused_and_goes_on(waiting: Peer, windlass: Windlass) -> None:
    outcome = await windlass("op", "pause", "op-1")
    assert outcome.code == 0
    assert "paused by ann" in outcome.out
    assert "windlass op resume op-1" in outcome.out
    assert "paused by ann" in (await windlass("op", "list")).out
    outcome = await windlass("op", "resume", "operations/op-1", "-o", "json")
    assert json.loads(outcome.out)["paused_by"] == ""
    assert [each.name for each in waiting.requests("Resume")] == ["operations/op-1"]


async def test_what_is_approved_is_what_was_seen(waiting: Peer, windlass: Windlass) -> None:
    assert "pool w to be approved" in (await windlass("op", "list")).out
    outcome = await windlass("op", "approve", "op-1")
    assert (outcome.code, "pool w is approved" in outcome.out) == (0, True)
    await windlass("op", "approve", "op-1", "--gate", "pool x")
    assert [each.gate for each in waiting.requests("Approve")] == ["pool w", "pool x"]


async def test_an_operation_shows_what_holds_it_and_what_it_left(
    waiting: Peer, windlass: Windlass, snapshot: SnapshotAssertion
) -> None:
    standing = waiting.stories["op-1"].operation
    standing.paused_by = "ann"
    standing.ClearField("started")
    standing.left_behind.add(
        node="w-7xk2p",
        system_id="4y3h7n",
        hostname="metal-7",
        agent_name="kaas-3f2a9c01-w-7xk2p",
        why="MAAS answered 403",
    )
    standing.left_behind.add(node="hello", why="MAAS did not answer")
    shown = await windlass("op", "get", "op-1")
    found = json.loads((await windlass("op", "get", "op-1", "-o", "json")).out)
    assert shown.out == snapshot
    assert found["left_behind"][0]["machine_id"] == "4y3h7n"


@pytest.mark.parametrize("form", FORMATS)
async def test_a_plan_looks_as_it_always_did(
    foreseeing: Peer, windlass: Windlass, snapshot: SnapshotAssertion, form: str
) -> None:
    outcome = await windlass("pool", "scale", "hello", "w=3", "x=0", "--plan", "-o", form)
    assert outcome.code == 0
    assert outcome.out == snapshot


KAAS = "cnct.kaas.api.Cluster"
CHANGES = {
    ("cluster", "create", "hello"): f"{KAAS}/CreateCluster",
    ("cluster", "delete", "hello"): f"{KAAS}/DeleteCluster",
    ("cluster", "scale", "hello", "w=1"): f"{KAAS}/ScaleNodePool",
    ("pool", "add", "hello", "w=1"): f"{KAAS}/AddNodePool",
    ("pool", "scale", "hello", "w=1"): f"{KAAS}/ScaleNodePool",
    ("pool", "delete", "hello", "w"): f"{KAAS}/DeleteNodePool",
    ("cluster", "upgrade", "hello", "1.32.1", "--approve-each", "pool"): f"{KAAS}/UpgradeCluster",
    ("cluster", "repair", "hello", "--node", "w-x"): "windlass.v1.Health/Repair",
}


@pytest.mark.parametrize("typed", CHANGES)
async def test_every_change_can_be_foreseen_and_is_not_made(
    foreseeing: Peer, windlass: Windlass, typed: tuple[str, ...]
) -> None:
    outcome = await windlass(*typed, "--plan")
    assert outcome.code == 0
    assert "nothing was changed" in outcome.out
    [request] = foreseeing.requests("Plan")
    assert request.method == CHANGES[typed]
    assert [name for name, _, _ in foreseeing.asked] == ["Plan"]


async def test_a_plan_tells_where_it_would_wait(foreseeing: Peer, windlass: Windlass) -> None:
    typed = ("cluster", "upgrade", "hello", "1.32.1", "--approve-each", "pool", "--plan")
    assert "approval" not in (await windlass(*typed)).out
    foreseeing.plan.gates.add(name="pool w", before="w-7xk2p")
    said = (await windlass(*typed)).out
    assert "waits for approval" in said
    assert "pool w, before w-7xk2p" in said
    told = json.loads((await windlass(*typed, "-o", "json")).out)
    assert told["gates"] == [{"name": "pool w", "before": "w-7xk2p"}]


OWNER = (
    'ClusterInst {"cloudlet_key":{"name":"west","operator_key":{"name":"tele"}},'
    '"cluster_key":{"name":"shop"},"developer":"acme"}'
)
OWNED = "warning: cluster hello belongs to ClusterInst tele/west/shop/acme"


@pytest.mark.parametrize(
    "typed", [each for each in CHANGES if each[1] in {"delete", "scale", "add"}]
)
async def test_who_changes_a_cluster_of_a_clusterinst_is_warned(
    peer: Peer, windlass: Windlass, typed: tuple[str, ...]
) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1")
    yes = ["--yes"] if typed[:2] == ("cluster", "delete") else []
    outcome = await windlass(*typed, *yes)
    assert (outcome.code, "warning" in outcome.err) == (0, False)
    peer.owners["hello"] = OWNER
    outcome = await windlass(*typed, *yes)
    assert outcome.code == 0
    assert OWNED in " ".join(outcome.err.split())
    assert len(peer.requests(CHANGES[typed].rpartition("/")[2])) == 2


async def test_nobody_has_a_cluster_of_a_clusterinst_deleted_unwarned(
    peer: Peer, windlass: Windlass
) -> None:
    peer.owners["hello"] = OWNER
    outcome = await windlass("cluster", "delete", "hello")
    assert OWNED in " ".join(outcome.err.split())
    assert peer.requests("DeleteCluster") == []


async def test_a_plan_tells_what_speaks_against_it(foreseeing: Peer, windlass: Windlass) -> None:
    typed = ("pool", "scale", "hello", "w=3", "--plan")
    assert "warning" not in (await windlass(*typed)).out
    foreseeing.plan.warnings.append("cluster hello belongs to somebody")
    assert "warning: cluster hello belongs to somebody" in (await windlass(*typed)).out
    shown = json.loads((await windlass(*typed, "-o", "json")).out)
    assert shown["warnings"] == ["cluster hello belongs to somebody"]


async def test_a_plan_of_one_machine_is_told_as_one(foreseeing: Peer, windlass: Windlass) -> None:
    del foreseeing.plan.machines[1:], foreseeing.plan.steps[1:]
    outcome = await windlass("pool", "scale", "hello", "w=3", "--plan")
    assert "  1 step, 1 machine; how long: " in outcome.out


async def test_a_plan_of_nothing_says_so(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("pool", "scale", "hello", "w=3", "--plan")
    assert (outcome.code, "nothing would be done" in outcome.out) == (0, True)


async def test_a_plan_that_is_refused_says_why(peer: Peer, windlass: Windlass) -> None:
    peer.refusals["Plan"] = Refusal(
        grpc.StatusCode.FAILED_PRECONDITION,
        "cluster hello is reconciling",
        (refused("CLUSTER_BUSY", operation="op-1", do="windlass op watch op-1"),),
    )
    outcome = await windlass("pool", "scale", "hello", "w=3", "--plan")
    assert outcome.code != 0
    assert "cluster hello is reconciling" in outcome.err
    assert "windlass op watch op-1" in outcome.err


async def test_force_is_a_wish_beside_the_delete(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1")
    assert (await windlass("cluster", "delete", "hello", "--yes")).code == 0
    assert (await windlass("cluster", "delete", "hello", "--yes", "--force")).code == 0
    said = [metadata.get("windlass-force") for name, metadata, _ in peer.asked if name != "Get"]
    assert said == [None, "true"]
    await windlass("cluster", "delete", "hello", "--force", "--plan")
    [(_, metadata, request)] = [each for each in peer.asked if each[0] == "Plan"]
    assert metadata["windlass-force"] == "true"
    assert kaas.DeleteClusterMsg.FromString(request.request).name == "hello"


async def test_what_becomes_of_data_is_a_wish_too(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1")
    assert (await windlass("cluster", "create", "hello", "--storage")).code == 0
    for typed in (("--keep-data",), ("--delete-data", "hello")):
        assert (await windlass("cluster", "delete", "hello", "--yes", *typed)).code == 0
    names = ("windlass-storage", "windlass-data")
    said = [[metadata.get(name) for name in names] for _, metadata, _ in peer.asked]
    assert said == [["true", None], [None, "keep"], [None, "delete hello"]]
    peer.asked.clear()
    for wrong in (("--delete-data", "hallo"), ("--delete-data", "hello", "--keep-data")):
        outcome = await windlass("cluster", "delete", "hello", "--yes", *wrong)
        assert (outcome.code, peer.asked) == (2, [])
        assert "--delete-data hello" in outcome.err


async def test_force_has_to_be_agreed_to(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("cluster", "delete", "hello", "--force")
    assert outcome.code == 2
    assert "--yes --force" in outcome.err
    assert not peer.asked
