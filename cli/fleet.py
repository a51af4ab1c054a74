"""The nodes that `windlass up` runs, and its first instance: a few lines of it are shown."""

import asyncio
import sys
from typing import TYPE_CHECKING

from cli.calling import READ_SECONDS, Call
from cli.complaints import Complaint
from cli.parts import Part, listening
from cli.printing import tame

if TYPE_CHECKING:
    from rich.console import Console

    from protos.gen.rkt import api_pb2 as rkt
    from settings import Settings

INSTANCE, IMAGE = "hello", "builtin:ticker"
LINES = 3
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
        found.append(Part(f"node-{number + 1}", command, ready, listens))
    return found


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
