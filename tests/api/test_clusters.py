"""The rest of the kaas contract: clusters read, their nodes and kubeconfigs, and deleted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import yaml
from sqlalchemy import make_url

from api.kaas.states import CLUSTER_STATUS, NODE_STATUS
from domain import ports
from domain.cluster import Phase
from domain.machine import Machine, Sighting, SlotPhase
from domain.operation import Operation, Stage
from domain.seen import NodeSeen, Readiness
from protos.gen.kaas import api_pb2 as pb
from settings import Kaas, Settings
from tests.api.caller import Caller, answered, pool, refused, under, wanted
from tests.api.hands import Hands
from tests.store.wire import Wire, wire_to

ADMIN = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "kubernetes", "cluster": {"server": "https://10.0.0.9:6443"}}],
    "contexts": [
        {"name": "kubernetes-admin@kubernetes", "context": {"cluster": "kubernetes", "user": "me"}}
    ],
    "users": [{"name": "me", "user": {"client-key-data": "c2VjcmV0"}}],
    "current-context": "kubernetes-admin@kubernetes",
}
"""A kubeconfig as kubeadm writes it."""

NEEDS_ROWS: dict[str, Any] = {
    "CreateCluster": wanted("other"),
    "DeleteCluster": pb.DeleteClusterMsg(name="hello"),
    "GetCluster": pb.GetClusterMsg(name="hello"),
    "GetClusterList": pb.GetClusterListMsg(),
    "GetClusterNodesStatus": pb.GetClusterNodesStatusMsg(clusterName="hello"),
}


async def got(caller: Caller, name: str = "hello") -> pb.ClusterDetailItem:
    reply = await caller.cluster.GetCluster(pb.GetClusterMsg(name=name), timeout=20)
    assert reply.ok
    return reply.cluster


async def kept_kubeconfig(hands: Hands, operation: Operation) -> None:
    plan = await hands.operations.plan(operation.id)
    await hands.vault.keep(ports.kubeconfig(plan.uid), yaml.safe_dump(ADMIN).encode())


def test_every_phase_of_a_cluster_that_is_there_has_a_status() -> None:
    assert CLUSTER_STATUS.keys() == set(Phase) - {Phase.GONE}
    assert pb.STATUS_UNSPECIFIED not in CLUSTER_STATUS.values()


def test_every_phase_of_a_slot_has_a_word() -> None:
    assert NODE_STATUS.keys() == set(SlotPhase)


async def test_shows_a_cluster_that_was_just_accepted(caller: Caller) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    cluster = await got(caller)
    assert (cluster.name, cluster.status) == ("hello", pb.PROVISIONING)
    assert cluster.status_message == "queued"
    assert cluster.kubeconfig == ""


@pytest.mark.parametrize(
    ("call", "request_", "field"),
    [
        ("GetCluster", pb.GetClusterMsg(), "name"),
        ("DeleteCluster", pb.DeleteClusterMsg(), "name"),
        ("GetClusterNodesStatus", pb.GetClusterNodesStatusMsg(), "clusterName"),
        ("GetUpgradeClusterInformation", pb.GetUpgradeClusterInformationMsg(), "name"),
        ("UpgradeCluster", pb.UpgradeClusterMsg(version="1.32.1"), "name"),
        ("GetCluster", pb.GetClusterMsg(name="a\0b"), "name"),
        ("DeleteCluster", pb.DeleteClusterMsg(name="x" * 1_000_000), "name"),
    ],
)
async def test_a_name_is_required(call: str, request_: Any, field: str, caller: Caller) -> None:
    refusal = await refused(getattr(caller.cluster, call)(request_, timeout=20))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields == [field]


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("GetCluster", pb.GetClusterMsg(name="nobody")),
        ("DeleteCluster", pb.DeleteClusterMsg(name="nobody")),
        ("GetClusterNodesStatus", pb.GetClusterNodesStatusMsg(clusterName="nobody")),
        ("GetUpgradeClusterInformation", pb.GetUpgradeClusterInformationMsg(name="nobody")),
        ("UpgradeCluster", pb.UpgradeClusterMsg(name="nobody", version="1.32.1")),
    ],
)
async def test_an_unknown_cluster_is_not_found(call: str, request_: Any, caller: Caller) -> None:
    refusal = await refused(getattr(caller.cluster, call)(request_, timeout=20))
    assert refusal.code is grpc.StatusCode.NOT_FOUND
    assert refusal.reason == "CLUSTER_NOT_FOUND"
    assert "windlass cluster list" in refusal.facts["do"]


async def test_lists_nothing_well(caller: Caller) -> None:
    reply = await caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20)
    assert reply.ok
    assert not reply.clusters


async def test_lists_clusters_by_name_those_that_stop_too(caller: Caller, hands: Hands) -> None:
    for name in ("b", "a-b", "ab", "a"):
        await caller.cluster.CreateCluster(wanted(name), timeout=20)
    await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="b"), timeout=20)
    reply = await caller.cluster.GetClusterList(pb.GetClusterListMsg(), timeout=20)
    assert [cluster.name for cluster in reply.clusters] == ["a", "a-b", "ab", "b"]
    assert [cluster.status for cluster in reply.clusters] == [*[pb.PROVISIONING] * 3, pb.STOPPING]


async def test_a_kubeconfig_is_given_out_once_the_api_has_answered(
    caller: Caller, hands: Hands
) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    operation = await hands.begun()
    await kept_kubeconfig(hands, operation)
    assert (await got(caller)).kubeconfig == ""
    await hands.ended(Phase.RUNNING)
    document = yaml.safe_load((await got(caller)).kubeconfig)
    assert document["current-context"] == "hello"
    [cluster], [context], [user] = (document[part] for part in ("clusters", "contexts", "users"))
    assert (cluster["name"], context["name"], user["name"]) == ("hello", "hello", "hello-admin")
    assert context["context"] == {"cluster": "hello", "user": "hello-admin"}
    assert user["user"] == {"client-key-data": "c2VjcmV0"}


async def test_where_names_do_not_resolve_it_leads_to_a_node_that_works(
    caller: Caller, hands: Hands
) -> None:
    await caller.cluster.CreateCluster(
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(count=3)), timeout=20
    )
    operation = await hands.begun()
    await kept_kubeconfig(hands, operation)
    for number, slot in enumerate((await hands.operations.plan(operation.id)).control_plane):
        machine = Machine(slot=slot, system_id=f"m{number}", address=f"127.41.0.{number}")
        await hands.did(operation.id, "machines.wait_deployed", slot.name, learnt=machine)
        if number == 1:
            await hands.did(operation.id, "kubernetes.wait_node", slot.name, kubelet="1.32.1")
    await hands.ended(Phase.RUNNING)
    document = yaml.safe_load((await got(caller)).kubeconfig)
    assert document["clusters"][0]["cluster"]["server"] == "https://127.41.0.1:6443"


class TestResolving:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"kaas": Kaas(resolve=True, domain="fleet.test")})

    async def test_where_names_resolve_it_leads_to_the_endpoint(
        self, caller: Caller, hands: Hands
    ) -> None:
        await caller.cluster.CreateCluster(wanted(), timeout=20)
        await kept_kubeconfig(hands, await hands.begun())
        await hands.ended(Phase.RUNNING)
        document = yaml.safe_load((await got(caller)).kubeconfig)
        assert document["clusters"][0]["cluster"]["server"] == "https://hello.fleet.test:6443"


async def test_many_who_ask_for_kubeconfigs_at_once_get_their_own(
    caller: Caller, hands: Hands
) -> None:
    for name in ("one", "two"):
        await caller.cluster.CreateCluster(wanted(name), timeout=20)
        await kept_kubeconfig(hands, await hands.begun())
        await hands.ended(Phase.RUNNING)
    names = ["one", "two"] * 20
    clusters = await asyncio.gather(*(got(caller, name) for name in names))
    contexts = [yaml.safe_load(cluster.kubeconfig)["current-context"] for cluster in clusters]
    assert contexts == names


async def test_a_kubeconfig_that_cannot_be_read_is_nobody_elses_trouble(
    caller: Caller, hands: Hands
) -> None:
    for name in ("good", "bad"):
        await caller.cluster.CreateCluster(wanted(name), timeout=20)
        await kept_kubeconfig(hands, await hands.ended(Phase.RUNNING))
    plan = await hands.operations.plan((await hands.newest()).id)
    await hands.vault.keep(ports.kubeconfig(plan.uid), b"{")
    bad, good = await asyncio.gather(
        refused(caller.cluster.GetCluster(pb.GetClusterMsg(name="bad"), timeout=20)),
        got(caller, "good"),
    )
    assert bad.code is grpc.StatusCode.INTERNAL
    assert good.kubeconfig


async def test_deleting_withdraws_the_kubeconfig_at_once(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    await kept_kubeconfig(hands, await hands.ended(Phase.RUNNING))
    reply, trailers = await answered(
        caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
    )
    assert (reply.ok, reply.status) == (True, "Deleting")
    assert trailers["windlass-operation"] == (await hands.newest()).id
    cluster = await got(caller)
    assert (cluster.status, cluster.kubeconfig) == (pb.STOPPING, "")


async def test_deleting_again_while_it_stops_is_the_same_delete(
    caller: Caller, hands: Hands
) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    await hands.ended(Phase.RUNNING)
    delete = pb.DeleteClusterMsg(name="hello")
    calls = (
        answered(caller.cluster.DeleteCluster(delete, metadata=under(), timeout=20))
        for _ in range(8)
    )
    answers = await asyncio.gather(*calls)
    assert {trailers["windlass-operation"] for _, trailers in answers} == {
        (await hands.newest()).id
    }
    assert len(await hands.operations.page(size=9)) == 2


async def test_deleting_pushes_a_running_create_aside(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    create = await hands.begun()
    await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
    assert (await hands.operations.get(create.id)).stage is Stage.SUPERSEDED
    assert (await hands.newest()).supersedes == create.id


async def test_what_is_gone_is_not_found(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    await hands.ended(Phase.RUNNING)
    await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
    await hands.ended(Phase.GONE)
    refusal = await refused(caller.cluster.GetCluster(pb.GetClusterMsg(name="hello"), timeout=20))
    assert refusal.code is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("migrated", ["postgresql"], indirect=True)
class TestWithoutADatabase:
    """Between the server and its database there is a wire, which a test may cut."""

    @pytest.fixture
    async def wire(self, database_url: str) -> AsyncIterator[tuple[Wire, str]]:
        async with wire_to(make_url(database_url)) as (wire, url):
            yield wire, url

    @pytest.fixture
    def settings(self, settings: Settings, wire: tuple[Wire, str]) -> Settings:
        return settings.model_copy(update={"database": wire[1]})

    async def test_what_needs_it_is_unavailable_until_it_is_back(
        self, caller: Caller, wire: tuple[Wire, str]
    ) -> None:
        await caller.cluster.CreateCluster(wanted(), timeout=20)
        await wire[0].cut()
        for call, request in NEEDS_ROWS.items():
            refusal = await refused(getattr(caller.cluster, call)(request, timeout=20))
            assert refusal.code is grpc.StatusCode.UNAVAILABLE, call
            assert refusal.reason == "DATABASE_UNAVAILABLE"
            assert refusal.retry
            assert "request id" in refusal.facts["do"]
        version = await caller.cluster.GetVersionInformation(pb.GetVersionMsg(), timeout=20)
        assert version.ok
        await wire[0].mend()
        assert (await got(caller)).status == pb.PROVISIONING
        reply = await caller.cluster.CreateCluster(wanted("other"), timeout=20)
        assert reply.ok


SEEN = {
    SlotPhase.PLANNED: ("Pending", "", "", "", "", ""),
    SlotPhase.ALLOCATED: ("Pending", "", "abc123", "host", "Said", ""),
    SlotPhase.DEPLOYING: ("Pending", "", "abc123", "host", "Said", "127.41.0.7"),
    SlotPhase.DEPLOYED: ("Bootstrapping", "", "abc123", "host", "Said", "127.41.0.7"),
    SlotPhase.JOINED: ("NotReady", "1.32.1", "abc123", "host", "Said", "127.41.0.7"),
    SlotPhase.HEALTHY: ("Ready", "1.32.1", "abc123", "host", "Said", "127.41.0.7"),
    SlotPhase.LOST: ("Unknown", "1.32.1", "abc123", "host", "Said", "127.41.0.7"),
    SlotPhase.DRAINING: (
        *("Ready,SchedulingDisabled", "1.32.1", "abc123", "host", "Said"),
        "127.41.0.7",
    ),
    SlotPhase.FAILED: ("Failed", "", "abc123", "host", "Said", "127.41.0.7"),
    SlotPhase.RELEASING: ("Deleting", "", "abc123", "host", "Said", ""),
    SlotPhase.RELEASED: ("Pending", "", "", "", "", ""),
}
"""What is shown of a slot of which everything is known."""


async def test_a_nodes_status_says_what_its_phase_lets_it_say(caller: Caller, hands: Hands) -> None:
    assert SEEN.keys() == set(SlotPhase)
    spec = wanted(worker_node_pools=[pool("w", count=len(SEEN) - 1)])
    await caller.cluster.CreateCluster(spec, timeout=20)
    for ordinal, phase in enumerate(SEEN):
        await hands.wrote(
            "UPDATE slots SET system_id = 'abc123', hostname = 'host', address = '127.41.0.7', "
            "status = 'Said', kubelet = '1.32.1', phase = :phase WHERE ordinal = :ordinal",
            phase=phase,
            ordinal=ordinal,
        )
    reply = await caller.cluster.GetClusterNodesStatus(
        pb.GetClusterNodesStatusMsg(clusterName="hello"), timeout=20
    )
    assert (reply.Name, reply.count) == ("hello", len(SEEN))
    shown = [
        (
            machine.k8sNodeStatus,
            machine.k8sVersion,
            machine.maasSystemId,
            machine.maasHostname,
            machine.maasNodeStatus,
            machine.maasIPAddr,
        )
        for machine in reply.machines
    ]
    assert shown == list(SEEN.values())


@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        (SlotPhase.HEALTHY, "Ready,SchedulingDisabled"),
        (SlotPhase.JOINED, "NotReady,SchedulingDisabled"),
        (SlotPhase.DRAINING, "Ready,SchedulingDisabled"),
        (SlotPhase.RELEASING, "Deleting"),
    ],
)
async def test_a_node_that_somebody_closed_says_so(
    caller: Caller, hands: Hands, phase: SlotPhase, shown: str
) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    closed = NodeSeen(name="n", readiness=Readiness.READY, schedulable=False)
    await hands.wrote(
        "UPDATE slots SET phase = :phase, node = :node", phase=phase, node=closed.model_dump_json()
    )
    asked = pb.GetClusterNodesStatusMsg(clusterName="hello")
    reply = await caller.cluster.GetClusterNodesStatus(asked, timeout=20)
    assert [machine.k8sNodeStatus for machine in reply.machines] == [shown]


async def test_nodes_follow_the_steps_seen(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    operation = await hands.begun()
    [slot] = (await hands.operations.plan(operation.id)).slots
    machine = Machine(slot=slot, system_id="abc123", hostname="host", status="Allocated")
    await hands.did(operation.id, "machines.allocate", slot.name, learnt=machine)
    await hands.mark(operation.id, "machines.deploy", slot.name, Sighting.BEGAN)
    reply = await caller.cluster.GetClusterNodesStatus(
        pb.GetClusterNodesStatusMsg(clusterName="hello"), timeout=20
    )
    [shown] = reply.machines
    assert (shown.maasSystemId, shown.maasNodeStatus) == ("abc123", "Allocated")


async def test_tells_its_version_in_all_seven_fields(caller: Caller) -> None:
    reply = await caller.cluster.GetVersionInformation(pb.GetVersionMsg(), timeout=20)
    assert reply.ok
    information = reply.version_information
    assert all(getattr(information, field.name) for field in information.DESCRIPTOR.fields)
    assert information.compiler == "CPython"
