"""Answers: what a caller's request id led to, so that a repeat leads there again."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Invalid
from domain.operation import Ask
from store.rows import AnswerRow, OperationRow, now


async def answered(session: AsyncSession, ask: Ask) -> OperationRow | None:
    """The operation that this very request led to before, if it is a repeat."""
    answer = await _found(session, ask)
    return await session.get(OperationRow, answer.operation) if answer else None


async def is_repeat(session: AsyncSession, ask: Ask) -> bool:
    """Whether this very request was carried out before, by the transaction that took it."""
    return await _found(session, ask) is not None


def remember(session: AsyncSession, ask: Ask, operation: str = "") -> None:
    """Keep which operation the caller's request id led to. Empty: to none, for all was done when
    it was answered."""
    if ask.key:
        session.add(
            AnswerRow(
                tenant=ask.tenant,
                caller=ask.caller,
                method=ask.method,
                key=ask.key,
                digest=ask.digest,
                operation=operation,
                created=now(),
            )
        )


async def _found(session: AsyncSession, ask: Ask) -> AnswerRow | None:
    if not ask.key:
        return None
    answer = await session.get(AnswerRow, (ask.tenant, ask.caller, ask.method, ask.key))
    if answer is not None and answer.digest != ask.digest:
        raise Invalid(
            f"request id {ask.key} was used before with another request",
            subject=ask.key,
            reason="REQUEST_ID_REUSED",
            do="give every new request an id of its own; repeat one only with the same content",
        )
    return answer
