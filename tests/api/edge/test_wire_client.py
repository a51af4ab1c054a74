"""A client that was never compiled from our contracts: it is made of the recorded wire alone, and
calls every method that is served."""

import json
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf import any_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from api.__main__ import Api
from tests.api.caller import Caller

TABLES = Path(__file__).parents[2] / "wire" / "tables"
SCALARS = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("string", "uint64", "int64", "uint32", "int32", "bool", "double", "bytes")
}

FLAVOR = {"key": {"name": "small"}, "ram": 1, "vcpus": 1, "disk": 1}
CLOUDLET = {
    "key": {"operator_key": {"name": "tele"}, "name": "west"},
    "location": {"latitude": 1, "longitude": 2},
    "num_dynamic_ips": 2,
}
APP = {
    "key": {"developer_key": {"name": "acme"}, "name": "shop", "version": "1"},
    "image_type": "IMAGE_TYPE_DOCKER",
    "default_flavor": {"name": "small"},
}
INFO = {
    "key": CLOUDLET["key"],
    "state": "CLOUDLET_STATE_READY",
    "flavors": [{"name": "flavor1", "vcpus": 9, "ram": 9, "disk": 9}],
}
CLUSTER_KEY = {
    "cluster_key": {"name": "blue"},
    "cloudlet_key": CLOUDLET["key"],
    "developer": "acme",
}
CLUSTER = {
    "key": CLUSTER_KEY,
    "flavor": {"name": "small"},
    "num_nodes": 1,
    "crm_override": "IGNORE_CRM",
}
INSTANCE = {
    "key": {"app_key": APP["key"], "cluster_inst_key": CLUSTER_KEY},
    "crm_override": "IGNORE_CRM",
}
NAMED = {"key": {"name": "acme"}}

CALLS: list[tuple[str, dict[str, Any], int]] = [
    ("DeveloperApi/CreateDeveloper", NAMED, 1),
    ("DeveloperApi/UpdateDeveloper", {**NAMED, "fields": ["6"], "email": "a@x"}, 1),
    ("DeveloperApi/ShowDeveloper", {"email": "a@x"}, 1),
    ("OperatorApi/CreateOperator", NAMED, 1),
    ("OperatorApi/UpdateOperator", NAMED, 1),
    ("OperatorApi/ShowOperator", {}, 1),
    ("FlavorApi/CreateFlavor", FLAVOR, 1),
    ("FlavorApi/UpdateFlavor", FLAVOR, -12),
    ("FlavorApi/ShowFlavor", {}, 1),
    ("ClusterApi/CreateCluster", NAMED, 1),
    ("ClusterApi/UpdateCluster", NAMED, -12),
    ("ClusterApi/ShowCluster", {}, 1),
    ("CloudletApi/CreateCloudlet", CLOUDLET, 0),
    ("CloudletApi/UpdateCloudlet", {**CLOUDLET, "fields": ["4"], "access_uri": "u"}, 0),
    ("CloudletApi/ShowCloudlet", {"access_uri": "u"}, 1),
    ("NotifyApi/StreamNotice", {"action": "VERSION", "version": 1}, 2),
    ("NotifyApi/StreamNotice", {}, -3),
    ("CloudletInfoApi/InjectCloudletInfo", INFO, 1),
    ("CloudletInfoApi/ShowCloudletInfo", INFO, 1),
    ("AppApi/CreateApp", APP, 1),
    ("AppApi/UpdateApp", {**APP, "fields": ["13"], "command": "run"}, 1),
    ("AppApi/ShowApp", {"command": "run"}, 1),
    ("ClusterInstApi/CreateClusterInst", CLUSTER, 1),
    ("ClusterInstApi/UpdateClusterInst", {**CLUSTER, "fields": ["14"], "num_nodes": 2}, 1),
    ("ClusterInstApi/ShowClusterInst", {"num_nodes": 2}, 1),
    ("ClusterInstInfoApi/ShowClusterInstInfo", {}, 0),
    ("AppInstApi/CreateAppInst", INSTANCE, 1),
    ("AppInstApi/UpdateAppInst", INSTANCE, -12),
    ("AppInstApi/ShowAppInst", {"state": "READY"}, 1),
    ("AppInstInfoApi/ShowAppInstInfo", {}, 0),
    ("CloudletRefsApi/ShowCloudletRefs", {}, 1),
    ("ClusterRefsApi/ShowClusterRefs", {}, 1),
    ("AppInstApi/DeleteAppInst", INSTANCE, 1),
    ("ClusterInstApi/DeleteClusterInst", CLUSTER, 1),
    ("AppApi/DeleteApp", APP, 1),
    ("ControllerApi/ShowController", {"key": {"addr": "elsewhere:1"}}, 0),
    ("ExecApi/RunCommand", {"command": "ls"}, -5),
    ("ExecApi/SendLocalRequest", {"command": "ls"}, -14),
    ("AppInstMetricsApi/ShowAppInstMetrics", {}, 0),
    ("CloudletMetricsApi/ShowCloudletMetrics", {}, 0),
    ("NodeApi/ShowNodeLocal", {}, 0),
    ("NodeApi/ShowNode", {}, 0),
    ("CloudletInfoApi/EvictCloudletInfo", INFO, 1),
    ("CloudletApi/DeleteCloudlet", CLOUDLET, 0),
    ("ClusterApi/DeleteCluster", NAMED, 1),
    ("FlavorApi/DeleteFlavor", FLAVOR, 1),
    ("OperatorApi/DeleteOperator", NAMED, 1),
    ("DeveloperApi/DeleteDeveloper", NAMED, 1),
]
"""What is called, with what, and how many messages come back; a negative number is a refusal."""


def tables() -> list[dict[str, Any]]:
    read = [json.loads((TABLES / name).read_text()) for name in ("dme.json", "edgeproto.json")]
    return [file for table in read for file in table["files"]]


def pool() -> DescriptorPool:
    """The messages of the tables, one file for each package."""
    made = DescriptorPool()
    files: dict[str, FileDescriptorProto] = {}
    for own in (any_pb2, timestamp_pb2):
        made.AddSerializedFile(own.DESCRIPTOR.serialized_pb)
    enums = {enum["name"] for table in tables() for enum in table["enums"]}
    for table in tables():
        package = table["package"]
        file = files.setdefault(package, FileDescriptorProto(name=package, syntax="proto3"))
        file.package = package
        for enum in table["enums"]:
            added = file.enum_type.add(name=enum["name"].rpartition(".")[2])
            for name, number in enum["values"].items():
                added.value.add(name=name, number=number)
        outer: dict[str, DescriptorProto] = {}
        for message in table["messages"]:
            *above, name = message["name"].removeprefix(f"{package}.").split(".")
            home = outer[above[0]].nested_type if above else file.message_type
            outer[name] = _message(home.add(name=name), message, enums)
    last = files.popitem()[1]
    last.dependency.extend([*files, any_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name])
    for file in (*files.values(), last):
        made.AddSerializedFile(file.SerializeToString())
    return made


def _message(made: DescriptorProto, message: dict[str, Any], enums: set[str]) -> DescriptorProto:
    made.options.map_entry = message.get("map_entry", False)
    for described in message["fields"]:
        field = made.field.add(name=described["name"], number=described["number"])
        single = described["label"] == "optional"
        field.label = field.LABEL_OPTIONAL if single else field.LABEL_REPEATED
        kind = described["type"]
        if kind in SCALARS:
            field.type = SCALARS[kind]
        else:
            field.type = field.TYPE_ENUM if kind in enums else field.TYPE_MESSAGE
            field.type_name = f".{kind}"
    return made


@pytest.fixture(scope="module")
def messages() -> DescriptorPool:
    return pool()


def methods() -> dict[str, dict[str, Any]]:
    """Every method of the tables by service and name."""
    return {
        f"{service['name'].removeprefix('edgeproto.')}/{method['name']}": method
        for table in tables()
        for service in table["services"]
        for method in service["methods"]
    }


async def called(caller: Caller, messages: DescriptorPool, name: str, given: Any) -> list[Any]:
    method = methods()[name]
    kinds = [
        GetMessageClass(messages.FindMessageTypeByName(method[end])) for end in ("input", "output")
    ]
    request: Any = ParseDict(given, kinds[0]())
    opened: Any = caller.channel.unary_stream
    if method["client_streaming"]:
        opened, request = caller.channel.stream_stream, iter([request])
    streams = method["server_streaming"]
    call = (opened if streams else caller.channel.unary_unary)(
        f"/edgeproto.{name}", kinds[0].SerializeToString, kinds[1].FromString
    )
    answer: Any = call(request, timeout=20)
    return [each async for each in answer] if streams else [await answer]


async def test_every_method_that_is_served_answers(
    caller: Caller, messages: DescriptorPool, api: Api
) -> None:
    served = {
        f"{service.name.removeprefix('edgeproto.')}/{method.name}"
        for service in api.services
        if service.name.startswith("edgeproto.")
        for method in service.described.methods
    }
    assert {name for name, _, _ in CALLS} == served
    for name, given, answers in CALLS:
        try:
            found = len(await called(caller, messages, name, given))
        except grpc.aio.AioRpcError as error:
            found = -error.code().value[0]
        assert found == answers, name
