"""`windlass op`: the changes that take longer than a call."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import documents
from cli.calling import Call, command, group
from cli.complaints import Code, Complaint
from cli.options import OperationId, StageName, Timeout, Wait, seconds
from cli.printing import Column, Document, Format

if TYPE_CHECKING:
    from protos.gen.ops import operations_pb2, operations_pb2_grpc

app = group("Operations: changes under way, and how they ended.")

LIMIT = 50
PAGE_SIZE = 500

COLUMNS = (
    Column("ID", lambda it: it["id"]),
    Column("KIND", lambda it: it["kind"]),
    Column("SUBJECT", lambda it: it["subject"]),
    Column("STAGE", lambda it: it["stage"]),
    Column("DONE", lambda it: f"{it['percent']} %"),
    Column("CREATED", lambda it: documents.on_the_wall(it["created"])),
    Column("ENDED", lambda it: documents.on_the_wall(it["ended"])),
    Column("REQUESTER", lambda it: it["requester"], wide=True),
    Column("REQUEST", lambda it: it["request_id"], wide=True),
    Column("NOTE", lambda it: _note(it)),
)


@app.command("list")
@command
async def listing(
    call: Call,
    subject: Annotated[
        str, typer.Option("--subject", help="Only on this subject, such as cluster/hello.")
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Only of this kind, such as create-cluster.")
    ] = "",
    stage: Annotated[
        list[StageName] | None,
        typer.Option("--stage", help="Only in this stage. May be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = LIMIT,
) -> None:
    """List operations, the newest first."""
    from protos.gen.ops import operations_pb2 as pb

    stub = operations(call)
    found: list[pb.Operation] = []
    request = pb.ListOperationsRequest(
        subject=subject, kind=kind, stages=[pb.Stage.Value(each.name) for each in stage or ()]
    )
    while len(found) < limit:
        request.page_size = min(limit - len(found), PAGE_SIZE)
        reply = await call.ask(stub.List, request)
        found += reply.operations
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
    call.page.many(
        [documents.operation(each, steps=False) for each in found[:limit]],
        COLUMNS,
        lambda it: str(it["name"]),
        none="there are no such operations",
    )


@app.command("get")
@command
async def get(call: Call, operation: OperationId) -> None:
    """Show one operation with all its steps."""
    show(call, await fetched(call, operation))


@app.command("watch")
@command
async def watch(call: Call, operation: OperationId, within: Timeout = "") -> None:
    """Follow an operation to its end.

    On a terminal that is a picture in place, elsewhere a line per event, and with -o json a line of
    JSON per event. Exits 0 if it succeeds and 1 if it does not."""
    from cli import watching
    from protos.gen.ops.operations_pb2 import SUCCEEDED

    limit, identity = seconds(within), identified(operation)
    streamed = call.page.form in {Format.JSON, Format.YAML}
    face = watching.Stream(call.page) if streamed else watching.facing(call)
    ended = await watching.waited(call, identity, limit, face)
    if call.page.form is Format.NAME:
        show(call, ended)
    watching.judged(ended, SUCCEEDED)
    if not streamed:
        from cli.view import verdict

        call.page.say(verdict(ended))


@app.command("cancel")
@command
async def cancel(
    call: Call, operation: OperationId, wait: Wait = False, within: Timeout = "30m"
) -> None:
    """Call an operation off.

    It stops at a safe point and takes back what it did. With --wait exits 0 once it is cancelled,
    and 1 if it came to another end before."""
    from google.longrunning import operations_pb2, operations_pb2_grpc  # type: ignore[import-untyped]

    from protos.gen.ops.operations_pb2 import CANCELLED

    limit, identity = seconds(within), identified(operation)
    stub = operations_pb2_grpc.OperationsStub(call.channel)
    await call.change(
        stub.CancelOperation,
        operations_pb2.CancelOperationRequest(name=f"operations/{identity}"),
    )
    call.page.say(f"operation {identity} was asked to stop")
    await changed(call, identity, CANCELLED, wait=wait, limit=limit)


@app.command("pause")
@command
async def pause(call: Call, operation: OperationId) -> None:
    """Let an operation take no further step.

    Steps under way end. A node that is being upgraded or emptied takes no pods as long as the
    pause lasts. What takes steps back is never paused, nor is a delete: the operation can still
    be cancelled, and a delete of its cluster takes over."""
    from protos.gen.ops.operations_pb2 import PauseOperationRequest

    identity = identified(operation)
    request = PauseOperationRequest(name=f"operations/{identity}")
    paused, _ = await call.change(operations(call).Pause, request)
    _steered(call, paused, f"operation {identity} is paused by {paused.paused_by}")
    call.page.say(f"  let it go on with windlass op resume {identity}")


@app.command("resume")
@command
async def resume(call: Call, operation: OperationId) -> None:
    """Let a paused operation go on."""
    from protos.gen.ops.operations_pb2 import ResumeOperationRequest

    identity = identified(operation)
    request = ResumeOperationRequest(name=f"operations/{identity}")
    resumed, _ = await call.change(operations(call).Resume, request)
    _steered(call, resumed, f"operation {identity} goes on")


@app.command("approve")
@command
async def approve(
    call: Call,
    operation: OperationId,
    gate: Annotated[
        str, typer.Option("--gate", help="Only if it waits for this, such as 'pool worker'.")
    ] = "",
) -> None:
    """Let an operation pass what it waits before.

    Who approved is kept in its journal."""
    from protos.gen.ops.operations_pb2 import ApproveOperationRequest

    identity = identified(operation)
    gate = gate or (await fetched(call, identity)).gate  # so that a repeat approves no other
    request = ApproveOperationRequest(name=f"operations/{identity}", gate=gate)
    approved, _ = await call.change(operations(call).Approve, request)
    _steered(call, approved, f"operation {identity}: {gate} is approved")


async def changed(
    call: Call,
    identity: str,
    *wanted: "operations_pb2.Stage.ValueType",
    wait: bool,
    limit: float | None,
) -> bool:
    """Finish a command that asked for a change: follow it if asked to, and answer with the
    operation. Returns whether it was followed; an end that was not wanted is a complaint."""
    if not identity and (wait or call.page.for_programs):
        raise Complaint(
            "it was accepted, but the server did not say as which operation",
            do="windlass op list shows it",
        )
    if not wait:
        if call.page.for_programs:
            show(call, await fetched(call, identity))
        elif identity:
            call.page.say(f"  follow it with windlass op watch {identity}")
        return False
    from cli import watching
    from cli.view import verdict

    ended = await watching.waited(call, identity, limit, watching.facing(call))
    if call.page.for_programs:
        show(call, ended)
    watching.judged(ended, *wanted)
    if not call.page.for_programs:
        call.page.say(verdict(ended))
    return True


async def fetched(call: Call, operation: str) -> "operations_pb2.Operation":
    from protos.gen.ops import operations_pb2 as pb

    request = pb.GetOperationRequest(name=f"operations/{identified(operation)}")
    return await call.ask(operations(call).Get, request)


def operations(call: Call) -> "operations_pb2_grpc.OperationsStub":
    from protos.gen.ops.operations_pb2_grpc import OperationsStub

    return OperationsStub(call.channel)


def _steered(call: Call, operation: "operations_pb2.Operation", said: str) -> None:
    """Answer programs with the operation, and people with a sentence."""
    if call.page.for_programs:
        show(call, operation)
    else:
        call.page.say(said)


def show(call: Call, operation: "operations_pb2.Operation") -> None:
    from datetime import UTC, datetime

    from cli.view import View, render

    call.page.one(
        documents.operation(operation),
        operation.name,
        lambda: render(View.of(operation), datetime.now(UTC), everything=True),
    )


def identified(operation: str) -> str:
    """The bare id of what was typed."""
    identity = operation.removeprefix("operations/")
    if not identity:
        raise Complaint("the operation's id is empty", Code.USAGE, do="windlass op list shows them")
    return identity


def _note(operation: Document) -> str:
    failure = operation["failure"]
    if failure:
        return str(failure["message"])
    if operation["left_behind"]:
        return f"{len(operation['left_behind'])} left behind"
    if operation["paused_by"]:
        return f"paused by {operation['paused_by']}"
    if operation["gate"]:
        return f"waits for {operation['gate']} to be approved"
    return str(operation["waiting_on"])
