"""The kaas contract over REST: whatever is asked, the answer is that of gRPC."""

import json
import random
from typing import Any, NamedTuple
from uuid import uuid4

import grpc
import grpc.aio
import httpx2
import pytest
import yaml
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import status_pb2  # type: ignore[import-untyped]

from api.kaas.routes import ROUTES
from api.rest import STATUSES
from domain import ports
from domain.cluster import Phase
from protos.gen.kaas import api_pb2 as pb
from settings import Settings
from tests.api.caller import Caller, answered, label, pool, read, under, wanted
from tests.api.hands import Hands

SERVICE = pb.DESCRIPTOR.services_by_name["Cluster"]

ASKED: dict[str, list[Message]] = {
    "CreateCluster": [
        wanted(),
        wanted(
            "fresh",
            k8s_version="v1.31.4",
            control_plane_nodes=pb.ControlPlaneMachineSpec(count=3),
            worker_node_pools=[pool("a", labels=[label("tier", "é")]), pool("b", count=2)],
        ),
        pb.CreateClusterMsg(name="headless"),
        wanted("No Name", k8s_version="7", worker_node_pools=[pool("x", count=-1)]),
    ],
    "GetCluster": [
        pb.GetClusterMsg(name="hello"),
        pb.GetClusterMsg(name="nobody"),
        pb.GetClusterMsg(name="ü & ö=%00"),
        pb.GetClusterMsg(),
    ],
    "DeleteCluster": [
        pb.DeleteClusterMsg(name="hello"),
        pb.DeleteClusterMsg(name="nobody"),
        pb.DeleteClusterMsg(),
    ],
    "GetClusterList": [pb.GetClusterListMsg()],
    "GetClusterNodesStatus": [
        pb.GetClusterNodesStatusMsg(clusterName="hello"),
        pb.GetClusterNodesStatusMsg(clusterName="nobody"),
        pb.GetClusterNodesStatusMsg(),
    ],
    "GetVersionInformation": [pb.GetVersionMsg()],
    "AddNodePool": [
        pb.AddNodePoolMsg(clusterName="hello", worker_node_pools=[pool("more", count=1)]),
        pb.AddNodePoolMsg(),
    ],
    "ScaleNodePool": [
        pb.ScaleNodePoolMsg(
            clusterName="hello", node_pools=[pb.ScaleNodePoolSpec(name="w", count=2)]
        ),
        pb.ScaleNodePoolMsg(),
    ],
    "DeleteNodePool": [
        pb.DeleteNodePoolMsg(clusterName="hello", node_pool_names=["w"]),
        pb.DeleteNodePoolMsg(clusterName="hello", node_pool_names=["w", "nobody"]),
        pb.DeleteNodePoolMsg(),
    ],
    "GetUpgradeClusterInformation": [
        pb.GetUpgradeClusterInformationMsg(name="hello"),
        pb.GetUpgradeClusterInformationMsg(name="nobody"),
    ],
    "UpgradeCluster": [
        pb.UpgradeClusterMsg(name="hello", version="1.33.0"),
        pb.UpgradeClusterMsg(name="hello", version="0.1"),
        pb.UpgradeClusterMsg(),
    ],
}
"""What is asked of each method, where there is a cluster `hello` with a pool `w`."""

CASES = [
    pytest.param(method, request, id=f"{method}-{number}")
    for method, requests in ASKED.items()
    for number, request in enumerate(requests)
]

ADMIN = {
    "clusters": [{"name": "kubernetes", "cluster": {"server": "https://10.0.0.1:6443"}}],
    "users": [{"name": "kubernetes-admin", "user": {"client-key-data": "c2VjcmV0"}}],
    "contexts": [{"name": "x", "context": {"cluster": "kubernetes", "user": "kubernetes-admin"}}],
    "current-context": "x",
}
"""As kubeadm writes it, and shorter."""

STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**31,
    1.5,
    "",
    "hello",
    "\0",
    "é" * 300,
    [],
    [None],
    {},
    [{}],
    {"": 0},
)


class Heard(NamedTuple):
    """What a caller is told, by whichever door."""

    status: int
    document: Any
    operation: str
    request_id: str


async def by_grpc(caller: Caller, method: str, request: Message, key: str) -> Heard:
    try:
        call = getattr(caller.cluster, method)(request, metadata=under(key), timeout=20)
        told, trailers = await answered(call)
        code = grpc.StatusCode.OK
    except grpc.aio.AioRpcError as error:
        trailers, code = read(error).trailers, error.code()
        told = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    document = json_format.MessageToDict(told, preserving_proto_field_name=True)
    operation = trailers.get("windlass-operation", "")
    return Heard(STATUSES[code], document, operation, trailers["x-request-id"])


async def by_rest(http: httpx2.AsyncClient, method: str, request: Message, key: str) -> Heard:
    route = ROUTES[method]
    document = json_format.MessageToDict(request, preserving_proto_field_name=True)
    sent: dict[str, Any] = {"json": document} if route.has_body else {"params": document}
    headers = {"x-request-id": key}
    answer = await http.request(route.verb, route.path, headers=headers, **sent)
    assert answer.headers["content-type"] == "application/json"
    operation = answer.headers.get("windlass-operation", "")
    return Heard(answer.status_code, answer.json(), operation, answer.headers["x-request-id"])


@pytest.fixture
async def hello(caller: Caller, hands: Hands) -> None:
    """A cluster that is there and at rest."""
    spec = wanted(worker_node_pools=[pool("w", count=1)])
    await caller.cluster.CreateCluster(spec, timeout=20)
    plan = await hands.operations.plan((await hands.ended(Phase.RUNNING)).id)
    await hands.wrote("UPDATE slots SET phase = 'healthy'")
    await hands.vault.keep(ports.kubeconfig(plan.uid), yaml.safe_dump(ADMIN).encode())


def test_every_method_is_asked() -> None:
    assert ASKED.keys() == {method.name for method in SERVICE.methods}


@pytest.mark.usefixtures("hello")
@pytest.mark.parametrize(("method", "request_"), CASES)
async def test_both_doors_answer_the_same(
    method: str, request_: Message, caller: Caller, http: httpx2.AsyncClient, hands: Hands
) -> None:
    key = str(uuid4())
    first = await by_rest(http, method, request_, key)
    rows = await hands.counts()
    assert await by_grpc(caller, method, request_, key) == first
    assert await by_rest(http, method, request_, key) == first
    assert await hands.counts() == rows, "a repeat starts nothing, whichever door it comes by"
    assert first.request_id == key


async def test_a_cluster_is_made_seen_and_deleted_by_hand(http: httpx2.AsyncClient) -> None:
    document = {"name": "hello", "control_plane_nodes": {}}
    made = await http.post("/api/v1/cluster", json=document)
    assert (made.status_code, made.json()["ok"]) == (200, True)
    assert made.json()["cluster"]["status"] == "PROVISIONING"
    assert made.headers["windlass-operation"]
    again = await http.post("/api/v1/cluster", json=document)
    assert (again.status_code, again.json()["code"]) == (409, 6)
    seen = await http.get("/api/v1/cluster?name=hello")
    assert seen.json()["cluster"]["status_message"] == "queued"
    deleted = await http.delete("/api/v1/cluster?name=hello")
    assert deleted.json() == {"ok": True, "status": "Deleting"}
    nodes = await http.get("/api/v1/cluster/nodesstatus?clusterName=hello")
    assert (nodes.json()["Name"], nodes.json()["count"]) == ("hello", 1)


async def test_an_id_is_good_for_one_request(http: httpx2.AsyncClient) -> None:
    headers = {"idempotency-key": "mine"}
    for name, status in (("one", 200), ("two", 400), ("one", 200)):
        document = {"name": name, "control_plane_nodes": {}}
        answer = await http.post("/api/v1/cluster", json=document, headers=headers)
        assert answer.status_code == status
    listed = await http.get("/api/v1/cluster/list")
    assert [cluster["name"] for cluster in listed.json()["clusters"]] == ["one"]


async def test_nothing_is_left_out_of_a_list_but_what_is_default(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/api/v1/cluster/list")).json() == {"ok": True}


def strange(described: Any, chance: random.Random, depth: int = 3) -> Any:
    """A document that is nearly one of the message's."""
    document: dict[str, Any] = {}
    for field in described.fields:
        value = chance.choice(STRANGE)
        if field.message_type is not None and depth and chance.random() < 0.8:
            value = strange(field.message_type, chance, depth - 1)
            value = [value] if field.is_repeated else value
        if chance.random() < 0.8:
            document[field.name] = value
    return document


@pytest.mark.usefixtures("hello")
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_that_is_sent_finds_a_bug(seed: int, http: httpx2.AsyncClient) -> None:
    chance = random.Random(seed)  # noqa: S311 - it is to be the same every time
    for method in SERVICE.methods:
        route = ROUTES[method.name]
        for _ in range(10):
            document = strange(method.input_type, chance)
            raw = json.dumps(document).encode()
            if chance.random() < 0.3:
                raw = raw[: chance.randrange(len(raw))]
            params = {name: chance.choice(("", "hello", "\0é")) for name in document}
            headers = {"content-type": "application/json"}
            sent: dict[str, Any] = {"content": raw} if route.has_body else {"params": params}
            answer = await http.request(route.verb, route.path, headers=headers, **sent)
            assert answer.status_code != 500, f"{method.name} {sent}"
            assert answer.json().keys() <= {"ok", "code", "message", "details"} | {
                field.name for field in method.output_type.fields
            }


class TestWithoutRest:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"rest": False})

    async def test_the_http_door_is_for_operators_only(self, http: httpx2.AsyncClient) -> None:
        for route in ROUTES.values():
            assert (await http.request(route.verb, route.path)).status_code == 404
        assert (await http.get("/livez")).status_code == 200
