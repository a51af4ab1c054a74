"""Every service of the contract that is served, as a client of it has them, and what it asks."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc.aio

from protos.gen.edge import (
    app_inst_pb2,
    app_pb2,
    cloudlet_pb2,
    cluster_pb2,
    clusterinst_pb2,
    developer_pb2,
    flavor_pb2,
    operator_pb2,
)
from protos.gen.edge.app_inst_pb2_grpc import (
    AppInstApiStub,
    AppInstInfoApiStub,
    AppInstMetricsApiStub,
)
from protos.gen.edge.app_pb2_grpc import AppApiStub
from protos.gen.edge.cloudlet_pb2_grpc import (
    CloudletApiStub,
    CloudletInfoApiStub,
    CloudletMetricsApiStub,
)
from protos.gen.edge.cluster_pb2_grpc import ClusterApiStub
from protos.gen.edge.clusterinst_pb2_grpc import ClusterInstApiStub, ClusterInstInfoApiStub
from protos.gen.edge.common_pb2 import IP_SUPPORT_DYNAMIC
from protos.gen.edge.controller_pb2_grpc import ControllerApiStub
from protos.gen.edge.developer_pb2_grpc import DeveloperApiStub
from protos.gen.edge.dme.loc_pb2 import Loc
from protos.gen.edge.exec_pb2_grpc import ExecApiStub
from protos.gen.edge.flavor_pb2_grpc import FlavorApiStub
from protos.gen.edge.node_pb2_grpc import NodeApiStub
from protos.gen.edge.operator_pb2_grpc import OperatorApiStub
from protos.gen.edge.refs_pb2_grpc import CloudletRefsApiStub, ClusterRefsApiStub
from tests.api.caller import Refusal, refused

SECONDS = 20


class Edge:
    """A client. Methods are called by their names, streams are read to their ends."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self._stubs = [
            stub(channel)
            for stub in (
                *(DeveloperApiStub, OperatorApiStub, FlavorApiStub, ClusterApiStub, AppApiStub),
                *(CloudletApiStub, CloudletInfoApiStub, CloudletRefsApiStub, ClusterRefsApiStub),
                *(ControllerApiStub, NodeApiStub, AppInstMetricsApiStub, CloudletMetricsApiStub),
                *(ExecApiStub,),
                *(ClusterInstApiStub, ClusterInstInfoApiStub, AppInstApiStub, AppInstInfoApiStub),
            )
        ]

    async def __call__(self, method: str, request: Any, **how: Any) -> list[Any]:
        """The messages of the answer. Of a single answer that is the one."""
        answer = self._called(method, request, **how)
        return [each async for each in answer] if _streams(answer) else [await answer]

    def stream(self, method: str, request: Any) -> AsyncIterator[Any]:
        """The messages of a long stream, one by one."""
        answer: AsyncIterator[Any] = aiter(self._called(method, request, timeout=100))
        return answer

    def _called(self, method: str, request: Any, **how: Any) -> Any:
        [call] = [getattr(stub, method) for stub in self._stubs if hasattr(stub, method)]
        return call(request, **{"timeout": SECONDS, **how})

    async def refused(self, method: str, request: Any, **how: Any) -> Refusal:
        return await refused(self(method, request, **how))

    async def names(self, noun: str, example: Any) -> list[str]:
        """The names of what is shown, in the order in which it is shown."""
        return [each.key.name for each in await self(f"Show{noun}", example)]


def _streams(answer: Any) -> bool:
    return not isinstance(answer, Awaitable)


def developer(name: str = "acme", **more: Any) -> developer_pb2.Developer:
    return developer_pb2.Developer(key=developer_pb2.DeveloperKey(name=name), **more)


def operator(name: str = "tele", **more: Any) -> operator_pb2.Operator:
    return operator_pb2.Operator(key=operator_pb2.OperatorKey(name=name), **more)


def flavor(name: str = "small", **more: Any) -> flavor_pb2.Flavor:
    size = {"ram": 2048, "vcpus": 2, "disk": 2, **more}
    return flavor_pb2.Flavor(key=flavor_pb2.FlavorKey(name=name), **size)


def template(name: str = "pinned", default: str = "", **more: Any) -> cluster_pb2.Cluster:
    key = cluster_pb2.ClusterKey(name=name)
    return cluster_pb2.Cluster(key=key, default_flavor=flavor_pb2.FlavorKey(name=default), **more)


def cloudlet(name: str = "west", owner: str = "tele", **more: Any) -> cloudlet_pb2.Cloudlet:
    key = cloudlet_pb2.CloudletKey(operator_key=operator(owner).key, name=name)
    usual = {"ip_support": IP_SUPPORT_DYNAMIC, "num_dynamic_ips": 5, "location": at(47.5, 19.0)}
    return cloudlet_pb2.Cloudlet(key=key, **{**usual, **more})


def at(latitude: float, longitude: float, **more: Any) -> Loc:
    return Loc(latitude=latitude, longitude=longitude, **more)


def app(name: str = "shop", owner: str = "acme", version: str = "1.0", **more: Any) -> app_pb2.App:
    key = app_pb2.AppKey(developer_key=developer(owner).key, name=name, version=version)
    usual = {
        "image_type": app_pb2.IMAGE_TYPE_DOCKER,
        "default_flavor": flavor_pb2.FlavorKey(name="small"),
        "access_ports": "tcp:80",
    }
    return app_pb2.App(key=key, **{**usual, **more})


def info(name: str = "west", owner: str = "tele", **more: Any) -> cloudlet_pb2.CloudletInfo:
    """What its resource manager says of a cloudlet: ready, and with machines of one size."""
    size = cloudlet_pb2.FlavorInfo(name="flavor1", vcpus=10, ram=101024, disk=500)
    usual = {"state": cloudlet_pb2.CLOUDLET_STATE_READY, "flavors": [size], "os_max_ram": 500}
    return cloudlet_pb2.CloudletInfo(key=cloudlet(name, owner).key, **{**usual, **more})


def clusterinst_key(
    name: str = "blue", place: str = "west", owner: str = "tele", developer: str = "acme"
) -> clusterinst_pb2.ClusterInstKey:
    return clusterinst_pb2.ClusterInstKey(
        cluster_key=cluster_pb2.ClusterKey(name=name),
        cloudlet_key=cloudlet(place, owner).key,
        developer=developer,
    )


def clusterinst(
    name: str = "blue", *, key: dict[str, str] | None = None, **more: Any
) -> clusterinst_pb2.ClusterInst:
    usual = {"flavor": flavor_pb2.FlavorKey(name="small"), "num_masters": 1, "num_nodes": 1}
    return clusterinst_pb2.ClusterInst(
        key=clusterinst_key(name, **(key or {})), **{**usual, **more}
    )


def appinst(
    name: str = "shop", cluster: str = "blue", *, key: dict[str, str] | None = None, **more: Any
) -> app_inst_pb2.AppInst:
    """An instance of version 1.0 of an app of acme."""
    made = app_inst_pb2.AppInstKey(
        app_key=app(name).key, cluster_inst_key=clusterinst_key(cluster, **(key or {}))
    )
    return app_inst_pb2.AppInst(key=made, **more)
