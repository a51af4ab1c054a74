"""The rows of steps, as a whole operation has to do with them; the hands write their own."""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.operation import Step, StepKey, StepState
from domain.outline import HEARD, USUALLY
from store.rows import OperationRow, StepRow, now

LEARN_FROM = 50
"""Runs, the latest of each kind of step, from which its usual duration is learnt."""


async def usually(session: AsyncSession) -> dict[str, float]:
    """The median of the latest durations, by verb.

    Each is asked for by itself, so that what is done often crowds out nothing that is done
    seldom, and so that no more is read than is learnt from, however long the table."""
    learnt = {}
    for verb in USUALLY:
        latest = (
            select(StepRow.seconds)
            .where(StepRow.verb == verb, StepRow.state == StepState.DONE)
            .order_by(StepRow.ended.desc())
            .limit(LEARN_FROM)
        )
        if taken := sorted(seconds or 0.0 for seconds in await session.scalars(latest)):
            learnt[verb] = taken[len(taken) // 2]
    return learnt


async def begun(session: AsyncSession, operation: str, verb: str = "") -> bool:
    """Whether any step of an operation has begun, or any of that verb."""
    steps = select(StepRow.key).where(StepRow.operation == operation)
    first = (steps.where(StepRow.verb == verb) if verb else steps).limit(1)
    return await session.scalar(first) is not None


async def heard(session: AsyncSession, operation: OperationRow) -> bool:
    """Whether the cluster's API has answered any step of an operation."""
    query = select(StepRow.key).where(
        StepRow.operation == operation.id, StepRow.verb.in_(HEARD), StepRow.seconds.is_not(None)
    )
    return await session.scalar(query.limit(1)) is not None


async def close(session: AsyncSession, operation: str) -> None:
    """What was begun and never reported ended with the operation."""
    await session.execute(
        update(StepRow)
        .where(StepRow.operation == operation, StepRow.state == StepState.ACTIVE)
        .values(state=StepState.STUMBLED, note="not heard of again", ended=now())
    )


def as_step(row: StepRow) -> Step:
    return Step(
        key=StepKey.parse(row.key),
        state=StepState(row.state),
        started=row.started,
        ended=row.ended,
        attempts=row.attempts,
        note=row.note,
        done=row.seconds is not None,
    )
