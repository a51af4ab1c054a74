"""CreateCluster: what is accepted, what is refused and why, and what a repeat gets."""

import asyncio
from typing import Any

import grpc
import pytest
from temporalio.testing import WorkflowEnvironment

from api import build
from api.__main__ import Api
from api.launch import client
from domain.cluster import Phase
from domain.operation import Stage
from domain.ports import Stock
from protos.gen.kaas import api_pb2 as pb
from settings import Kaas, Settings, Temporal
from tests.api.caller import NOBODY, Caller, answered, label, pool, read, refused, under, wanted
from tests.api.hands import Hands
from tests.support.load import limit

LONG = "a" * 64
MANY = [label(f"l{number}") for number in range(65)]
HUGE = pb.ControlPlaneMachineSpec(instanceType="huge")

BAD: dict[str, tuple[pb.CreateClusterMsg, str]] = {
    "no name": (wanted(""), "name"),
    "capitals": (wanted("Hello"), "name"),
    "a hyphen first": (wanted("-hello"), "name"),
    "a dot": (wanted("hello.world"), "name"),
    "a newline": (wanted("hello\n"), "name"),
    "64 characters": (wanted(LONG), "name"),
    "no control plane": (pb.CreateClusterMsg(name="hello"), "control_plane_nodes"),
    "an even control plane": (
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(count=2)),
        "control_plane_nodes.count",
    ),
    "a negative control plane": (
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(count=-1)),
        "control_plane_nodes.count",
    ),
    "seven control planes": (
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(count=7)),
        "control_plane_nodes.count",
    ),
    "a version that is none": (wanted(k8s_version="latest"), "k8s_version"),
    "a version of two parts": (wanted(k8s_version="1.32"), "k8s_version"),
    "a version not offered": (wanted(k8s_version="1.12.6"), "k8s_version"),
    "a version of endless digits": (wanted(k8s_version=f"1.{'9' * 5000}.0"), "k8s_version"),
    "an impossible tag": (
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(instanceType="a b")),
        "control_plane_nodes.instanceType",
    ),
    "a pool without a name": (wanted(worker_node_pools=[pool("")]), "worker_node_pools[0].name"),
    "a pool of 58 characters": (
        wanted(worker_node_pools=[pool("a" * 58)]),
        "worker_node_pools[0].name",
    ),
    "a reserved pool": (
        wanted(worker_node_pools=[pool("control-plane")]),
        "worker_node_pools[0].name",
    ),
    "a pool twice": (wanted(worker_node_pools=[pool(), pool()]), "worker_node_pools[1].name"),
    "a negative pool": (wanted(worker_node_pools=[pool(count=-1)]), "worker_node_pools[0].count"),
    "a pool too large": (wanted(worker_node_pools=[pool(count=501)]), "worker_node_pools[0].count"),
    "too many machines in all": (
        wanted(worker_node_pools=[pool(f"p{number}", count=500) for number in range(3)]),
        "worker_node_pools",
    ),
    "51 pools": (
        wanted(worker_node_pools=[pool(f"p{number}") for number in range(51)]),
        "worker_node_pools",
    ),
    "65 labels": (
        wanted(worker_node_pools=[pool(labels=MANY)]),
        "worker_node_pools[0].labels",
    ),
    "a pool's impossible tag": (
        wanted(worker_node_pools=[pool(instanceType="gpu!")]),
        "worker_node_pools[0].instanceType",
    ),
    "a label's bad name": (
        wanted(worker_node_pools=[pool(labels=[label("-rack")])]),
        "worker_node_pools[0].labels[0].name",
    ),
    "a label's bad value": (
        wanted(worker_node_pools=[pool(labels=[label("rack", "a b")])]),
        "worker_node_pools[0].labels[0].value",
    ),
    "a label twice": (
        wanted(worker_node_pools=[pool(labels=[label("rack", "1"), label("rack", "2")])]),
        "worker_node_pools[0].labels[1].name",
    ),
    "our own label": (
        wanted(worker_node_pools=[pool(labels=[label("node-pool", "x")])]),
        "worker_node_pools[0].labels[0].name",
    ),
    "a label of Kubernetes": (
        wanted(worker_node_pools=[pool(labels=[label("node-role.kubernetes.io/worker")])]),
        "worker_node_pools[0].labels[0].name",
    ),
    "a control plane's 65 labels": (
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(labels=MANY)),
        "control_plane_nodes.labels",
    ),
    "a control plane's label": (
        wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(labels=[label("a/b/c")])),
        "control_plane_nodes.labels[0].name",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_refuses_what_can_never_be_built(case: str, caller: Caller, hands: Hands) -> None:
    request, field = BAD[case]
    refusal = await refused(caller.cluster.CreateCluster(request, metadata=under(), timeout=20))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.reason == "INVALID_REQUEST"
    assert refusal.fields == [field]
    assert not any((await hands.counts()).values()), "nothing was written, so nothing will start"


async def test_names_everything_that_is_wrong_at_once(caller: Caller) -> None:
    request = wanted("No", k8s_version="2", worker_node_pools=[pool("X", count=-1)])
    refusal = await refused(caller.cluster.CreateCluster(request, timeout=20))
    assert refusal.fields == [
        "name",
        "k8s_version",
        "worker_node_pools[0].name",
        "worker_node_pools[0].count",
    ]


async def test_a_list_of_complaints_is_cut_to_what_a_client_accepts(caller: Caller) -> None:
    labels = [label("é" * 300 + str(number), "ü" * 300) for number in range(64)]
    request = wanted("é" * 100_000, worker_node_pools=[pool(labels=labels)])
    refusal = await refused(caller.cluster.CreateCluster(request, timeout=20))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields[0] == "name"
    assert len(refusal.fields) < 65


async def test_a_megabyte_of_labels_is_refused_unread(caller: Caller) -> None:
    request = wanted(worker_node_pools=[pool(labels=[label("l")] * 800_000)])
    assert request.ByteSize() > 3_000_000
    refusal = await refused(caller.cluster.CreateCluster(request, timeout=20))
    assert refusal.fields == ["worker_node_pools[0].labels"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (wanted(control_plane_nodes=HUGE), "control_plane_nodes.instanceType"),
        (
            wanted(worker_node_pools=[pool(instanceType="huge", count=1)]),
            "worker_node_pools[0].instanceType",
        ),
    ],
)
async def test_a_tag_that_no_machine_has_is_refused(
    request_: pb.CreateClusterMsg, field: str, caller: Caller, hands: Hands
) -> None:
    await hands.stocks.saw(Stock(machines=4, tagged={"big": 2}))
    refusal = await refused(caller.cluster.CreateCluster(request_, timeout=20))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.reason == "UNKNOWN_INSTANCE_TYPE"
    assert refusal.fields == [field]
    assert not any((await hands.counts()).values())


async def test_more_machines_than_exist_are_refused(caller: Caller, hands: Hands) -> None:
    await hands.stocks.saw(Stock(machines=4, tagged={"big": 2}))
    request = wanted(worker_node_pools=[pool(instanceType="big", count=3)])
    refusal = await refused(caller.cluster.CreateCluster(request, timeout=20))
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.reason == "NOT_ENOUGH_MACHINES"
    assert refusal.facts["wanted"] == "3"
    assert not any((await hands.counts()).values())


@pytest.mark.parametrize("version", ["1.31.4", "v1.31.4"])
async def test_accepts_an_order_and_says_which_operation_it_became(
    version: str, caller: Caller, hands: Hands
) -> None:
    request = wanted(
        k8s_version=version,
        control_plane_nodes=pb.ControlPlaneMachineSpec(count=3, labels=[label("rack", "1")]),
        worker_node_pools=[pool("a", count=2), pool("from-zero")],
    )
    reply, trailers = await answered(caller.cluster.CreateCluster(request, timeout=20))
    assert reply.ok
    assert (reply.cluster.name, reply.cluster.status) == ("hello", pb.PROVISIONING)
    assert reply.cluster.status_message == "queued"
    [operation] = await hands.operations.page(size=9)
    assert trailers["windlass-operation"] == operation.id
    assert operation.requester == "anonymous"
    plan = await hands.operations.plan(operation.id)
    assert plan.release.version == "1.31.4"
    assert [slot.pool for slot in plan.slots] == ["control-plane"] * 3 + ["a"] * 2


async def test_no_version_and_no_count_mean_the_default_and_one(
    caller: Caller, hands: Hands
) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    [operation] = await hands.operations.page(size=9)
    plan = await hands.operations.plan(operation.id)
    assert plan.release.version == "1.32.1"
    assert len(plan.slots) == 1


async def sized(caller: Caller, count: int) -> None:
    """Ask for a cluster with so many control planes."""
    request = wanted(control_plane_nodes=pb.ControlPlaneMachineSpec(count=count))
    await caller.cluster.CreateCluster(request, timeout=20)


async def test_five_control_planes_are_the_most(caller: Caller, hands: Hands) -> None:
    refusal = await refused(sized(caller, 7))
    assert "7 is not one of 1, 3, 5" in refusal.message
    await sized(caller, 5)
    plan = await hands.operations.plan((await hands.newest()).id)
    assert len(plan.control_plane) == 5


class TestSeven:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"kaas": Kaas(control_planes=(1, 7))})

    async def test_the_sizes_of_control_planes_are_a_setting(
        self, caller: Caller, hands: Hands
    ) -> None:
        refusal = await refused(sized(caller, 5))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert "5 is not one of 1, 7" in refusal.message
        await sized(caller, 7)
        plan = await hands.operations.plan((await hands.newest()).id)
        assert len(plan.control_plane) == 7


class TestWithTemporal:
    @pytest.fixture
    def settings(self, settings: Settings, temporal: WorkflowEnvironment, queues: str) -> Settings:
        target = temporal.client.service_client.config.target_host
        there = Temporal(address=target, queue_prefix=queues)
        return settings.model_copy(update={"temporal": there})

    async def test_what_is_refused_starts_nothing(
        self, caller: Caller, hands: Hands, temporal: WorkflowEnvironment, queues: str
    ) -> None:
        for request, _ in BAD.values():
            await refused(caller.cluster.CreateCluster(request, timeout=20))
        await hands.stocks.saw(Stock(machines=4, tagged={}))
        await refused(sized(caller, 5))
        await sized(caller, 1)
        await refused(sized(caller, 1))
        started: set[str] = set()
        async with limit(10):
            while not started:
                found = temporal.client.list_workflows(f"TaskQueue = '{queues}workflows'")
                started = {run.id async for run in found}
        assert started == {f"op-{(await hands.newest()).id}"}, "the one that was accepted"


async def test_committed_is_accepted_while_temporal_is_away(caller: Caller, hands: Hands) -> None:
    async with limit(2):
        await caller.cluster.CreateCluster(wanted(), timeout=20)
    [operation] = await hands.operations.page(size=9)
    assert operation.stage is Stage.REQUESTED


async def test_a_name_that_is_taken_is_refused_even_for_the_same_order(caller: Caller) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    refusal = await refused(caller.cluster.CreateCluster(wanted(), timeout=20))
    assert refusal.code is grpc.StatusCode.ALREADY_EXISTS
    assert refusal.reason == "ALREADY_EXISTS"
    assert "windlass cluster delete hello" in refusal.facts["do"]


async def test_a_name_is_taken_until_its_cluster_is_gone(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    await hands.ended(Phase.RUNNING)
    await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
    refusal = await refused(caller.cluster.CreateCluster(wanted(), timeout=20))
    assert refusal.code is grpc.StatusCode.ALREADY_EXISTS


async def test_a_name_is_free_again_once_its_cluster_is_gone(caller: Caller, hands: Hands) -> None:
    await caller.cluster.CreateCluster(wanted(), timeout=20)
    await hands.ended(Phase.RUNNING)
    await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
    await hands.ended(Phase.GONE)
    assert (await caller.cluster.CreateCluster(wanted(), timeout=20)).ok


async def test_a_repeat_gets_the_same_answer_and_starts_nothing(
    caller: Caller, hands: Hands
) -> None:
    metadata = under()
    first = await answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    written = await hands.counts()
    again = await answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    assert again == first
    assert await hands.counts() == written


async def test_a_repeat_gets_the_first_answer_however_far_the_cluster_has_come(
    caller: Caller, hands: Hands
) -> None:
    metadata = under()
    first = await answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    await hands.ended(Phase.RUNNING)
    await caller.cluster.DeleteCluster(pb.DeleteClusterMsg(name="hello"), timeout=20)
    await hands.ended(Phase.GONE)
    again = await answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    assert again == first


async def test_a_repeat_may_carry_its_key_by_either_name(caller: Caller) -> None:
    [(_, key)] = under()
    first = await answered(
        caller.cluster.CreateCluster(wanted(), metadata=(("x-request-id", key),), timeout=20)
    )
    # A proxy in between has added an id of its own, which is nobody's promise.
    metadata = (("idempotency-key", key), ("x-request-id", "proxy-1"))
    again = await answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    assert again[0] == first[0]
    assert again[1]["windlass-operation"] == first[1]["windlass-operation"]
    assert again[1]["x-request-id"] == "proxy-1"


async def test_the_same_request_with_its_fields_in_another_order_is_a_repeat(
    caller: Caller,
) -> None:
    call = caller.method("cnct.kaas.api.Cluster/CreateCluster")
    name, control_plane = b"\x0a\x05hello", b"\x1a\x00"
    metadata = under()
    first = await call(name + control_plane, metadata=metadata, timeout=20)
    assert await call(control_plane + name, metadata=metadata, timeout=20) == first


async def test_a_key_used_for_another_request_is_refused(caller: Caller, hands: Hands) -> None:
    metadata = under()
    await caller.cluster.CreateCluster(wanted("one"), metadata=metadata, timeout=20)
    written = await hands.counts()
    refusal = await refused(
        caller.cluster.CreateCluster(wanted("two"), metadata=metadata, timeout=20)
    )
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.reason == "REQUEST_ID_REUSED"
    assert await hands.counts() == written


async def test_a_key_belongs_to_its_method(caller: Caller) -> None:
    metadata = under()
    await caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20)
    deleted = await caller.cluster.DeleteCluster(
        pb.DeleteClusterMsg(name="hello"), metadata=metadata, timeout=20
    )
    assert deleted.status == "Deleting"


async def test_fifty_repeats_at_once_become_one_cluster(caller: Caller, hands: Hands) -> None:
    metadata = under()
    calls = (
        answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
        for _ in range(50)
    )
    answers = await asyncio.gather(*calls)
    assert all(answer == answers[0] for answer in answers)
    assert len(await hands.operations.page(size=9)) == 1


async def test_twenty_who_want_one_name_get_one_cluster(caller: Caller, hands: Hands) -> None:
    calls = (
        caller.cluster.CreateCluster(wanted(), metadata=under(), timeout=20) for _ in range(20)
    )
    answers: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    won = [answer for answer in answers if isinstance(answer, pb.CreateClusterReply)]
    lost = [read(answer) for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert (len(won), len(lost)) == (1, 19)
    assert {refusal.code for refusal in lost} == {grpc.StatusCode.ALREADY_EXISTS}
    assert len(await hands.clusters.all()) == 1


async def test_a_repeat_after_a_restart_gets_the_same_answer(
    api: Api, settings: Settings, caller: Caller, hands: Hands
) -> None:
    metadata = under()
    first = await answered(caller.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    await api.stop()
    restarted = Api(settings, await client(NOBODY, "default"), build.Build())
    grpc_address, _ = await restarted.start()
    later = Caller(grpc_address)
    again = await answered(later.cluster.CreateCluster(wanted(), metadata=metadata, timeout=20))
    await later.close()
    await restarted.stop()
    assert again == first
    assert len(await hands.operations.page(size=9)) == 1
