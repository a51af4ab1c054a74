"""The audit trail: commands of one group."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli import documents
from cli.calling import Call, command, group
from cli.complaints import Code, Complaint
from cli.printing import Column, Document

if TYPE_CHECKING:
    from protos.gen.ops import access_pb2, access_pb2_grpc

audit = group("Who changed what.")

LONG = 19
"""Digits of a number that there is no line of."""

NO_END = "unknown: its process died, or it goes on"

LINES = (
    Column("NUMBER", lambda it: it["number"]),
    Column("TIME", lambda it: documents.on_the_wall(it["time"])),
    Column("USER", lambda it: it["user"]),
    Column("SOURCE", lambda it: it["source"]),
    Column("METHOD", lambda it: it["method"]),
    Column("SUBJECT", lambda it: it["subject"]),
    Column("CODE", lambda it: it["reason"] or it["code"] or NO_END),
    Column("COUNT", lambda it: it["count"]),
    Column("OP", lambda it: it["operation"], wide=True),
    Column("COMMAND", lambda it: it["command"], wide=True),
    Column("REQUEST", lambda it: it["request_id"], wide=True),
)


@audit.command("list")
@command
async def list_lines(
    call: Call,
    last: Annotated[int, typer.Option("--last", help="So many lines, the latest.")] = 20,
    after: Annotated[
        int, typer.Option("--after", metavar="NUMBER", help="Instead, those past this number.")
    ] = 0,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Of this user alone.")] = "",
) -> None:
    """Show who changed what, or tried to, and what became of it.

    Of a call that is not over, or whose process was killed before it was, that is unknown."""
    from protos.gen.ops.access_pb2 import ListAuditRequest

    asked = ListAuditRequest(after=after, page_size=last, user=user, latest=not after)
    reply = await call.ask(_audit(call).List, asked)
    items: list[Document] = sorted(map(_line, reply.lines), key=lambda it: int(it["number"]))
    call.page.many(items, LINES, lambda it: str(it["number"]), none="nothing was changed yet")


@audit.command("verify")
@command
async def verify(
    call: Call,
    anchor: Annotated[
        str,
        typer.Option(metavar="NUMBER:CHAIN", help="What was told earlier; it has to hold still."),
    ] = "",
) -> int:
    """Check that the audit trail is whole.

    Exits 1 if a line was changed or left out. The anchor that is told holds all lines up to now:
    kept elsewhere and given as --anchor later, it shows that none of them was cut off, and that
    the trail was not written anew."""
    from protos.gen.ops.access_pb2 import VerifyAuditRequest

    number, chain = _anchored(anchor)
    asked = VerifyAuditRequest(number=number, chain=chain)
    reply = await call.ask(_audit(call).Verify, asked, seconds=30)
    newest = f"{reply.lines}:{reply.chain}"
    document = {
        "lines": reply.lines,
        "first": reply.first,
        "broken": reply.broken or None,
        "lost": reply.lost or None,
        "chain": reply.chain,
        "anchor": newest,
    }
    said = f"{reply.lines} lines, every one follows from the one before; anchor {newest}"
    if reply.first > 1:
        said = f"from line {reply.first} on, before which lines were removed: {said}"
    if reply.lost:
        said = f"line {reply.lost} is not there any more as it was"
    if reply.broken:
        said = f"line {reply.broken} does not follow from the one before"
    call.page.one(document, newest, lambda: said)
    return Code.FAILED if reply.broken or reply.lost else Code.OK


def _anchored(said: str) -> tuple[int, str]:
    """A number and a chain, as they were told."""
    number, _, chain = said.partition(":")
    if said and not (number.isdecimal() and len(number) < LONG and int(number) and chain):
        do = "give what windlass audit verify told, such as 7:0f3c…"
        raise Complaint(f"{said!r} is no anchor", Code.USAGE, do=do)
    return int(number or 0), chain


def _audit(call: Call) -> "access_pb2_grpc.AuditStub":
    from protos.gen.ops.access_pb2_grpc import AuditStub

    return AuditStub(call.channel)


def _line(said: "access_pb2.AuditLine") -> Document:
    return {
        "number": said.number,
        "time": said.time.ToJsonString(),
        "user": said.user,
        "source": said.source,
        "method": said.method,
        "subject": said.subject,
        "code": said.code,
        "reason": said.reason,
        "operation": said.operation,
        "request_id": said.request_id,
        "command": said.command,
        "count": said.count or 1,
    }
