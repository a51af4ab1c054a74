"""The cloudlets that `windlass up` brings along: two, managed by a simulated resource manager each,
and an app that runs on both."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from cli.calling import CHANGE_SECONDS, READ_SECONDS, Call
from cli.complaints import Complaint

if TYPE_CHECKING:
    from rich.console import Console

OPERATOR, NAMES = "tele", ("west", "east")
DEVELOPER, APP, VERSION = "acme", "shop", "1.0"
CLUSTER = "autocluster-shop"
"""One that is made for the app."""

PLACES = {"west": (47.5, 19.0), "east": (48.2, 16.4)}

CONNECT_SECONDS = 60.0
PLACE_SECONDS = 120.0
LOOK_SECONDS = 0.1

EXEC_HINT = f"windlass exec {DEVELOPER}/{APP}/{VERSION}/{OPERATOR}/{NAMES[0]} -- echo hello"


async def raise_cloudlets(call: Call, out: "Console") -> None:
    """Describe them and the app, and place it on each, unless it is there."""
    began = monotonic()
    await _describe(call)
    await asyncio.gather(*(_placed(call, name) for name in NAMES))
    where = ", ".join(f"{OPERATOR}/{name}" for name in NAMES)
    out.print(f"{monotonic() - began:5.1f} s  app {APP} runs on the cloudlets {where}")


async def _describe(call: Call) -> None:
    from protos.gen.edge import app_pb2, cloudlet_pb2, developer_pb2, flavor_pb2, operator_pb2
    from protos.gen.edge.app_pb2_grpc import AppApiStub
    from protos.gen.edge.cloudlet_pb2_grpc import CloudletApiStub
    from protos.gen.edge.developer_pb2_grpc import DeveloperApiStub
    from protos.gen.edge.dme.loc_pb2 import Loc
    from protos.gen.edge.flavor_pb2_grpc import FlavorApiStub
    from protos.gen.edge.operator_pb2_grpc import OperatorApiStub

    small = flavor_pb2.Flavor(key=flavor_pb2.FlavorKey(name="small"), ram=1024, vcpus=1, disk=1)
    await once(FlavorApiStub(call.channel).CreateFlavor, small)
    owner = operator_pb2.Operator(key=operator_pb2.OperatorKey(name=OPERATOR))
    await once(OperatorApiStub(call.channel).CreateOperator, owner)
    developer = developer_pb2.Developer(key=developer_pb2.DeveloperKey(name=DEVELOPER))
    await once(DeveloperApiStub(call.channel).CreateDeveloper, developer)
    for name, (latitude, longitude) in PLACES.items():
        key = cloudlet_pb2.CloudletKey(operator_key=owner.key, name=name)
        location = Loc(latitude=latitude, longitude=longitude)
        place = cloudlet_pb2.Cloudlet(key=key, location=location, num_dynamic_ips=10)
        await once(CloudletApiStub(call.channel).CreateCloudlet, place)
    app = app_pb2.App(
        key=app_pb2.AppKey(developer_key=developer.key, name=APP, version=VERSION),
        image_type=app_pb2.IMAGE_TYPE_DOCKER,
        default_flavor=small.key,
        access_ports="tcp:80",
    )
    await once(AppApiStub(call.channel).CreateApp, app)


async def _placed(call: Call, name: str) -> None:
    """Have the app run on a cloudlet, once that takes work."""
    from protos.gen.edge.app_inst_pb2 import AppInst
    from protos.gen.edge.app_inst_pb2_grpc import AppInstApiStub

    instance = AppInst()
    key = instance.key
    key.app_key.developer_key.name = DEVELOPER
    key.app_key.name, key.app_key.version = APP, VERSION
    key.cluster_inst_key.cluster_key.name = CLUSTER
    key.cluster_inst_key.cloudlet_key.operator_key.name = OPERATOR
    key.cluster_inst_key.cloudlet_key.name = name
    await ready(call, key.cluster_inst_key.cloudlet_key)
    await once(AppInstApiStub(call.channel).CreateAppInst, instance, PLACE_SECONDS)


async def ready(call: Call, key: Any) -> None:
    """Wait until a cloudlet's resource manager is connected."""
    from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_READY, CloudletInfo
    from protos.gen.edge.cloudlet_pb2_grpc import CloudletInfoApiStub

    deadline, stub = monotonic() + CONNECT_SECONDS, CloudletInfoApiStub(call.channel)
    while monotonic() < deadline:
        asked = stub.ShowCloudletInfo(CloudletInfo(key=key), timeout=READ_SECONDS)
        if [info async for info in asked if info.state == CLOUDLET_STATE_READY]:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise Complaint(
        f"the resource manager of {OPERATOR}/{key.name} does not connect",
        do="read cloudlets.log among the logs",
    )


async def once(method: Callable[..., Any], request: Any, seconds: float = CHANGE_SECONDS) -> None:
    """Ask for something to be created. What is there already is well."""
    import grpc

    answer = method(request, timeout=seconds)
    try:
        if isinstance(answer, Awaitable):
            await answer
        else:
            _ = [each async for each in answer]
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
