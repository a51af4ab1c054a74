"""Following a cluster: a line for whatever has changed, over broken connections too."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from datetime import datetime

import grpc
import grpc.aio

from cli import documents
from cli.calling import Call
from cli.printing import Document, Format
from cli.watching import BROKEN, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PATIENCE_SECONDS
from protos.gen.ops import clusters_pb2 as pb
from protos.gen.ops.clusters_pb2_grpc import ClustersStub

STATUS = {
    "planned": "Pending",
    "allocated": "Pending",
    "deploying": "Pending",
    "deployed": "Bootstrapping",
    "joined": "NotReady",
    "healthy": "Ready",
    "lost": "Unknown",
    "draining": "Ready,SchedulingDisabled",
    "failed": "Failed",
    "releasing": "Deleting",
    "released": "Pending",
}
"""How far a node's place has come, in the words of `windlass cluster nodes`."""

CLOSED = ",SchedulingDisabled"
"""What is said besides of a node that takes no new pods."""


async def follow(call: Call, name: str) -> None:
    """Show the cluster, and what changes of it, until it is gone."""
    before: Document | None = None
    streamed = call.page.form in {Format.JSON, Format.YAML}
    async with aclosing(views(call.channel, name, call.page.say)) as seen:
        async for view in seen:
            now = documents.cluster_view(view)
            if now == before:
                continue
            if streamed:
                call.page.further(now)
            else:
                for line in changes(before, now):
                    call.page.say(f"{datetime.now().astimezone():%H:%M:%S} {line}")
            before = now


async def views(
    channel: grpc.aio.Channel, name: str, tell: Callable[[str], None]
) -> AsyncGenerator[pb.ClusterView, None]:
    """Every view until the last. A stream that breaks is opened again, and begins with how the
    cluster is then. How long an open one says nothing does not matter; a server that cannot be
    reached for five minutes is believed to be gone for good."""
    stub, pause, begun = ClustersStub(channel), FIRST_PAUSE_SECONDS, False
    broken: float | None = None
    while True:
        stream = stub.Watch(pb.WatchClusterRequest(name=name))
        try:
            async for view in stream:
                pause, begun, broken = FIRST_PAUSE_SECONDS, True, None
                yield view
                if view.phase == pb.CLUSTER_GONE:
                    return
        except grpc.aio.AioRpcError as error:
            broken = time.monotonic() if broken is None else broken
            lost = begun and error.code() in BROKEN
            if not lost or time.monotonic() - broken > PATIENCE_SECONDS:
                raise
        finally:
            stream.cancel()
        tell(f"connection lost, trying again in {pause:.1f} s")
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def changes(before: Document | None, now: Document) -> Iterator[str]:
    """What is new, a line each: the cluster first, then its nodes."""
    if before is None or (before["phase"], before["message"]) != (now["phase"], now["message"]):
        yield f"{now['name']} {now['phase']}: {now['message']}"
    known = {node["name"]: node for node in before["nodes"]} if before else {}
    for node in now["nodes"]:
        if _said(known.pop(node["name"], None)) != _said(node):
            yield f"  {_said(node)}"
    if now["phase"] != "GONE":
        for name in known:
            yield f"  {name} is no node of it any more"


def _said(node: Document | None) -> str:
    if node is None:
        return ""
    machine = " ".join(filter(None, (node["machine_id"], node["machine_status"], node["power"])))
    why = f" ({node['reason']})" if node["reason"] and node["phase"] != "healthy" else ""
    status = STATUS.get(str(node["phase"]), str(node["phase"]))
    if node["phase"] in ("joined", "healthy", "lost") and not node["schedulable"]:
        status += CLOSED
    return f"{node['name']} {status}{why}" + (f", on {machine}" if machine else "")
