"""Lists, a page at a time: which operations are asked for, and where a page begins."""

import base64
import hashlib
from typing import NamedTuple

from api.errors import wrong
from api.ops import states
from domain.errors import Invalid, Violation
from domain.operation import OperationId, Stage
from protos.gen.ops import operations_pb2 as pb

PAGE = 50
PAGE_MOST = 500

_STAGES = {number: stage for stage, number in states.STAGES.items()}


class Filters(NamedTuple):
    """Which operations are asked for."""

    subject: str = ""
    kind: str = ""
    stages: tuple[Stage, ...] = ()

    def digest(self) -> bytes:
        """What a page token of these filters carries, so that it fits no others."""
        text = "\0".join((self.subject, self.kind, *sorted(self.stages)))
        return hashlib.sha256(text.encode()).digest()[:12]


def filters(request: pb.ListOperationsRequest) -> Filters:
    for field, text in (("subject", request.subject), ("kind", request.kind)):
        if not (text == "" or text.isprintable()):
            raise wrong(field, "must be printable")
    unknown = [number for number in request.stages if number not in _STAGES]
    if unknown:
        raise wrong("stages", f"{unknown[0]} is not a stage to ask for")
    stages = tuple(sorted({_STAGES[number] for number in request.stages}))
    return Filters(request.subject, request.kind, stages)


def page_size(asked: int) -> int:
    if asked < 0:
        raise wrong("page_size", f"{asked} is negative")
    return min(asked or PAGE, PAGE_MOST)


def page_token(last: OperationId, of: Filters) -> str:
    """Where the next page goes on. It says nothing to callers and is good for these filters."""
    return base64.urlsafe_b64encode(of.digest() + last.encode()).decode()


def page_start(token: str, of: Filters) -> OperationId | None:
    """Where a page begins: behind this operation. None: with the newest."""
    if not token:
        return None
    try:
        raw = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        digest, last = raw[: len(of.digest())], raw[len(of.digest()) :].decode("ascii")
    except ValueError as error:
        raise _strange_token() from error
    if digest != of.digest() or not last.isprintable():
        raise _strange_token()
    return OperationId(last)


def _strange_token() -> Invalid:
    return Invalid(
        "page_token: is not one that was given out for these filters",
        reason="PAGE_TOKEN_INVALID",
        do="list again from the first page, with the same filters on every page",
        violations=[Violation(field="page_token", description="is not one of ours")],
    )
