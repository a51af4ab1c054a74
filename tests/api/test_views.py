"""A cluster and its nodes, live."""

from datetime import UTC, datetime

import grpc
import pytest

from api.ops.states import PHASES
from domain.cluster import Phase
from domain.health import Tolerance
from domain.machine import Machine, SlotPhase
from domain.seen import MachineSeen, NodeSeen, Readiness, Sight, Tour
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.ops import clusters_pb2 as pb
from store.watches import Watches
from tests.api.caller import Caller, pool, refused, wanted
from tests.api.hands import Hands


def test_every_phase_has_a_word() -> None:
    assert PHASES.keys() == set(Phase)
    assert len(set(PHASES.values())) == len(PHASES)


async def test_a_watch_shows_what_changes_and_ends_with_its_cluster(
    caller: Caller, hands: Hands
) -> None:
    spec = wanted(worker_node_pools=[pool("w", count=1)])
    await caller.cluster.CreateCluster(spec, timeout=20)
    operation = await hands.begun()
    for number, slot in enumerate((await hands.operations.plan(operation.id)).slots):
        machine = Machine(slot=slot, system_id=f"m{number}", address=f"127.41.0.{number}")
        await hands.did(operation.id, "machines.allocate", slot.name, learnt=machine)
        await hands.did(operation.id, "kubernetes.wait_node", slot.name, kubelet="1.32.1")
    await hands.ended(Phase.RUNNING)
    stream = caller.views.Watch(pb.WatchClusterRequest(name="hello"), timeout=20)
    first = await stream.read()
    assert isinstance(first, pb.ClusterView)
    assert (first.phase, first.HasField("confirmed")) == (pb.CLUSTER_RUNNING, False)
    assert [node.phase for node in first.nodes] == [SlotPhase.HEALTHY] * 2
    await saw_a_node_lost(hands)
    second = await stream.read()
    assert isinstance(second, pb.ClusterView)
    assert second.phase == pb.CLUSTER_DEGRADED
    assert second.message.startswith(f"{second.nodes[1].name} is lost (NodeStatusUnknown); ")
    lost = second.nodes[1]
    assert (lost.phase, lost.reason, lost.machine_status, lost.power) == (
        *("lost", "NodeStatusUnknown"),
        *("Deployed", "off"),
    )
    assert second.HasField("confirmed")
    await caller.cluster.DeleteCluster(kaas.DeleteClusterMsg(name="hello"), timeout=20)
    await hands.ended(Phase.GONE)
    views = []
    while isinstance(view := await stream.read(), pb.ClusterView):
        views.append(view)
    assert views[-1].phase == pb.CLUSTER_GONE
    assert {view.phase for view in views[:-1]} <= {pb.CLUSTER_STOPPING}


async def saw_a_node_lost(hands: Hands) -> None:
    cluster = await hands.clusters.get("hello")
    master, worker = (state.slot.name for state in (await hands.clusters.nodes("hello")).slots)
    sight = Sight(
        uid=cluster.uid,
        taken=datetime.now(UTC),
        operation=cluster.operation,
        nodes=(
            NodeSeen(name=master, readiness=Readiness.READY),
            NodeSeen(name=worker, readiness=Readiness.UNKNOWN, reason="NodeStatusUnknown"),
        ),
        machines=(
            MachineSeen(slot=master, system_id="m0", status="Deployed", power="on"),
            MachineSeen(slot=worker, system_id="m1", status="Deployed", power="off"),
        ),
    )
    tour = Tour(uid=cluster.uid, sight=sight)
    assert await Watches(hands.database).record(tour, Tolerance())


@pytest.mark.parametrize(
    ("name", "code"),
    [("nobody", grpc.StatusCode.NOT_FOUND), ("", grpc.StatusCode.INVALID_ARGUMENT)],
)
async def test_what_is_not_there_cannot_be_watched(
    caller: Caller, name: str, code: grpc.StatusCode
) -> None:
    stream = caller.views.Watch(pb.WatchClusterRequest(name=name), timeout=20)
    assert (await refused(stream.read())).code is code
