"""What the door writes down of calls that change something or read a secret, whatever came of it.

A line is written before anything is changed, and without it nothing is. Another is written once the
outcome is known and before the caller hears of it, so only of a call whose process was killed, or
that goes on, there is no more than the first. What is refused before it could do anything has the
second alone, and so have signing in and out: a token that nobody was told is good for nothing, and
one that has ended is missed by nobody. A secret is given out once its line is written.

Nothing of a request is in it but the name of what it is about, as `api/access.py` says for each
method, and the command that it has run. Strangers write no lines, but by guessing, which they are
made to do slowly, and when they are first made to wait; else anybody could fill the disk. For the
same reason a token has one line for its end, however often it is given back. Refusals that repeat
within a minute, and secrets read again within an hour, are counted: see `api/audit_folds.py`."""

import asyncio
import shlex
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message

from api.asking import notes, running
from api.audit_folds import Folds
from api.origin import Called, Origins
from domain.access import BY_HANDLER, Permission
from domain.audit import Deed
from domain.errors import DomainError
from store.audit import Audit
from store.rows import now

log = structlog.get_logger()

SUBJECT_LENGTH = 200
COMMAND_LENGTH = 1000
REFUSALS_SECONDS, DISCLOSURES_SECONDS = 60.0, 3600.0
"""How long refusals, and readings of one secret, are counted before their number is written."""


class Trail:
    def __init__(self, audit: Audit, origins: Origins) -> None:
        self._audit = audit
        self._origins = origins
        self._late: set[asyncio.Task[None]] = set()
        self._folds = Folds(self._append)

    async def begin(self, asked: Permission, line: Called) -> None:
        """Write down that the call that runs is about to change something, once."""
        if asked.changes and asked.roles is not None and notes().began is None:
            deed = _deed(asked, self._origins.place(line))
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
        deed: Deed | None = _deed(asked, self._origins.place(line)).model_copy(update=end)
        if deed and asked.roles is not None and notes().began is None:
            deed = self._folds.take(deed, REFUSALS_SECONDS)
        if deed is None:
            return
        writing = asyncio.create_task(self._write(deed))
        self._late.add(writing)
        writing.add_done_callback(self._late.discard)
        if code is not grpc.StatusCode.CANCELLED:  # else nobody may wait here
            await asyncio.shield(writing)

    async def disclose(self, asked: Permission, line: Called) -> None:
        """Write down that the call that runs is about to be answered with a secret."""
        deed = _deed(asked, self._origins.place(line))
        deed = deed.model_copy(update={"code": grpc.StatusCode.OK.name})
        if first := self._folds.take(deed, DISCLOSURES_SECONDS):
            await self._audit.write(first)

    async def close(self) -> None:
        """Write what was counted, and wait for what is still being written."""
        await self._folds.close()
        await asyncio.gather(*self._late)

    async def _write(self, deed: Deed) -> None:
        """Write the end of the call that runs."""
        if beginning := notes().began:
            try:
                deed = deed.model_copy(update={"began": await beginning})
            except DomainError as error:
                _lost(deed, error)
                return
        await self._append(deed)

    async def _append(self, deed: Deed) -> None:
        try:
            await self._audit.write(deed)
        except DomainError as error:
            _lost(deed, error)


def _lost(deed: Deed, error: DomainError) -> None:
    log.error("not in the audit trail", error=error.message, **deed.model_dump(mode="json"))


def _deed(asked: Permission, source: str) -> Deed:
    call = running()
    named = notes().subject or subject(asked, notes().request)
    return Deed(
        time=now(),
        user=notes().user or call.session.principal.name,
        source=source,
        method=call.method,
        subject=named or (call.session.principal.name if asked.own else ""),
        command=_command(asked, notes().request),
        request_id=call.request_id,
    )


def _is_written(asked: Permission, code: grpc.StatusCode) -> bool:
    if asked.roles is None:
        return asked.changes and notes().is_told
    if notes().began is not None:
        return True
    if not asked.changes and code is grpc.StatusCode.OK:
        return False  # `disclose` has written it
    return code is not grpc.StatusCode.UNAUTHENTICATED and notes().is_let_in


def subject(asked: Permission, request: Message | None) -> str:
    """What a request is about, as far as it says so."""
    if request is None or asked.subject in ("", BY_HANDLER):
        return ""
    return _text(request, asked.subject)[:SUBJECT_LENGTH]


def _command(asked: Permission, request: Message | None) -> str:
    if request is None or not asked.command:
        return ""
    value = getattr(request, asked.command)
    return (value if isinstance(value, str) else shlex.join(value))[:COMMAND_LENGTH]


def _text(request: Message, field: str) -> str:
    """What a field says: a text, all texts of a message, or of a list."""
    value = getattr(request, field)
    described = request.DESCRIPTOR.fields_by_name[field]
    if described.is_repeated:
        return ",".join(map(str, value))
    return "/".join(_leaves(value)) if described.message_type is not None else str(value)


def _leaves(message: Any) -> list[str]:
    found: list[str] = []
    for field, value in message.ListFields():
        if field.message_type is not None and not field.is_repeated:
            found += _leaves(value)
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            found.append(value)
    return found
