"""What the door writes down of calls that change something, whatever became of them.

A line is written before anything is done, and without it nothing is. Another is written once the
outcome is known and before the caller hears of it, so only of a call whose process was killed, or
that goes on, there is no more than the first. What is refused before it could do anything has the
second alone, and so have signing in and out: a token that nobody was told is good for nothing, and
one that has ended is missed by nobody.

Nothing of a request is in it but the name of what it is about. Strangers write no lines, but by
guessing, which they are made to do slowly, and when they are first made to wait; else anybody could
fill the disk. For the same reason a token has one line for its end, however often it is given
back."""

import asyncio
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from api.asking import notes, running
from api.origin import Called, Origins
from domain.access import Permission
from domain.audit import Deed
from domain.errors import DomainError
from store.audit import Audit
from store.rows import now

log = structlog.get_logger()

SUBJECTS = ("name", "cluster", "cluster_name", "username", "user", "system_id", "machine", "id")
"""The fields by which requests name what they are about; others have a key."""
SUBJECT_LENGTH = 200


class Trail:
    def __init__(self, audit: Audit, origins: Origins) -> None:
        self._audit = audit
        self._origins = origins
        self._late: set[asyncio.Task[None]] = set()

    async def begin(self, asked: Permission, line: Called) -> None:
        """Write down that the call that runs is about to change something, once."""
        if asked.changes and asked.roles is not None and notes().began is None:
            deed = _deed(self._origins.place(line))
            writing = notes().began = asyncio.create_task(self._audit.write(deed))
            await asyncio.shield(writing)

    async def note(
        self, asked: Permission, line: Called, code: grpc.StatusCode, reason: str = ""
    ) -> None:
        """Write down what became of the call that runs. A line that cannot be written does not
        undo what was done: it goes to the log."""
        if not _is_written(asked, code):
            return
        end = {"code": code.name, "reason": reason, "operation": notes().operation}
        deed = _deed(self._origins.place(line)).model_copy(update=end)
        writing = asyncio.create_task(self._write(deed))
        self._late.add(writing)
        writing.add_done_callback(self._late.discard)
        if code is not grpc.StatusCode.CANCELLED:  # else nobody may wait here
            await asyncio.shield(writing)

    async def close(self) -> None:
        """Wait for what is still being written."""
        await asyncio.gather(*self._late)

    async def _write(self, deed: Deed) -> None:
        try:
            if beginning := notes().began:
                deed = deed.model_copy(update={"began": await beginning})
            await self._audit.write(deed)
        except DomainError as error:
            log.error("not in the audit trail", error=error.message, **deed.model_dump(mode="json"))


def _deed(source: str) -> Deed:
    call = running()
    return Deed(
        time=now(),
        user=notes().user or call.session.principal.name,
        source=source,
        method=call.method,
        subject=notes().subject or subject(notes().request),
        request_id=call.request_id,
    )


def _is_written(asked: Permission, code: grpc.StatusCode) -> bool:
    if not asked.changes:
        return False
    if asked.roles is None:
        return notes().is_told
    if notes().began is not None:
        return True
    return code is not grpc.StatusCode.UNAUTHENTICATED and notes().is_let_in


def subject(request: Message | None) -> str:
    """What a request is about, as far as it says so by a name or a key."""
    if request is None:
        return ""
    fields = request.DESCRIPTOR.fields_by_name
    for name in SUBJECTS:
        if name in fields and fields[name].type == fields[name].TYPE_STRING:
            return str(getattr(request, name))[:SUBJECT_LENGTH]
    if "key" in fields and fields["key"].message_type is not None:
        return "/".join(_leaves(request.key))[:SUBJECT_LENGTH]  # type: ignore[attr-defined]
    return ""


def _leaves(message: Any) -> list[str]:
    found: list[str] = []
    for field, value in message.ListFields():
        if field.message_type is not None and not field.is_repeated:
            found += _leaves(value)
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            found.append(value)
    return found
