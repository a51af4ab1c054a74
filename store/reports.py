"""What resource managers say, and what it changes. All of it may be said twice, or too late."""

import json

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.awaiting import word
from domain.cloudlet_info import CloudletInfo, Speaker, is_heeded
from domain.health_errors import is_of_health, refreshed
from domain.operation import OperationId, Stage
from domain.record import Noun, Record
from domain.standing import Report
from domain.tracking import ERRORS, Phase, hear, hear_gone
from store import changes, operations, settling, shelf, tracked
from store.edge_rows import AppInstRow, CloudletRefsRow, ClusterInstRow
from store.rows import RecordRow
from store.tracked import AnyRow

WORDS: dict[Noun, Noun] = {
    Noun.CLUSTER_INST: Noun.CLUSTER_INST_INFO,
    Noun.APP_INST: Noun.APP_INST_INFO,
}
"""Where the words themselves are kept, for those who want to see them."""


async def heard(
    session: AsyncSession,
    noun: Noun,
    report: Report,
    info: Record | None,
    speaker: Speaker | None,
) -> OperationId | None:
    if not await _heeds(session, speaker):
        return None
    if info is not None:
        await shelf.keep(session, info)
    if noun is Noun.CLUSTER_INST and report.phase in ERRORS:
        await _hold_cloudlet(session, report.key)
    row = await tracked.held(session, noun, report.key)
    if row is None:
        return None
    before = Phase(row.phase)
    if before is report.phase is Phase.READY:
        await _refresh(session, row, report)
        return None
    after = before if is_of_health(report.errors) else hear(before, report.phase)
    if after is before:
        return None
    if after in ERRORS or isinstance(row, ClusterInstRow):
        row.errors = json.dumps(report.errors if after in ERRORS else ())
    if isinstance(row, AppInstRow):
        row.runtime = json.dumps(report.runtime)
    await tracked.move(session, row, after)
    waiting = await _told(session, row, after)
    if waiting is None and isinstance(row, ClusterInstRow) and after is Phase.UPDATE_ERROR:
        await settling.roll_back(session, row)
    return waiting


async def forgotten(
    session: AsyncSession, noun: Noun, key: str, speaker: Speaker | None
) -> OperationId | None:
    if not await _heeds(session, speaker):
        return None
    await shelf.remove(session, WORDS[noun], key)
    row = await tracked.held(session, noun, key)
    if row is None or hear_gone(Phase(row.phase)) is not Phase.NOT_PRESENT:
        return None
    await tracked.drop(session, row)
    return await _told(session, row, Phase.NOT_PRESENT)


async def _heeds(session: AsyncSession, speaker: Speaker | None) -> bool:
    """Whether somebody is listened to, by what stands in the row when the word is written: by then
    another process may have been told more. Nobody describes the cloudlet anew meanwhile."""
    if speaker is None:
        return True
    facts = await session.scalar(
        select(RecordRow.facts)
        .where(RecordRow.noun == Noun.CLOUDLET_INFO, RecordRow.key == speaker.cloudlet)
        .with_for_update(read=True)
    )
    return is_heeded(speaker, CloudletInfo.model_validate_json(facts) if facts else None)


async def _told(session: AsyncSession, row: AnyRow, phase: Phase) -> OperationId | None:
    """Tell those who follow of an instance's new phase, and end the operation if that is all it
    wanted. Which one's workflow waits for it, if one does: what ends before its workflow has taken
    it up is found ended."""
    operation = await operations.held(session, row.operation)
    if operation is None or operation.ended is not None:
        return None
    await tracked.tell(session, row.operation, word(phase))
    untaken = operation.stage == Stage.REQUESTED
    if phase is Phase.READY and await settling.finish(session, operation, row) and untaken:
        return None
    return OperationId(row.operation)


async def _refresh(session: AsyncSession, row: AnyRow, report: Report) -> None:
    """Take in what has become of an instance that is READY: how it is, and where it runs."""
    noun = Noun.CLUSTER_INST if isinstance(row, ClusterInstRow) else Noun.APP_INST
    errors, runtime = row.errors, json.dumps(report.runtime)
    if is_of_health(report.errors):
        row.errors = json.dumps(refreshed(tracked.errors_of(row), report.errors))
    changed = row.errors != errors
    if isinstance(row, AppInstRow) and runtime != row.runtime:
        row.runtime, changed = runtime, True
    if changed:
        await changes.note(session, noun, [row.key])


async def _hold_cloudlet(session: AsyncSession, key: str) -> None:
    """An error may lead to a cluster's being what it was before, and so to what it took then."""
    row = await session.get(ClusterInstRow, key)
    if row is not None:
        await session.get(CloudletRefsRow, row.cloudlet, with_for_update=True)
