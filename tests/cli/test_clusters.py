import json
import re

import grpc
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from api.kaas.states import NODE_STATUS
from cli import following
from domain.machine import SlotPhase
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import clusters_pb2 as views
from protos.gen.ops import operations_pb2 as ops
from tests.cli.peer import Peer, Refusal, Story, operation, told
from tests.cli.running import Windlass

FORMATS = ("table", "wide", "json", "yaml", "name")


@pytest.fixture
def site(peer: Peer) -> Peer:
    peer.clusters = {
        "hello": kaas.ClusterDetailItem(
            name="hello", status=kaas.RUNNING, kubeconfig="kind: Config\n"
        ),
        "a-much-longer-name": kaas.ClusterDetailItem(
            name="a-much-longer-name",
            status=kaas.PROVISIONING,
            status_message="create: 3/12 steps; deploying worker-a-x7k2p (op 7c1e)",
        ),
    }
    machine = kaas.GetClusterNodesStatusReply.MachineStatus
    peer.machines = [
        machine(
            k8sNodeStatus="Ready",
            k8sVersion="1.31.4",
            maasSystemId="abc123",
            maasHostname="sly-fox",
            maasNodeStatus="Deployed",
            maasIPAddr="127.41.0.3",
        ),
        machine(k8sNodeStatus="Pending"),
    ]
    node = views.NodeView
    peer.views = [
        views.ClusterView(
            name="hello",
            nodes=[node(name="worker-x7k2p", machine_id="abc123"), node(name="worker-hjklm")],
        )
    ]
    return peer


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("asked", ["list", "get hello", "get a-much-longer-name", "nodes hello"])
async def test_clusters_look_as_they_always_did(
    site: Peer, windlass: Windlass, snapshot: SnapshotAssertion, form: str, asked: str
) -> None:
    outcome = await windlass("cluster", *asked.split(), "-o", form)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out == snapshot


async def test_nodes_have_the_names_that_a_repair_takes(site: Peer, windlass: Windlass) -> None:
    site.machines.reverse()
    outcome = await windlass("cluster", "nodes", "hello", "-o", "json")
    called = {item["hostname"]: item["name"] for item in json.loads(outcome.out)["items"]}
    assert called == {"sly-fox": "worker-x7k2p", "": "worker-hjklm"}


async def test_a_place_is_not_called_what_another_may_be(site: Peer, windlass: Windlass) -> None:
    [view] = site.views
    assert view is not None
    view.nodes.append(views.NodeView(name="worker-new"))
    outcome = await windlass("cluster", "nodes", "hello", "-o", "name")
    assert outcome.out == "node/worker-x7k2p\n"


async def test_a_server_that_tells_no_names_shows_nodes_all_the_same(
    site: Peer, windlass: Windlass
) -> None:
    site.refusals["WatchCluster"] = Refusal(grpc.StatusCode.UNIMPLEMENTED, "no such service")
    outcome = await windlass("cluster", "nodes", "hello")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("HOSTNAME ")
    assert (await windlass("cluster", "nodes", "hello", "-o", "name")).out == "node/sly-fox\n"


async def test_json_and_yaml_hold_the_same(site: Peer, windlass: Windlass) -> None:
    as_json = (await windlass("cluster", "list", "-o", "json")).out
    as_yaml = (await windlass("-o", "yaml", "cluster", "list")).out
    assert json.loads(as_json) == yaml.safe_load(as_yaml)


async def test_a_cluster_that_is_on_its_way_out_has_no_kubeconfig_to_wait_for(
    peer: Peer, windlass: Windlass
) -> None:
    peer.clusters["hello"] = kaas.ClusterDetailItem(name="hello", status=kaas.STOPPING)
    assert " withdrawn " in (await windlass("cluster", "get", "hello")).out
    outcome = await windlass("cluster", "kubeconfig", "hello")
    assert "the kubeconfig of cluster hello is withdrawn" in outcome.err


async def test_a_kubeconfig_is_never_part_of_a_cluster(site: Peer, windlass: Windlass) -> None:
    outcome = await windlass("cluster", "get", "hello", "-o", "json")
    assert json.loads(outcome.out)["kubeconfig_ready"] is True
    assert "kind: Config" not in outcome.out


async def test_no_clusters_are_told_apart_from_no_answer(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("cluster", "list")
    assert (outcome.code, outcome.out) == (0, "")
    assert "there are no clusters" in outcome.err
    assert json.loads((await windlass("cluster", "list", "-o", "json")).out) == {"items": []}


async def test_create_sends_all_that_was_typed(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation = "op-1"
    outcome = await windlass(
        *("cluster", "create", "hello", "--version", "v1.31.4", "--control-planes", "3"),
        *("--pool", "worker=2", "--pool", "gpu=1:large:gpu", "--instance-type", "small"),
        *("--label", "team=a", "--label", "empty=", "--request-id", "key-1"),
    )
    assert outcome.code == 0
    assert "cluster hello is accepted: PROVISIONING, queued" in outcome.out
    assert "windlass op watch op-1" in outcome.out
    [(_, metadata, request)] = peer.asked
    labels = [
        kaas.KubernetesLabel(name="team", value="a"),
        kaas.KubernetesLabel(name="empty", value=""),
    ]
    assert metadata["x-request-id"] == "key-1"
    assert request == kaas.CreateClusterMsg(
        name="hello",
        k8s_version="v1.31.4",
        control_plane_nodes=kaas.ControlPlaneMachineSpec(
            labels=labels, instanceType="small", count=3
        ),
        worker_node_pools=[
            kaas.MachineSpec(name="worker", labels=labels, instanceType="small", count=2),
            kaas.MachineSpec(name="gpu", labels=labels, instanceType="large:gpu", count=1),
        ],
    )


async def test_a_change_always_has_a_key_of_its_own(peer: Peer, windlass: Windlass) -> None:
    await windlass("cluster", "create", "one")
    await windlass("cluster", "create", "two")
    keys = {metadata["x-request-id"] for _, metadata, _ in peer.asked}
    assert len(keys) == 2
    assert "" not in keys


@pytest.mark.parametrize(
    "typed",
    [
        ("--pool", "worker"),
        ("--pool", "=3"),
        ("--pool", "worker=many"),
        ("--pool", "worker=-1"),
        ("--label", "team"),
        ("--label", "=a"),
        ("--timeout", "soon"),
        ("--timeout", "m"),
    ],
)
async def test_what_cannot_be_meant_is_not_sent(
    peer: Peer, windlass: Windlass, typed: tuple[str, str]
) -> None:
    outcome = await windlass("cluster", "create", "hello", *typed)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {typed[0]} {typed[1]!r}")
    assert "  do: " in outcome.err
    assert peer.asked == []


async def test_create_and_wait_follows_the_operation(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1")
    outcome = await windlass("cluster", "create", "hello", "--wait")
    assert outcome.code == 0
    assert "machines.deploy done (4.1 s)" in outcome.out
    assert "create-cluster cluster/hello succeeded in 10 s" in outcome.out
    assert "windlass cluster kubeconfig hello --merge" in outcome.out


async def test_waiting_for_what_fails_fails(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1", end=ops.FAILED)
    outcome = await windlass("cluster", "create", "hello", "--wait")
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        "error: create-cluster cluster/hello failed: no machine is left (REASON Exhausted)",
        "  do: windlass op get op-1 shows every step",
        "  op: op-1  request: key-1",
    ]


async def test_waiting_for_too_long_leaves_the_work_alone(peer: Peer, windlass: Windlass) -> None:
    running = operation("op-1")
    peer.next_operation, peer.stories["op-1"] = "op-1", Story(running, [])
    outcome = await windlass("cluster", "create", "hello", "--wait", "--timeout", "1s")
    assert outcome.code == 124
    assert "the work goes on" in outcome.err
    assert "windlass op watch op-1 to follow it, windlass op cancel op-1 to stop it" in outcome.err
    assert peer.requests("CancelOperation") == []


async def test_a_change_answers_programs_with_its_operation(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-1"] = "op-1", told("op-1")
    at_once = await windlass("cluster", "create", "hello", "-o", "json")
    waited = await windlass("cluster", "create", "hello", "-o", "json", "--wait")
    assert json.loads(at_once.out)["id"] == json.loads(waited.out)["id"] == "op-1"
    assert at_once.err == "cluster hello is accepted: PROVISIONING, queued\n"
    assert "machines.deploy done" in waited.err
    assert (await windlass("cluster", "delete", "hello", "--yes", "-o", "name")).out == (
        "operations/op-1\n"
    )


async def test_a_server_that_names_no_operation_is_no_riddle(
    peer: Peer, windlass: Windlass
) -> None:
    assert (await windlass("cluster", "create", "hello")).code == 0
    outcome = await windlass("cluster", "create", "hello", "--wait")
    assert outcome.code == 1
    assert "the server did not say as which operation" in outcome.err


async def test_nothing_is_deleted_that_nobody_agreed_to(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("cluster", "delete", "hello")
    assert outcome.code == 2
    assert "do: windlass cluster delete hello --yes" in outcome.err
    assert peer.asked == []


async def test_delete_follows_its_operation(peer: Peer, windlass: Windlass) -> None:
    peer.next_operation, peer.stories["op-2"] = "op-2", told("op-2")
    outcome = await windlass("cluster", "delete", "hello", "--yes", "--wait")
    assert outcome.code == 0
    assert outcome.out.startswith("cluster hello: Deleting\n")
    assert "succeeded in" in outcome.out


def seen(status: "views.ClusterPhase.ValueType", message: str, **node: str) -> views.ClusterView:
    told = {"phase": "healthy", "machine_status": "Deployed", "power": "on"} | node
    worker = views.NodeView(name="w-a", pool="w", machine_id="abc123", schedulable=True)
    for field, text in told.items():
        setattr(worker, field, text)
    gone = status == views.CLUSTER_GONE
    return views.ClusterView(
        name="hello",
        phase=status,
        message=message,
        version="1.32.1",
        operation="operations/7c1e",
        nodes=[]
        if gone
        else [views.NodeView(name="control-plane-a", phase="healthy", schedulable=True), worker],
    )


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
async def test_a_watch_tells_what_changes_over_broken_connections_too(
    peer: Peer, windlass: Windlass, snapshot: SnapshotAssertion, form: str
) -> None:
    lost = {"phase": "lost", "reason": "NodeStatusUnknown", "power": "off"}
    peer.views = [
        seen(views.CLUSTER_RUNNING, "create: 2 nodes Ready (op 7c1e)"),
        None,
        seen(views.CLUSTER_RUNNING, "create: 2 nodes Ready (op 7c1e)"),
        seen(views.CLUSTER_DEGRADED, "w-a is lost (NodeStatusUnknown)", **lost),
        seen(views.CLUSTER_STOPPING, "delete: accepted (op 8d2f)", **lost),
        seen(views.CLUSTER_GONE, "deleted"),
    ]
    outcome = await windlass("cluster", "watch", "hello", "-o", form)
    assert outcome.code == 0
    assert re.sub(r"(?m)^\d\d:\d\d:\d\d", "12:03:04", outcome.out) == snapshot


async def test_a_quiet_watch_outlives_its_server_too(
    peer: Peer, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PATIENCE_SECONDS", 0.3)
    peer.quiet = 0.5
    peer.views = [
        seen(views.CLUSTER_RUNNING, "create: 2 nodes Ready (op 7c1e)"),
        None,
        seen(views.CLUSTER_GONE, "deleted"),
    ]
    outcome = await windlass("cluster", "watch", "hello")
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("phase", list(SlotPhase))
def test_a_watch_says_of_a_node_what_a_list_of_nodes_does(phase: SlotPhase) -> None:
    assert following.STATUS[phase.value] == NODE_STATUS[phase]


async def test_watching_a_cluster_that_is_not_there_fails(peer: Peer, windlass: Windlass) -> None:
    outcome = await windlass("cluster", "watch", "nobody")
    assert outcome.code != 0
    assert "there is no cluster nobody" in outcome.err
