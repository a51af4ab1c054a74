"""`windlass trace`: one app from its AppInst to the instance, pod, node and machine that carry it,
and back from any of these. Every hop is asked of the API; what the caller may not read is left
out."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer

from cli.calling import READ_SECONDS, Call, command
from cli.complaints import Code, Complaint
from cli.exec import METAVAR, find_instance
from cli.pods import INSTANCE, NODE
from cli.printing import Column, Document

Answer = TypeVar("Answer")

HOPS = (
    Column("KIND", lambda it: it["kind"]),
    Column("NAME", lambda it: it["name"]),
    Column("STATE", lambda it: it["state"]),
    Column("ON", lambda it: it["on"]),
)
SLASHES = range(4, 7)
"""In the name of an AppInst."""

MOST_CLUSTERS = 200
"""A machine is looked for in so many clusters."""

HIDDEN = frozenset({"PERMISSION_DENIED", "UNIMPLEMENTED"})

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"An AppInst, written {METAVAR}, or an instance, pod, cluster, node or machine.",
    ),
]


@command
async def trace(call: Call, name: Name) -> None:
    """Follow an app to the machine that carries it, or back.

    Given an instance, a pod, a cluster, a node or a machine, it starts from every app that is
    carried there."""
    found = await Links(call).follow(name)
    if not found:
        raise Complaint(
            f"nothing is called {name}",
            Code.NOT_FOUND,
            do=f"name an AppInst as {METAVAR}, or an instance, pod, cluster, node or machine",
        )
    call.page.many(found, HOPS, lambda it: f"{it['kind']}/{it['name']}", none="there is nothing")


class Links:
    """What there is, and what each belongs to."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._answers: dict[str, Any] = {}
        """What was asked already, so that nothing is asked for twice."""

    async def follow(self, name: str) -> list[Document]:
        if name.count("/") in SLASHES:
            return await self._of_app(await find_instance(self._call, name))
        for search in (self._of_instance, self._of_pod, self._of_cluster, self._of_node):
            if found := await search(name):
                return found
        return await self._of_machine(name)

    async def _of_app(self, app: Any) -> list[Document]:
        """Downwards: what carries an app's instance."""
        from protos.gen.edge.clusterinst_pb2 import ClusterInst

        key = app.key.cluster_inst_key
        owner = _owner("AppInst", app.key)
        inside = await self._cluster(_owner("ClusterInst", key))
        hops = [
            _hop("AppInst", written(app.key), _state(app), ""),
            *[
                _hop("ClusterInst", written(each.key), _state(each), _place(key))
                for each in await self._shown("ClusterInst", ClusterInst(key=key))
            ],
        ]
        for each in await self._instances():
            if each.owner == owner:
                hops += await self._carriers(each)
        if inside is not None:
            hops.append(_hop("cluster", inside.name, "", ""))
            pods = app.runtime_info.container_ids
            hops += [_hop("pod", pod, "", inside.name) for pod in pods]
            hops += await self._machines(inside.name)
        return hops

    async def _carriers(self, instance: Any) -> list[Document]:
        """An instance, its pods, its node, and the machine that the node is."""
        hops = [_hop("instance", instance.id, instance.status, instance.node)]
        for pod in await self._pods():
            notes = _notes(pod)
            if notes.get(INSTANCE) == instance.id:
                hops.append(_hop("pod", pod.id, _pod_state(pod), notes.get(NODE, "")))
        for node in await self._nodes():
            if node.id == instance.node:
                hops.append(_hop("node", node.id, node.phase.upper(), node.address))
                hops += await self._machine_of(node)
        return hops

    async def _machine_of(self, node: Any) -> list[Document]:
        """The machine of a cluster of ours at a node's address, if there is one."""
        host = node.address.rpartition(":")[0].strip("[]")
        for cluster in (await self._clusters())[:MOST_CLUSTERS]:
            for hop in await self._machines(cluster.name):
                if hop["name"] and node.id in (hop["node"], hop["name"]):
                    return [hop]
                if host and hop["address"] == host:
                    return [hop]
        return []

    async def _machines(self, cluster: str) -> list[Document]:
        from cli.naming import first_view

        ask = partial(first_view, self._call, cluster)
        view = await self._try(f"machines {cluster}", ask, None)
        return [
            {
                **_hop("machine", each.machine_id, each.machine_status, cluster),
                "node": each.name,
                "hostname": each.hostname,
                "address": each.address,
            }
            for each in (view.nodes if view else ())
            if each.machine_id
        ]

    # Upwards: from what carries to the apps that are carried.

    async def _of_instance(self, name: str) -> list[Document]:
        return await self._upwards([each for each in await self._instances() if each.id == name])

    async def _of_pod(self, name: str) -> list[Document]:
        ids = {_notes(pod).get(INSTANCE) for pod in await self._pods() if pod.id == name}
        return await self._upwards([each for each in await self._instances() if each.id in ids])

    async def _of_node(self, name: str) -> list[Document]:
        found = await self._upwards([each for each in await self._instances() if each.node == name])
        nodes = [each for each in await self._nodes() if each.id == name]
        return found or [_hop("node", each.id, each.phase.upper(), each.address) for each in nodes]

    async def _of_cluster(self, name: str) -> list[Document]:
        found: list[Document] = []
        for cluster in await self._clusters(name):
            apps = await self._apps_in(cluster.owner)
            for app in apps:
                found += await self._of_app(app)
            if not apps:
                found += [_hop("cluster", name, "", ""), *await self._machines(name)]
        return found

    async def _of_machine(self, name: str) -> list[Document]:
        for cluster in (await self._clusters())[:MOST_CLUSTERS]:
            for hop in await self._machines(cluster.name):
                if name in (hop["name"], hop["hostname"], hop["node"]):
                    return await self._of_cluster(cluster.name)
        return []

    async def _upwards(self, instances: list[Any]) -> list[Document]:
        from protos.gen.edge.app_inst_pb2 import AppInst

        shown = await self._shown("AppInst", AppInst())
        apps = {_owner("AppInst", each.key): each for each in shown}
        found: list[Document] = []
        for instance in instances:
            app = apps.get(instance.owner)
            found += await (self._of_app(app) if app else self._carriers(instance))
        return found

    async def _apps_in(self, owner: str) -> list[Any]:
        from protos.gen.edge.app_inst_pb2 import AppInst

        return [
            each
            for each in await self._shown("AppInst", AppInst())
            if owner and _owner("ClusterInst", each.key.cluster_inst_key) == owner
        ]

    # What is asked of the API.

    async def _try(
        self, what: str, ask: Callable[[], Awaitable[Answer]], otherwise: Answer
    ) -> Answer:
        """An answer, or something else where the caller may not have it."""
        import grpc

        if what not in self._answers:
            try:
                self._answers[what] = await ask()
            except grpc.aio.AioRpcError as error:
                if error.code().name not in HIDDEN:
                    raise
                self._answers[what] = otherwise
        found: Answer = self._answers[what]
        return found

    async def _shown(self, noun: str, example: Any) -> list[Any]:
        from protos.gen.edge.app_inst_pb2_grpc import AppInstApiStub
        from protos.gen.edge.clusterinst_pb2_grpc import ClusterInstApiStub

        stubs = {"AppInst": AppInstApiStub, "ClusterInst": ClusterInstApiStub}
        show = getattr(stubs[noun](self._call.channel), f"Show{noun}")
        what = f"{noun} {example.SerializeToString(deterministic=True).hex()}"

        async def shown() -> list[Any]:
            return [each async for each in show(example, timeout=READ_SECONDS)]

        return await self._try(what, shown, [])

    async def _instances(self) -> list[Any]:
        from protos.gen.ops.instances_pb2 import ListInstancesRequest
        from protos.gen.ops.instances_pb2_grpc import InstancesStub

        async def pages() -> list[Any]:
            stub: InstancesStub = InstancesStub(self._call.channel)
            found: list[Any] = []
            asked, more = ListInstancesRequest(), True
            while more:
                page = await stub.List(asked, timeout=READ_SECONDS)
                found += page.instances
                more = page.more and bool(page.instances)
                asked.after = found[-1].id if found else ""
            return found

        return await self._try("instances", pages, [])

    async def _pods(self) -> list[Any]:
        from protos.gen.rkt.api_pb2 import ListPodsRequest
        from protos.gen.rkt.api_pb2_grpc import PublicAPIStub

        async def pods() -> list[Any]:
            public = PublicAPIStub(self._call.channel)
            return list((await public.ListPods(ListPodsRequest(), timeout=READ_SECONDS)).pods)

        return await self._try("pods", pods, [])

    async def _nodes(self) -> list[Any]:
        from protos.gen.ops.nodes_pb2 import ListNodesRequest
        from protos.gen.ops.nodes_pb2_grpc import NodesStub

        async def nodes() -> list[Any]:
            stub: NodesStub = NodesStub(self._call.channel)
            return list((await stub.List(ListNodesRequest(), timeout=READ_SECONDS)).nodes)

        return await self._try("nodes", nodes, [])

    async def _clusters(self, name: str = "") -> list[Any]:
        from protos.gen.ops.clusters_pb2 import ListClusterOwnersRequest
        from protos.gen.ops.clusters_pb2_grpc import ClustersStub

        async def clusters() -> list[Any]:
            stub: ClustersStub = ClustersStub(self._call.channel)
            asked = ListClusterOwnersRequest(name=name)
            return list((await stub.ListOwners(asked, timeout=READ_SECONDS)).clusters)

        return await self._try(f"clusters {name}", clusters, [])

    async def _cluster(self, owner: str) -> Any:
        return next((each for each in await self._clusters() if each.owner == owner), None)


def _hop(kind: str, name: str, state: str, on: str) -> Document:
    return {"kind": kind, "name": name, "state": state, "on": on}


def _owner(kind: str, key: Any) -> str:
    """As resource managers of ours record it."""
    from google.protobuf.json_format import MessageToDict

    plain = MessageToDict(key, preserving_proto_field_name=True)
    return f"{kind} {json.dumps(plain, sort_keys=True, separators=(',', ':'))}"


def written(key: Any) -> str:
    """The key of an AppInst or a ClusterInst, as the command takes it."""
    inside = getattr(key, "cluster_inst_key", key)
    where = [_place(inside), inside.cluster_key.name]
    if inside is key:
        return "/".join([*where, inside.developer])
    app = key.app_key
    same = inside.developer == app.developer_key.name
    whose = [] if same else [inside.developer]
    return "/".join([app.developer_key.name, app.name, app.version, *where, *whose])


def _place(key: Any) -> str:
    return f"{key.cloudlet_key.operator_key.name}/{key.cloudlet_key.name}"


def _state(shown: Any) -> str:
    from protos.gen.edge.common_pb2 import TrackedState

    return TrackedState.Name(shown.state)


def _pod_state(pod: Any) -> str:
    from protos.gen.rkt.api_pb2 import PodState

    return PodState.Name(pod.state).removeprefix("POD_STATE_")


def _notes(pod: Any) -> dict[str, str]:
    return {each.Key: each.value for each in pod.annotations}
