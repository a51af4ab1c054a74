"""What runs on nodes: commands that look at pods, images, events and logs."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.calling import READ_SECONDS, Call, command, group
from cli.complaints import Complaint
from cli.options import seconds
from cli.printing import Column, Document, Format, tame

if TYPE_CHECKING:
    from protos.gen.rkt import api_pb2 as pb
    from protos.gen.rkt.api_pb2_grpc import PublicAPIStub

pod = group("Pods: what runs on nodes, and what has run there.")
image = group("Images that nodes have.")

ENDED = frozenset({"EXITED", "DELETING", "GARBAGE"})
PODS = (
    Column("POD", lambda it: it["id"][:8]),
    Column("STATE", lambda it: it["state"]),
    Column("INSTANCE", lambda it: it["instance"]),
    Column("NODE", lambda it: _where(it)),
    Column("IMAGE", lambda it: it["image"]),
    Column("EXIT", lambda it: it["exit_code"] if it["state"] in ENDED else ""),
    Column("STARTED", lambda it: _wall(it["started_at"])),
    Column("PID", lambda it: it["pid"], wide=True),
    Column("ADDRESS", lambda it: it["address"], wide=True),
    Column("ID", lambda it: it["id"], wide=True),
)
IMAGES = (
    Column("IMAGE", lambda it: it["id"][:19]),
    Column("NAME", lambda it: it["name"]),
    Column("VERSION", lambda it: it["version"]),
    Column("FORMAT", lambda it: it["format"]),
    Column("SIZE", lambda it: f"{it['size'] / 10**6:.1f} MB"),
    Column("IMPORTED", lambda it: _wall(it["imported_at"] * 10**9)),
)
INSTANCE, NODE, NODE_STATE = "windlass/instance", "windlass/node", "windlass/node-state"

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")]
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="From so long ago, such as 10m or 2h.")
]
Node = Annotated[str, typer.Option("--node", metavar="NODE", help="Only of this node.")]


@pod.command("list")
@command
async def list_pods(
    call: Call,
    node: Node = "",
    instance: Annotated[str, typer.Option("--instance", help="Only of this instance.")] = "",
    running: Annotated[bool, typer.Option("--running", help="Only those that run.")] = False,
) -> None:
    """List pods, those that are gone too while they are remembered."""
    from protos.gen.rkt import api_pb2 as pb

    notes = [pb.KeyValue(Key=INSTANCE, value=instance)] if instance else []
    states = [pb.POD_STATE_RUNNING] if running else []
    asked = pb.ListPodsRequest(filters=[pb.PodFilter(annotations=notes, states=states)])
    metadata = (("x-windlass-node", node),) if node else ()
    reply = await _public(call).ListPods(asked, timeout=READ_SECONDS, metadata=metadata)
    found = [_pod(each) for each in reply.pods]
    call.page.many(found, PODS, lambda it: f"pod/{it['id']}", none="there are no pods")


@pod.command("inspect")
@command
async def inspect_pod(
    call: Call, id: Annotated[str, typer.Argument(metavar="POD", help="Or how it begins.")]
) -> None:
    """Show all there is to know of a pod."""
    from protos.gen.rkt import api_pb2 as pb

    reply = await call.ask(_public(call).InspectPod, pb.InspectPodRequest(id=id))
    _shown(call, f"pod/{reply.pod.id}", {**_pod(reply.pod), "manifest": _read(reply.pod.manifest)})


@pod.command("logs")
@command
async def logs(
    call: Call,
    id: Annotated[str, typer.Argument(metavar="POD", help="Or how it begins.")],
    follow: Follow = False,
    lines: Annotated[int, typer.Option("--lines", "-n", help="Only the last so many.")] = 0,
    since: Since = "",
    times: Annotated[bool, typer.Option("--times", help="Tell when a line was written.")] = False,
) -> None:
    """Show what a pod wrote. Its log outlives it for a while."""
    await show_log(call, id, follow=follow, lines=lines, since=since, times=times)


async def show_log(
    call: Call, id: str, *, follow: bool, lines: int, since: str, times: bool
) -> None:
    """Write the lines of a pod as they are, or for programs one document for each."""
    from protos.gen.rkt import api_pb2 as pb

    asked = pb.GetLogsRequest(pod_id=id, follow=follow, lines=lines, since_time=_ago(since))
    async for message in _public(call).GetLogs(asked, timeout=None if follow else READ_SECONDS):
        for line in message.lines:
            when, _, text = line.partition(" ")
            if call.page.form in {Format.JSON, Format.YAML}:
                call.page.further({"time": when, "line": text})
            else:
                typer.echo(tame(line if times else text))


@image.command("list")
@command
async def list_images(call: Call, node: Node = "") -> None:
    """List images, each once however many nodes have it."""
    from protos.gen.rkt import api_pb2 as pb

    metadata = (("x-windlass-node", node),) if node else ()
    asked = pb.ListImagesRequest()
    reply = await _public(call).ListImages(asked, timeout=READ_SECONDS, metadata=metadata)
    found = [_image(each) for each in reply.images]
    call.page.many(found, IMAGES, lambda it: f"image/{it['id']}", none="there are no images")


@image.command("inspect")
@command
async def inspect_image(
    call: Call, id: Annotated[str, typer.Argument(metavar="IMAGE", help="Its id or its name.")]
) -> None:
    """Show all there is to know of an image."""
    from protos.gen.rkt import api_pb2 as pb

    if not id.startswith("sha512-") or len(id) < len("sha512-") + 64:
        listed = (await call.ask(_public(call).ListImages, pb.ListImagesRequest())).images
        found = [each.id for each in listed if each.name == id or each.id.startswith(id)]
        if len(found) != 1:
            raise Complaint(f"{len(found)} images are called {id}", do="windlass image list")
        id = found[0]
    reply = await call.ask(_public(call).InspectImage, pb.InspectImageRequest(id=id))
    document = {**_image(reply.image), "manifest": _read(reply.image.manifest)}
    _shown(call, f"image/{reply.image.id}", document)


@command
async def events(
    call: Call,
    follow: Follow = False,
    since: Since = "1h",
    pod: Annotated[str, typer.Option("--pod", metavar="POD", help="Only of this pod.")] = "",
) -> None:
    """Show what happened to pods and images."""
    from protos.gen.rkt import api_pb2 as pb

    until = 0 if follow else int(time.time()) + 1
    filter = pb.EventFilter(since_time=_ago(since), until_time=until)
    if pod:
        reply = await call.ask(_public(call).InspectPod, pb.InspectPodRequest(id=pod))
        filter.ids.append(reply.pod.id)
    asked = pb.ListenEventsRequest(filter=filter)
    async for message in _public(call).ListenEvents(asked):
        for each in message.events:
            document = _event(each)
            if call.page.form in {Format.JSON, Format.YAML}:
                call.page.further(document)
            else:
                typer.echo(tame(_line(document)))


def _public(call: Call) -> "PublicAPIStub":
    from protos.gen.rkt.api_pb2_grpc import PublicAPIStub

    return PublicAPIStub(call.channel)


def _pod(one: "pb.Pod") -> Document:
    from protos.gen.rkt import api_pb2 as pb

    notes = {each.Key: each.value for each in one.annotations}
    app = one.apps[0] if one.apps else pb.App()
    return {
        "id": one.id,
        "state": pb.PodState.Name(one.state).removeprefix("POD_STATE_"),
        "instance": notes.get(INSTANCE, ""),
        "node": notes.get(NODE, ""),
        "node_state": notes.get(NODE_STATE, ""),
        "image": app.image.name,
        "exit_code": app.exit_code,
        "pid": one.pid,
        "address": one.networks[0].ipv4 if one.networks else "",
        "cgroup": one.cgroup,
        "created_at": one.created_at,
        "started_at": one.started_at,
        "gc_marked_at": one.gc_marked_at,
        "apps": [each.name for each in one.apps],
        "annotations": notes,
    }


def _where(it: Document) -> str:
    return f"{it['node']} ({it['node_state']})" if it["node_state"] else str(it["node"])


def _image(one: "pb.Image") -> Document:
    from protos.gen.rkt import api_pb2 as pb

    kind = pb.ImageType.Name(one.base_format.type).removeprefix("IMAGE_TYPE_")
    return {
        "id": one.id,
        "name": one.name,
        "version": one.version,
        "format": f"{kind} {one.base_format.version}".strip(),
        "size": one.size,
        "imported_at": one.import_timestamp,
        "labels": {each.Key: each.value for each in one.labels},
        "annotations": {each.Key: each.value for each in one.annotations},
    }


def _event(one: "pb.Event") -> Document:
    from protos.gen.rkt import api_pb2 as pb

    return {
        "time": one.time,
        "type": pb.EventType.Name(one.type).removeprefix("EVENT_TYPE_"),
        "id": one.id,
        "from": getattr(one, "from"),
        "data": {each.Key: each.value for each in one.data},
    }


def _line(it: Document) -> str:
    data = " ".join(f"{name}={value}" for name, value in it["data"].items())
    when = _wall(it["time"] * 10**9)
    return f"{when}  {it['type']:22} {it['id'][:8]}  {it['from']}  {data}".rstrip()


def _shown(call: Call, name: str, document: Document) -> None:
    def told() -> str:
        import yaml

        return tame(yaml.safe_dump(document, sort_keys=False), keep="\n").rstrip()

    call.page.one(document, name, told)


def _read(manifest: bytes) -> Any:
    import json

    return json.loads(manifest) if manifest else None


def _ago(since: str) -> int:
    """So long ago, in seconds since 1970. 0 for nothing said."""
    if not since:
        return 0
    return int(time.time() - (seconds(since, "--since") or 0))


def _wall(time_ns: int) -> str:
    from datetime import datetime

    if not time_ns:
        return ""
    return f"{datetime.fromtimestamp(time_ns / 10**9).astimezone():%Y-%m-%d %H:%M:%S}"
