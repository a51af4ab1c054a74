"""The audit trail, read."""

from api.asking import Context
from api.errors import wrong
from api.ops.readings import named
from domain.audit import Anchor, Line
from protos.gen.ops import access_pb2 as pb
from protos.gen.ops.access_pb2_grpc import AuditServicer
from store import audit as store

USUAL_SIZE, MOST = 100, 1000


class Audit(AuditServicer):
    def __init__(self, audit: store.Audit) -> None:
        self._audit = audit

    async def List(self, request: pb.ListAuditRequest, context: Context) -> pb.ListAuditResponse:
        if request.after < 0 or request.page_size < 0:
            field = "after" if request.after < 0 else "page_size"
            raise wrong(field, "must not be negative")
        most = min(request.page_size or USUAL_SIZE, MOST)
        user = named("user", request.user) if request.user else ""
        lines = await self._audit.list(
            after=request.after, most=most, latest=request.latest, user=user
        )
        return pb.ListAuditResponse(lines=map(_line, lines))

    async def Verify(
        self, request: pb.VerifyAuditRequest, context: Context
    ) -> pb.VerifyAuditResponse:
        if request.number < 0 or (request.number == 0) != (not request.chain):
            raise wrong("number", "has to be that of a line, and come with its chain")
        seen = Anchor(number=request.number, chain=request.chain) if request.number else None
        return pb.VerifyAuditResponse(**(await self._audit.verify(seen)).model_dump())


def _line(line: Line) -> pb.AuditLine:
    deed = line.deed
    said = pb.AuditLine(
        number=line.number,
        user=deed.user,
        source=deed.source,
        method=deed.method,
        subject=deed.subject,
        code=deed.code,
        reason=deed.reason,
        operation=deed.operation,
        request_id=deed.request_id,
        command=deed.command,
        count=deed.count,
    )
    said.time.FromDatetime(deed.time)
    return said
