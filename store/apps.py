"""Apps on the shelf, with the rule that is theirs alone: an Android package is of one app."""

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from domain.app import App, Claim
from domain.appinst import check_app_change
from domain.operation import Ask
from domain.record import Need, Noun, Record
from domain.refusal import Refusal, refuse_if
from store import answers, quotas, shelf
from store.engine import Database, Store, reading, transaction
from store.quotas import UNLIMITED, Quota
from store.rows import LinkRow, RecordRow


class Apps(Store):
    def __init__(
        self,
        database: Database,
        *,
        strict: bool = False,
        changes_in_use: bool = False,
        quota: Quota = UNLIMITED,
    ) -> None:
        """`quota` is what one developer may keep."""
        super().__init__(database)
        self._quota = quota
        self._strict = strict
        self._changes_in_use = changes_in_use

    @transaction
    async def create(
        self,
        session: AsyncSession,
        record: Record,
        claim: Claim | None,
        needs: Sequence[Need],
        ask: Ask,
    ) -> None:
        """A new app. Its package is looked at first, then what it needs, then its key."""
        if await answers.is_repeat(session, ask):
            return
        await _take(session, claim)
        await shelf.add(session, record, needs, strict=self._strict)
        await quotas.refuse_excess(session, self._quota, record)
        answers.remember(session, ask)

    @transaction
    async def replace(
        self,
        session: AsyncSession,
        before: Record,
        record: Record,
        claim: Claim | None,
        needs: Sequence[Need],
        ask: Ask,
    ) -> bool:
        """Put an app in the place of what it was, if it still is that. If not, whoever asks has to
        look at it again."""
        if await answers.is_repeat(session, ask):
            return True
        await _take(session, claim)
        there = await shelf.hold_named(session, [*before.links, *record.links])
        await shelf.lock_for_good(session, record.noun, record.key)  # no instance is made meanwhile
        held = await shelf.held(session, record.noun, record.key)
        if held.value != before.value:
            return False
        shelf.refuse_lacking(needs, there)
        if not self._changes_in_use:
            await _refuse_in_use(session, before, record)
        await shelf.replace(session, held, record)
        await quotas.refuse_excess(session, self._quota, record, before)
        await _let_yield(session, record)
        answers.remember(session, ask)
        return True

    @reading
    async def refuse_conflict(self, session: AsyncSession, claim: Claim | None) -> None:
        """Refuse a package that is another's now. Whoever takes it is asked again."""
        await _refuse_conflict(session, claim)


async def _refuse_in_use(session: AsyncSession, before: Record, record: Record) -> None:
    """Refuse to change what instances were made of, while there are any."""
    if await shelf.is_named(session, Noun.APP_INST, Noun.APP, record.key):
        was, is_to_be = App.model_validate_json(before.facts), App.model_validate_json(record.facts)
        check_app_change(was, is_to_be)


async def _let_yield(session: AsyncSession, record: Record) -> None:
    """Have what runs of an app give way to its cloudlet as the app does now."""
    yields = App.model_validate_json(record.facts).auto_delete
    naming = aliased(LinkRow)
    of_it = select(naming.key).where(
        naming.target_noun == Noun.APP,
        naming.target_key == record.key,
        naming.noun == Noun.APP_INST,
    )
    await session.execute(
        update(LinkRow)
        .where(
            LinkRow.noun == Noun.APP_INST,
            LinkRow.key.in_(of_it),
            LinkRow.target_noun == Noun.CLOUDLET,
            LinkRow.yields.is_not(yields),
        )
        .values(yields=yields)
        .execution_options(synchronize_session=False)
    )


async def _take(session: AsyncSession, claim: Claim | None) -> None:
    if claim is not None:
        await shelf.alone(session, f"{claim.link.to} {claim.link.key}")
        await _refuse_conflict(session, claim)


async def _refuse_conflict(session: AsyncSession, claim: Claim | None) -> None:
    if claim is None:
        return
    sharing = await session.scalar(
        select(RecordRow.facts)
        .join(LinkRow, (LinkRow.noun == RecordRow.noun) & (LinkRow.key == RecordRow.key))
        .where(LinkRow.target_noun == claim.link.to, LinkRow.target_key == claim.link.key)
        .limit(1)  # all who share it have one owner
    )
    others = sharing is not None and App.model_validate_json(sharing).owner != claim.owner
    refuse_if(others, Refusal.APP_ANDROID, name=claim.package)
