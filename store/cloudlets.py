"""Cloudlets on the shelf, with what is theirs alone: instances are on them."""

from collections.abc import Callable

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.appinst import AppInst, relocated
from domain.awaiting import Aim
from domain.cloudlet import Cloudlet, check_addresses
from domain.instance_plan import InstancePlan
from domain.operation import Ask
from domain.record import USES, Noun, Record
from domain.refusal import Refusal, refuse_if
from store import answers, changes, operations, shelf, tracked
from store.edge_rows import AppInstRow, CloudletRefsRow
from store.engine import Store, transaction
from store.tracked import Requested


class Cloudlets(Store):
    @transaction
    async def change(
        self, session: AsyncSession, key: str, changed: Callable[[bytes], Record], ask: Ask
    ) -> None:
        """Put in a cloudlet's place what `changed` makes of it, if its instances have room there.
        They are where it is now."""
        if await answers.is_repeat(session, ask):
            return
        before = await shelf.held(session, Noun.CLOUDLET, key)
        record = changed(before.value)
        cloudlet = Cloudlet.model_validate_json(record.facts)
        refs = await session.get(CloudletRefsRow, key, with_for_update=True)
        check_addresses(cloudlet, refs.addresses if refs else 0)
        await shelf.replace(session, before, record)
        await _relocate(session, key, cloudlet)
        answers.remember(session, ask)

    @transaction
    async def request_delete(self, session: AsyncSession, key: str, ask: Ask) -> Requested | None:
        """Take a cloudlet away; if something is on it that was made for others and gives way, by an
        operation that has it deleted first. None: it is done."""
        if await answers.is_repeat(session, ask):
            earlier = await answers.answered(session, ask)
            return Requested(operation=operations.as_operation(earlier)) if earlier else None
        there = await shelf.lock_for_good(session, Noun.CLOUDLET, key)
        for use in USES[Noun.CLOUDLET]:
            refuse_if(await shelf.is_named(session, use.by, Noun.CLOUDLET, key), use.refusal)
        refuse_if(not there, Refusal.KEY_UNKNOWN)
        if running := await tracked.active(session, Noun.CLOUDLET, key):
            answers.remember(session, ask, running.id)
            return Requested(operation=operations.as_operation(running))
        if not await _is_inhabited(session, key):
            await _take_away(session, key)
            answers.remember(session, ask)
            return None
        plan = InstancePlan(noun=Noun.CLOUDLET, aim=Aim.DELETE, key=key, cloudlet=key)
        operation = tracked.record(session, plan, ask)
        return Requested(operation=operations.as_operation(operation))


async def remove(session: AsyncSession, key: str) -> None:
    """Take a cloudlet away if nothing is on it any more. There being none is success."""
    await shelf.lock_for_good(session, Noun.CLOUDLET, key)
    for noun, row in tracked.ROWS.items():
        left = await session.scalar(select(row.key).where(row.cloudlet == key).limit(1))
        refuse_if(left is not None, _LEFT[noun])
    await _take_away(session, key)


_LEFT = {use.by: use.refusal for use in USES[Noun.CLOUDLET]}


async def _take_away(session: AsyncSession, key: str) -> None:
    await shelf.remove(session, Noun.CLOUDLET, key)
    await session.execute(delete(CloudletRefsRow).where(CloudletRefsRow.cloudlet == key))
    await changes.note(session, Noun.CLOUDLET_REFS, [key])


async def _is_inhabited(session: AsyncSession, key: str) -> bool:
    for row in tracked.ROWS.values():
        if await session.scalar(select(row.key).where(row.cloudlet == key).limit(1)):
            return True
    return False


async def _relocate(session: AsyncSession, key: str, cloudlet: Cloudlet) -> None:
    """Say on every instance of a cloudlet where that is. How high it is and the rest stay what they
    were, as clients know it."""
    rows = await session.scalars(
        select(AppInstRow)
        .where(AppInstRow.cloudlet == key)
        .order_by(AppInstRow.key)
        .with_for_update()
    )
    for row in rows:
        before = AppInst.model_validate_json(row.facts)
        after = relocated(before, cloudlet)
        if after != before:
            row.facts = after.model_dump_json()
            await changes.note(session, Noun.APP_INST, [row.key])
