"""`windlass instance`: what runs on nodes, asked for, steered and followed."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from cli import documents
from cli.calling import CHANGE_SECONDS, Call, command, group
from cli.complaints import Code, Complaint
from cli.documents import moment, on_the_wall
from cli.health import told
from cli.options import RequestId, Timeout, seconds
from cli.printing import Column, Document, tame

if TYPE_CHECKING:
    from protos.gen.ops import instances_pb2 as pb
    from protos.gen.ops.instances_pb2_grpc import InstancesStub

app = group("Instances: what runs on nodes.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The instance's id.")]
Many = list[str] | None

ImageName = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE", help="docker://NAME, oci-archive:FILE, file:///FILE or builtin:NAME."
    ),
]
Cpu = Annotated[int, typer.Option("--cpu", help="Thousandths of a core.")]
Memory = Annotated[int, typer.Option("--memory", help="MB.")]
Disk = Annotated[int, typer.Option("--disk", help="GB.")]
Env = Annotated[Many, typer.Option("--env", "-e", metavar="KEY=VALUE", help="May be repeated.")]
Ports = Annotated[
    Many,
    typer.Option("--port", "-p", metavar="HOST:INSIDE", help="Host 0 is any. Repeatable."),
]
Words = Annotated[
    Many, typer.Option("--command", metavar="WORD", help="Instead of the image's. Repeatable.")
]
Policy = Annotated[
    str, typer.Option("--restart", help="never, on-failure or always; else as the server has.")
]
Pool = Annotated[str, typer.Option("--pool", help="Only on nodes of this pool.")]
Constraints = Annotated[
    Many, typer.Option("--constraint", metavar="K=V", help="Labels a node must have, or K!=V.")
]
Affinity = Annotated[
    Many, typer.Option("--affinity", metavar="K=V", help="Labels that speak for a node.")
]
Workload = Annotated[str, typer.Option("--workload", help="What it is a copy of.")]
SpreadBy = Annotated[str, typer.Option("--spread-by", metavar="LABEL")]
MostPerNode = Annotated[int, typer.Option("--most-per-node", metavar="COPIES")]
Binpack = Annotated[bool, typer.Option("--binpack", help="On the fullest node.")]
HealthHttp = Annotated[str, typer.Option("--health-http", metavar=":PORT/PATH")]
HealthTcp = Annotated[int, typer.Option("--health-tcp", metavar="PORT")]
Where = Annotated[bool, typer.Option("--plan", help="Only say where it would go; change nothing.")]
Running = Annotated[bool, typer.Option("--wait", help="Until it runs: exit 0, or 1.")]

INSTANCES = (
    Column("INSTANCE", lambda it: it["id"]),
    Column("STATUS", lambda it: it["status"]),
    Column("NODE", lambda it: it["node"]),
    Column("RESTARTS", lambda it: it["restarts"]),
    Column("ADDRESS", lambda it: it["ip"]),
    Column("PORTS", lambda it: _ports(it)),
    Column("CHANGED", lambda it: on_the_wall(it["changed"])),
    Column("SAYS", lambda it: it["says"]),
    Column("IMAGE", lambda it: it["uri"], wide=True),
    Column("COPY", lambda it: it["incarnation"], wide=True),
)
NODES = (
    Column("NODE", lambda it: it["node"]),
    Column("FITS", lambda it: "no" if it["shortfalls"] else "yes"),
    Column("BECAUSE IT", lambda it: ", ".join(it["shortfalls"])),
)
OVER = frozenset({"TERMINATED", "FAILED"})
PAUSE_SECONDS = 1.0
PATIENCE = 60
"""So often in a row a stream that breaks is taken up again."""


@app.command("create")
@command
async def create(
    call: Call,
    id: Id,
    image: ImageName,
    cpu: Cpu = 100,
    memory: Memory = 64,
    disk: Disk = 0,
    env: Env = None,
    port: Ports = None,
    command: Words = None,
    restart: Policy = "",
    pool: Pool = "",
    constraint: Constraints = None,
    affinity: Affinity = None,
    workload: Workload = "",
    spread_by: SpreadBy = "",
    most_per_node: MostPerNode = 0,
    binpack: Binpack = False,
    health_http: HealthHttp = "",
    health_tcp: HealthTcp = 0,
    plan: Where = False,
    request_id: RequestId = "",
    wait: Running = False,
    within: Timeout = "5m",
) -> int | None:
    """Have an instance run on a node that has room for it.

    With --plan it says which node that would be, and of every other by how much it falls short."""
    from protos.gen.ops import instances_pb2 as pb
    from protos.gen.ops.nodes_pb2 import Room

    order = pb.InstanceOrder(
        id=id,
        uri=image,
        environment=env or (),
        limit=Room(cpu=cpu, memory=memory, disk=disk),
        ports=map(_published, port or ()),
        command=command or (),
        restart=_restart(restart),
        pool=pool,
        constraints=constraint or (),
        affinity=affinity or (),
        workload=workload,
        spread_by=spread_by,
        most_per_node=most_per_node,
        binpack=binpack,
        probe=pb.Probing(http=health_http, tcp=health_tcp) if health_http or health_tcp else None,
    )
    if plan:
        return await _planned(call, order)
    limit = seconds(within)
    view, _ = await call.change(_instances(call).Create, order, request_id)
    call.page.say(f"instance {id} accepted")
    if not wait:
        if call.page.for_programs:
            call.page.one(_document(view), f"instance/{id}", lambda: "")
        return None
    return await _awaited(call, id, "RUNNING", limit)


async def _planned(call: Call, order: "pb.InstanceOrder") -> int:
    reply = await call.ask(_instances(call).Plan, order)
    found = [{"node": each.node, "shortfalls": list(each.shortfalls)} for each in reply.nodes]
    beside = {"node": reply.node}
    call.page.say(f"it would go to {reply.node}" if reply.node else "no node has room for it")
    call.page.many(
        found, NODES, lambda it: f"node/{it['node']}", beside=beside, none="there are no nodes"
    )
    return Code.OK if reply.node else Code.FAILED


@app.command("start")
@command
async def start(call: Call, id: Id) -> None:
    """Start an instance that was stopped, where it was."""
    await _asked(call, "Start", id, "is starting")


@app.command("stop")
@command
async def stop(call: Call, id: Id) -> None:
    """Stop an instance and keep it, so that it can be started again.

    Its room stays reserved."""
    await _asked(call, "Stop", id, "is stopping")


@app.command("destroy")
@command
async def destroy(
    call: Call,
    id: Id,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing is left of it.")] = False,
    within: Timeout = "5m",
) -> int | None:
    """End an instance and keep nothing but its record and its log."""
    limit = seconds(within)
    await _asked(call, "Destroy", id, "is being destroyed")
    return await _awaited(call, id, "TERMINATED", limit) if wait else None


@app.command("list")
@command
async def list_instances(
    call: Call,
    node: Annotated[str, typer.Option("--node", metavar="NODE", help="Only on this node.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
) -> None:
    """List instances by their ids."""
    from protos.gen.ops.instances_pb2 import ListInstancesRequest

    found: list[Document] = []
    more, after = True, ""
    while more:
        request = ListInstancesRequest(node=node, everything=everything, after=after)
        reply = await call.ask(_instances(call).List, request)
        found += map(_document, reply.instances)
        more = reply.more
        after = reply.instances[-1].id if reply.instances else ""
    call.page.many(
        found, INSTANCES, lambda it: f"instance/{it['id']}", none="there are no instances"
    )


@app.command("watch")
@command
async def watch(call: Call, id: Id) -> None:
    """Show what has happened to an instance and what happens, until it is over."""
    async for event in _events(call, id):
        document = _event(event)
        if call.page.for_programs:
            call.page.further(document)
        else:
            call.page.say(_line(document))


@app.command("why")
@command
async def why(call: Call, id: Id) -> None:
    """Say why an instance is as it is, and what to do now.

    Nothing but the server's own records is asked, so the answer is there while its node is not."""
    from protos.gen.ops.instances_pb2 import WhyInstanceRequest

    reply = await call.ask(_instances(call).Why, WhyInstanceRequest(id=id))
    document = documents.reading(reply)
    call.page.one(document, f"instance/{id}", lambda: told(document))


async def _asked(call: Call, method: str, id: str, said: str) -> None:
    from protos.gen.kudo.scheduler_pb2 import InstanceIdentifier
    from protos.gen.kudo.scheduler_pb2_grpc import InstanceServiceStub

    stub: InstanceServiceStub = InstanceServiceStub(call.channel)
    await getattr(stub, method)(InstanceIdentifier(id=id), timeout=CHANGE_SECONDS)
    call.page.say(f"instance {id} {said}")
    if call.page.for_programs:
        call.page.one(_document(await _got(call, id)), f"instance/{id}", lambda: "")


async def _awaited(call: Call, id: str, status: str, limit: float | None) -> int:
    """Follow it until it has come so far: that is well, and any other end is not."""
    import asyncio

    try:
        async with asyncio.timeout(limit):
            async for event in _events(call, id):
                if not call.page.for_programs:
                    call.page.say(_line(_event(event)))
                if event.status == status or event.status in OVER:
                    if call.page.for_programs:
                        call.page.document(_document(await _got(call, id)))
                    return Code.OK if event.status == status else Code.FAILED
    except TimeoutError:
        raise Complaint(
            f"instance {id} is not {status} yet", Code.TIMED_OUT, do=f"windlass instance why {id}"
        ) from None
    return Code.FAILED


async def _events(call: Call, id: str) -> "AsyncIterator[pb.InstanceEvent]":
    """Everything that has happened, each once, over streams that break."""
    import asyncio

    import grpc.aio

    from cli.watching import BROKEN
    from protos.gen.ops.instances_pb2 import WatchInstanceRequest

    after = failures = 0
    while True:
        try:
            async for event in _instances(call).Watch(WatchInstanceRequest(id=id, after=after)):
                after, failures = event.number, 0
                yield event
                if event.last:
                    return
            return
        except grpc.aio.AioRpcError as error:
            failures += 1
            if error.code() not in BROKEN or not after or failures > PATIENCE:
                raise
            await asyncio.sleep(PAUSE_SECONDS)


async def _got(call: Call, id: str) -> "pb.InstanceView":
    from protos.gen.ops.instances_pb2 import GetInstanceRequest

    return await call.ask(_instances(call).Get, GetInstanceRequest(id=id))


def _instances(call: Call) -> "InstancesStub":
    from protos.gen.ops.instances_pb2_grpc import InstancesStub

    return InstancesStub(call.channel)


def _published(text: str) -> "pb.Published":
    from protos.gen.ops.instances_pb2 import Published

    source, colon, destination = text.rpartition(":")
    if not colon or not source.isdecimal() or not destination.isdecimal():
        do = "write it HOST:INSIDE, such as 18080:80"
        raise Complaint(f"{text!r} is no pair of ports", Code.USAGE, do=do)
    return Published(source=int(source), destination=int(destination))


def _restart(text: str) -> "pb.Restart.ValueType":
    from protos.gen.ops import instances_pb2 as pb

    words = {
        "": pb.RESTART_UNSPECIFIED,
        "never": pb.RESTART_NEVER,
        "on-failure": pb.RESTART_ON_FAILURE,
        "always": pb.RESTART_ALWAYS,
    }
    if text not in words:
        do = "say never, on-failure or always"
        raise Complaint(f"--restart {text!r} is no policy", Code.USAGE, do=do)
    return words[text]


def _document(view: "pb.InstanceView") -> Document:
    return {
        "id": view.id,
        "uid": view.uid,
        "status": view.status,
        "says": view.says,
        "node": view.node,
        "agent": view.agent,
        "incarnation": view.incarnation,
        "restarts": view.restarts,
        "uri": view.uri,
        "limit": {"cpu": view.limit.cpu, "memory": view.limit.memory, "disk": view.limit.disk},
        "used": {"cpu": view.used.cpu, "memory": view.used.memory, "disk": view.used.disk},
        "ip": view.ip,
        "ports": [{"source": it.source, "destination": it.destination} for it in view.ports],
        "created": moment(view.created),
        "changed": moment(view.changed),
        "ended": moment(view.ended) if view.HasField("ended") else None,
    }


def _event(event: "pb.InstanceEvent") -> Document:
    return {
        "number": event.number,
        "time": moment(event.time),
        "status": event.status,
        "says": event.says,
        "node": event.node,
        "incarnation": event.incarnation,
    }


def _line(event: Document) -> str:
    said = f"  {event['says']}" if event["says"] else ""
    return tame(f"{on_the_wall(event['time'])}  {event['status']}{said}")


def _ports(view: Document) -> str:
    return " ".join(f"{it['source']}:{it['destination']}" for it in view["ports"])
