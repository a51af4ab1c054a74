"""`windlass node`: the nodes that instances run on."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.calling import CHANGE_SECONDS, Call, command, group
from cli.complaints import Code, Complaint
from cli.documents import moment, on_the_wall
from cli.options import Timeout, seconds
from cli.printing import Column, Document, tame

if TYPE_CHECKING:
    from protos.gen.ops import nodes_pb2 as pb
    from protos.gen.ops.nodes_pb2_grpc import NodesStub

app = group("Nodes that instances run on.")

Id = Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")]

NODES = (
    Column("NODE", lambda it: it["id"]),
    Column("STATE", lambda it: _state(it)),
    Column("POOL", lambda it: it["pool"]),
    Column("INSTANCES", lambda it: it["instances"]),
    Column("CPU", lambda it: _share(it, "cpu")),
    Column("MEMORY", lambda it: _share(it, "memory")),
    Column("DISK", lambda it: _share(it, "disk")),
    Column("SAYS", lambda it: it["says"]),
    Column("SUBNET", lambda it: it["subnet"], wide=True),
    Column("AGENT", lambda it: it["address"], wide=True),
    Column("RUNTIME", lambda it: it["runtime"], wide=True),
    Column("HEARD", lambda it: on_the_wall(it["heard"]), wide=True),
)


@app.command("list")
@command
async def list_nodes(
    call: Call,
    everything: Annotated[bool, typer.Option("--all", help="Also those that have left.")] = False,
) -> None:
    """List nodes, with how much of each is reserved and how much there is.

    Thousandths of a core, MB and GB."""
    from protos.gen.ops.nodes_pb2 import ListNodesRequest

    reply = await call.ask(_nodes(call).List, ListNodesRequest(everything=everything))
    found = [_document(node) for node in reply.nodes]
    call.page.many(found, NODES, lambda it: f"node/{it['id']}", none="there are no nodes")


@app.command("watch")
@command
async def watch(call: Call) -> None:
    """Show every node, and again whenever something about it changes. Ctrl-C ends it."""
    from protos.gen.ops.nodes_pb2 import WatchNodesRequest

    async for node in _nodes(call).Watch(WatchNodesRequest()):
        document = _document(node)
        if call.page.for_programs:
            call.page.further(document)
        else:
            call.page.say(_line(document))


@app.command("cordon")
@command
async def cordon(call: Call, id: Id) -> None:
    """Have nothing new placed on a node. What runs there goes on."""
    from protos.gen.ops.nodes_pb2 import CordonNodeRequest

    node = await _nodes(call).Cordon(CordonNodeRequest(id=id), timeout=CHANGE_SECONDS)
    _told(call, node, f"node {id} takes nothing new")


@app.command("uncordon")
@command
async def uncordon(call: Call, id: Id) -> None:
    """Have instances placed on a node again. A drain that is under way ends."""
    from protos.gen.ops.nodes_pb2 import UncordonNodeRequest

    node = await _nodes(call).Uncordon(UncordonNodeRequest(id=id), timeout=CHANGE_SECONDS)
    _told(call, node, f"node {id} takes instances again")


@app.command("free")
@command
async def free(call: Call, id: Id) -> None:
    """Let another agent register the id of a node that has left or is lost.

    Until then an id stays with the user whose agent registered it."""
    from protos.gen.ops.nodes_pb2 import FreeNodeRequest

    await _nodes(call).Free(FreeNodeRequest(id=id), timeout=CHANGE_SECONDS)
    call.page.say(f"the id {id} may be registered by any agent that is let in for it")


@app.command("drain")
@command
async def drain(
    call: Call,
    id: Id,
    within: Annotated[
        str,
        typer.Option(
            "--within",
            metavar="DURATION",
            help="After so long, end what may run nowhere else.",
        ),
    ] = "1h",
    wait: Annotated[bool, typer.Option("--wait", help="Until the node is empty.")] = False,
    limit: Timeout = "2h",
) -> int | None:
    """Empty a node: what may run elsewhere moves, a few instances at a time.

    The node stays closed afterwards, until it is opened with uncordon."""
    from google.protobuf.duration_pb2 import Duration

    from protos.gen.ops.nodes_pb2 import DrainNodeRequest

    time = Duration(seconds=int(seconds(within, "--within") or 0))
    request = DrainNodeRequest(id=id, within=time)
    node = await _nodes(call).Drain(request, timeout=CHANGE_SECONDS)
    said = f"node {id} is being drained: {node.instances} instances have to leave"
    call.page.say(said)
    if not wait:
        _told(call, node, "")
        return None
    return await _emptied(call, id, seconds(limit))


async def _emptied(call: Call, id: str, limit: float | None) -> int:
    import asyncio

    from protos.gen.ops.nodes_pb2 import WatchNodesRequest

    try:
        async with asyncio.timeout(limit):
            async for node in _nodes(call).Watch(WatchNodesRequest()):
                if node.id == id and not node.draining:
                    _told(call, node, f"node {id} has {node.instances} instances left")
                    return Code.OK if not node.instances else Code.FAILED
    except TimeoutError:
        raise Complaint(
            f"node {id} is not empty yet", Code.TIMED_OUT, do="windlass node watch"
        ) from None
    return Code.FAILED


def _told(call: Call, node: "pb.FleetNode", said: str) -> None:
    if said:
        call.page.say(said)
    if call.page.for_programs:
        call.page.one(_document(node), f"node/{node.id}", lambda: "")


def _nodes(call: Call) -> "NodesStub":
    from protos.gen.ops.nodes_pb2_grpc import NodesStub

    return NodesStub(call.channel)


def _document(node: "pb.FleetNode") -> Document:
    return {
        "id": node.id,
        "phase": node.phase.upper(),
        "says": node.says,
        "pool": node.pool,
        "address": node.address,
        "subnet": node.subnet,
        "runtime": node.runtime,
        "labels": dict(node.labels),
        "cordoned": node.cordoned,
        "draining": node.draining,
        "suspect": node.suspect,
        "heard": moment(node.heard) if node.HasField("heard") else None,
        "limit": _room(node.limit),
        "reserved": _room(node.reserved),
        "used": _room(node.used),
        "instances": node.instances,
    }


def _room(room: "pb.Room") -> Document:
    return {"cpu": room.cpu, "memory": room.memory, "disk": room.disk}


def _state(node: Document) -> str:
    words = [name for name in ("suspect", "draining", "cordoned") if node[name]]
    if "draining" in words:
        words.remove("cordoned")
    return ", ".join([str(node["phase"]), *words])


def _share(node: Document, name: str) -> str:
    return f"{node['reserved'][name]}/{node['limit'][name]}"


def _line(node: Document) -> str:
    said = f"  {node['says']}" if node["says"] else ""
    shares = "  ".join(f"{name} {_share(node, name)}" for name in ("cpu", "memory", "disk"))
    return tame(f"{node['id']}  {_state(node)}  {node['instances']} instances  {shares}{said}")
