"""What the door writes down of calls that change something, whatever became of them.

A line is written once the outcome is known and before the caller hears of it. Nothing of a request
is in it but the name of what it is about. Strangers write no lines, but by signing in, which they
are made to do slowly; else anybody could fill the disk."""

import asyncio
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from api.asking import notes, running
from api.sign_in import place
from domain.access import Permission
from domain.audit import Deed
from domain.errors import DomainError
from store.audit import Audit
from store.rows import now

log = structlog.get_logger()

SUBJECTS = ("name", "cluster", "cluster_name", "username", "user", "system_id", "machine", "id")
"""The fields by which requests name what they are about; others have a key."""
SUBJECT_LENGTH = 200

OF_STRANGERS = frozenset({grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED})
"""What becomes of signing in that is written down."""


class Trail:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._late: set[asyncio.Task[None]] = set()

    async def note(
        self, asked: Permission, peer: str, code: grpc.StatusCode, reason: str = ""
    ) -> None:
        """Write down what became of the call that runs. A line that cannot be written does not
        undo what was done: it goes to the log."""
        if not _is_written(asked, code):
            return
        call = running()
        deed = Deed(
            time=now(),
            user=call.session.principal.name,
            source=place(peer),
            method=call.method,
            subject=subject(notes().request),
            code=code.name,
            reason=reason,
            operation=notes().operation,
            request_id=call.request_id,
        )
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
            await self._audit.write(deed)
        except DomainError as error:
            log.error("not in the audit trail", error=error.message, **deed.model_dump(mode="json"))


def _is_written(asked: Permission, code: grpc.StatusCode) -> bool:
    if not asked.changes:
        return False
    if asked.roles is None:
        return code in OF_STRANGERS
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
