"""How long it takes from Create until a container of podman is RUNNING, beside podman's own create
and start through the same socket."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import grpc.aio

from agent.podman.rest import Rest
from agent.podman.runtime import Podman, proven
from agent.podman.service import Service
from protos.gen.kudo import scheduler_pb2 as pb
from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub
from tests.bench.figures import Figure, Target, figure, percentile, ratio
from tests.bench.place import LOOK_SECONDS, PYTHON, READY_SECONDS, Place, place

AT_ONCE = 4
CONTAINERS = 16
MOST_MORE_MS = Target(most=500)
SUBNETS = "10.78.0.0/16"
"""Not those of any other node of this machine."""

ENDED = (pb.TERMINATED, pb.FAILED)
LIMIT = pb.ResourceSummary(cpu=100, memory=64, disk=1)
BARE: dict[str, Any] = {
    "image": "windlass.local/idle:latest",
    "init": True,
    "no_new_privileges": True,
    "cap_drop": ["ALL"],
    "netns": {"nsmode": "bridge"},
    "Networks": {"windlass": {}},
    "resource_limits": {
        "pids": {"limit": 512},
        "memory": {"limit": LIMIT.memory * 10**6},
        "cpu": {"quota": LIMIT.cpu * 100, "period": 100_000},
    },
    "log_configuration": {"driver": "k8s-file"},
}
"""What podman is asked for an instance of ours, in short."""


async def measure(repeats: int) -> list[Figure]:
    """Run by run, ours and podman's, each of which clears up behind itself."""
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    async with place(machines=1, more={"WINDLASS_NODES__SUBNETS": SUBNETS}) as site:
        if why := await _missing(site):
            sys.stderr.write(f"NO CONTAINERS WERE RUN: {why}\n")
            return []
        socket = await _node(site)
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            stub, rest = InstanceServiceStub(channel), Rest(socket)
            await _ready(stub)
            for _ in range(repeats):
                ours.append(await _ours(stub))
                bare.append(await _bare(rest))
            await rest.close()
    middle, best = [percentile(run, 0.5) for run in ours], [percentile(run, 0.5) for run in bare]
    more = [one - other for one, other in zip(middle, best, strict=True)]
    who = f"{AT_ONCE} at once"
    return [
        figure(f"Create to RUNNING, {who}: p50", "ms", *middle),
        figure("p95", "ms", *(percentile(run, 0.95) for run in ours)),
        figure(f"podman's create and start, {who}: p50", "ms", *best),
        figure("ours beyond podman's own", "ms", *more, target=MOST_MORE_MS),
        ratio("Create to RUNNING / podman", middle, best),
    ]


async def _missing(site: Place) -> str:
    podman = Podman("proof", site.state / "proof")
    try:
        return await proven(podman)
    finally:
        await podman.close()


async def _node(site: Place) -> Path:
    """A node of podman; the socket of its podman."""
    name = f"bench-{uuid4().hex[:6]}"
    told = {
        "NODE": name,
        "RUNTIME": "podman",
        "CONTROL": site.grpc,
        "LISTEN": "127.0.0.1:0",
        "CPU": "64000",
        "MEMORY_MB": "64000",
        "DISK_GB": "1000",
    }
    more = {f"WINDLASS_AGENT__{key}": value for key, value in told.items()}
    agent = await site.start("agent", PYTHON, "-m", "agent", **more)
    await agent.told("registered")
    return Service(site.state / "agents" / name / "podman").socket


def _instance() -> pb.Instance:
    id = f"bench-{uuid4().hex[:8]}"
    return pb.Instance(id=id, uri="builtin:idle", resource=pb.Resource(limit=LIMIT))


async def _ready(stub: InstanceServiceStub) -> None:
    """Return once the node has said that it runs, and has the image."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            async for said in stub.Create(instance := _instance()):
                if said.status == pb.RUNNING:
                    await stub.Destroy(pb.InstanceIdentifier(id=instance.id))
                    return
            await asyncio.sleep(LOOK_SECONDS)


async def _ours(stub: InstanceServiceStub) -> list[float]:
    calls = {}

    async def run() -> None:
        instance = _instance()
        id = instance.id
        calls[id] = stub.Create(instance)
        async for said in calls[id]:
            if said.status == pb.RUNNING:
                return
            if said.status in ENDED:
                raise RuntimeError(f"{id}: {said.statusDescription}")

    took = await _timed(run)
    for id, call in calls.items():
        await stub.Destroy(pb.InstanceIdentifier(id=id))
        async for _ in call:
            pass
    return took


async def _bare(rest: Rest) -> list[float]:
    made: list[str] = []

    async def run() -> None:
        answer = (await rest.ask("POST", "/containers/create", said=BARE)).json()
        made.append(answer["Id"])
        await rest.ask("POST", f"/containers/{answer['Id']}/start")

    took = await _timed(run)
    for id in made:
        await rest.ask("DELETE", f"/containers/{id}", asked={"force": "true", "timeout": "0"})
    return took


async def _timed(run: Callable[[], Awaitable[None]]) -> list[float]:
    """Milliseconds of each, with some of them under way all the time."""
    left, took = iter(range(CONTAINERS)), []

    async def go_on() -> None:
        for _ in left:
            began = perf_counter()
            await run()
            took.append(1000 * (perf_counter() - began))

    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    return took
