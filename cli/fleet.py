"""The nodes that `windlass up` runs, its first instance, of which a few lines are shown, and an app
of the edge on them."""

import asyncio
import sys
from typing import TYPE_CHECKING

from cli.calling import READ_SECONDS, Call
from cli.cloudlets import DEVELOPER, OPERATOR, PLACE_SECONDS, VERSION, once, ready
from cli.complaints import Complaint
from cli.parts import Part, listening
from cli.printing import tame

if TYPE_CHECKING:
    from rich.console import Console

    from protos.gen.rkt import api_pb2 as rkt
    from settings import Settings

INSTANCE, IMAGE = "hello", "builtin:ticker"
LINES = 3
APP, CLOUDLET = "ticker", "nodes"
RUN_SECONDS = 60.0
"""How long the first instance may take; on a slow machine its image has to be made first."""

LOOK_SECONDS, LOOKS = 0.1, 300


def agents(settings: "Settings") -> list[Part]:
    """An agent for every node, each with a port of its own from the one that is set on."""
    host, _, first = settings.agent.listen.rpartition(":")
    found = []
    for number in range(settings.agent.embedded):
        address = f"{host}:{int(first) + number}"
        command = [sys.executable, "-m", "agent", "--node", f"node-{number + 1}"]
        command += ["--listen", address, "--control", settings.grpc_address]

        async def ready(address: str = address) -> bool:
            return await listening(address)

        listens = {"WINDLASS_AGENT__LISTEN": address}
        trial = {"WINDLASS_AGENT__PROCESS_FALLBACK": "true"}  # whose user is who runs things here
        found.append(Part(f"node-{number + 1}", command, ready, listens, trial))
    return found


def manager(settings: "Settings") -> Part:
    """The resource manager of the cloudlet that these nodes are."""
    command = [sys.executable, "-m", "agent.crm", "--cloudlet", f"{OPERATOR}/{CLOUDLET}"]
    command += ["--controller", settings.grpc_address, "--platform", "nodes"]
    command += ["--scheduler", settings.grpc_address]
    command += ["--vcores", "8", "--ram-mb", "16000", "--volume-gb", "200"]

    async def at_once() -> bool:
        return True  # whoever places something there waits until it is connected

    return Part("manager", command, at_once)


async def first_app(call: Call, out: "Console") -> None:
    """Have an app of the edge run on the nodes, by way of their resource manager."""
    from protos.gen.edge import app_inst_pb2, app_pb2, cloudlet_pb2, developer_pb2, flavor_pb2
    from protos.gen.edge.app_inst_pb2_grpc import AppInstApiStub
    from protos.gen.edge.app_pb2_grpc import AppApiStub
    from protos.gen.edge.cloudlet_pb2_grpc import CloudletApiStub
    from protos.gen.edge.developer_pb2_grpc import DeveloperApiStub
    from protos.gen.edge.dme.loc_pb2 import Loc
    from protos.gen.edge.flavor_pb2_grpc import FlavorApiStub
    from protos.gen.edge.operator_pb2 import Operator, OperatorKey
    from protos.gen.edge.operator_pb2_grpc import OperatorApiStub

    tiny = flavor_pb2.Flavor(key=flavor_pb2.FlavorKey(name="tiny"), ram=64, vcpus=1, disk=1)
    await once(FlavorApiStub(call.channel).CreateFlavor, tiny)
    owner = Operator(key=OperatorKey(name=OPERATOR))
    await once(OperatorApiStub(call.channel).CreateOperator, owner)
    developer = developer_pb2.Developer(key=developer_pb2.DeveloperKey(name=DEVELOPER))
    await once(DeveloperApiStub(call.channel).CreateDeveloper, developer)
    place = cloudlet_pb2.CloudletKey(operator_key=owner.key, name=CLOUDLET)
    location = Loc(latitude=46.1, longitude=14.5)
    cloudlet = cloudlet_pb2.Cloudlet(key=place, location=location, num_dynamic_ips=10)
    await once(CloudletApiStub(call.channel).CreateCloudlet, cloudlet)
    app = app_pb2.App(
        key=app_pb2.AppKey(developer_key=developer.key, name=APP, version=VERSION),
        image_type=app_pb2.IMAGE_TYPE_DOCKER,
        image_path=IMAGE,
        deployment="docker",
        default_flavor=tiny.key,
    )
    await once(AppApiStub(call.channel).CreateApp, app)
    await ready(call, place)
    instance = app_inst_pb2.AppInst()
    instance.key.app_key.CopyFrom(app.key)
    instance.key.cluster_inst_key.cluster_key.name = f"autocluster-{APP}"
    instance.key.cluster_inst_key.cloudlet_key.CopyFrom(place)
    await once(AppInstApiStub(call.channel).CreateAppInst, instance, PLACE_SECONDS)
    out.print(f"app {APP} runs on the nodes of the cloudlet {OPERATOR}/{CLOUDLET}")


async def first_instance(call: Call, out: "Console") -> None:
    """Have an instance run on one of the nodes, and show how it begins and what it says."""
    try:
        async with asyncio.timeout(RUN_SECONDS):
            await _created(call, out)
            await _heard(call, out)
    except TimeoutError:
        raise Complaint(
            f"instance {INSTANCE} did not run within {RUN_SECONDS:g} s",
            do="windlass events shows how far it came",
        ) from None


async def _created(call: Call, out: "Console") -> None:
    import grpc

    from protos.gen.kudo import scheduler_pb2 as pb
    from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub

    limit = pb.ResourceSummary(cpu=100, memory=64, disk=1)
    asked = pb.Instance(
        id=INSTANCE,
        uri=IMAGE,
        environnement=["GREETING=from a node", "SECONDS_BETWEEN=0.3"],
        resource=pb.Resource(limit=limit),
    )
    out.print(f"\nrunning instance {INSTANCE}: {IMAGE}")
    while True:
        said: list[str] = []
        try:
            async for status in InstanceServiceStub(call.channel).Create(asked):
                word = pb.Status.Name(status.status)
                said.append(f"  {word:10} {tame(status.statusDescription)}".rstrip())
                if status.status == pb.RUNNING:
                    out.print("\n".join(said), markup=False, highlight=False)
                    return
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.ALREADY_EXISTS:
                return
            raise
        await asyncio.sleep(LOOK_SECONDS)  # no node takes work yet, or it was on one that left


async def _heard(call: Call, out: "Console") -> None:
    """The first lines of the pod that runs now."""
    from protos.gen.rkt import api_pb2 as pb
    from protos.gen.rkt.api_pb2_grpc import PublicAPIStub

    public = PublicAPIStub(call.channel)
    pods: list[rkt.Pod] = []
    for _ in range(LOOKS):  # it may run before its node has told
        if not pods:
            await asyncio.sleep(LOOK_SECONDS)
            pods = await _pods(call)
    if not pods:
        out.print("  its node has not told of it yet: windlass pod list")
        return
    asked = pb.GetLogsRequest(pod_id=pods[0].id, follow=True)
    shown = 0
    async for message in public.GetLogs(asked):
        for line in message.lines[: LINES - shown]:
            out.print(f"  {tame(line.partition(' ')[2])}", markup=False, highlight=False)
            shown += 1
        if shown >= LINES:
            return


async def _pods(call: Call) -> "list[rkt.Pod]":
    from protos.gen.rkt import api_pb2 as pb
    from protos.gen.rkt.api_pb2_grpc import PublicAPIStub

    notes = [pb.KeyValue(Key="windlass/instance", value=INSTANCE)]
    only = pb.PodFilter(annotations=notes, states=[pb.POD_STATE_RUNNING])
    asked = pb.ListPodsRequest(filters=[only])
    reply = await PublicAPIStub(call.channel).ListPods(asked, timeout=READ_SECONDS)
    return list(reply.pods)
