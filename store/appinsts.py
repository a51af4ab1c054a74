"""Apps on cloudlets: asked for, given up, and what resource managers say of them.

A request is one transaction, as for clusters. Into a cluster that has to be made first it writes
that and the operation, which holds the instance's key; the instance itself follows in a transaction
of its own, once the cluster is ready (`place`)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain import appinst, awaiting
from domain.app import App
from domain.appinst import AppInst, AppInstKey
from domain.awaiting import Aim
from domain.cloudlet_info import Speaker
from domain.clusterinst import drafted
from domain.errors import DomainError
from domain.key_text import cloudlet_text, name_text
from domain.operation import Ask, Kind, OperationId
from domain.override import Override
from domain.record import Noun, Record
from domain.refusal import Refusal, refuse_if
from domain.standing import AppInstStanding, Report
from domain.tracking import APP_MOVES, Move, Phase, led
from store import (
    answers,
    cloudlet_refs,
    clusterinsts,
    operations,
    quotas,
    reports,
    settling,
    siting,
    tracked,
)
from store.edge_rows import AppInstRow
from store.engine import Database, Store, reading, transaction
from store.rows import OperationRow
from store.tracked import Requested, Terms, Turns


class Noted(NamedTuple):
    """What there is to show of an instance, not read yet. A hundred thousand may be shown, and most
    are what they were when they were shown last. Others look at its key, and whether it is the same
    as before; what it means they learn by `standing`."""

    key: str
    facts: str
    phase: str
    errors: str
    runtime: str
    created: datetime

    def standing(self) -> AppInstStanding:
        return AppInstStanding(
            key=self.key,
            instance=AppInst.model_validate_json(self.facts),
            phase=Phase(self.phase),
            errors=tracked.texts(self.errors),
            runtime=tracked.texts(self.runtime),
            created=self.created,
        )


STANDING = tuple(getattr(AppInstRow, name) for name in Noted._fields)


class AppInsts(Store):
    def __init__(self, database: Database, terms: Terms) -> None:
        super().__init__(database)
        self._terms = terms
        self._turns = Turns()

    async def request_create(self, wanted: AppInst, override: Override, ask: Ask) -> Requested:
        """A new instance, or one whose delete failed, as it is stored; in a cluster that is there,
        or in one that is made for it. Taken at once if nobody is waited for."""
        async with self._turns.of(wanted.key.cluster.cloudlet):
            return await self._accept(wanted, override, ask)

    @transaction
    async def _accept(
        self, session: AsyncSession, wanted: AppInst, override: Override, ask: Ask
    ) -> Requested:
        if earlier := await answers.answered(session, ask):
            return Requested(operation=operations.as_operation(earlier))
        await quotas.refuse_more_running(session, Kind.CREATE_APPINST, ask)
        await tracked.refuse_unready(session, wanted.key.cluster.cloudlet, override)
        appinst.check_names(wanted.key)
        key = appinst.keyed(wanted.key)
        told = [awaiting.INHERITED] if key.cluster.developer != wanted.key.cluster.developer else []
        wanted = wanted.model_copy(update={"key": key})
        try:
            return await self._create(session, wanted, override, ask, told)
        except DomainError as error:
            raise error.after(told) from None

    async def _create(
        self,
        session: AsyncSession,
        wanted: AppInst,
        override: Override,
        ask: Ask,
        told: list[str],
    ) -> Requested:
        app, cloudlet = await siting.named(session, wanted.key)
        refs = await siting.refs_of(session, wanted.key)
        row, running = await siting.found(session, wanted.key)
        siting.refuse_if_taken(row, running, override)
        named, cluster = wanted.key, await siting.cluster_of(session, wanted.key)
        if cluster is None and not wanted.key.cluster.developer:
            wanted, cluster = await siting.inherited(session, wanted, told)
        spot = siting.Spot(app, cloudlet, refs, row, cluster)
        appinst.check_found(wanted.key, spot.ground, override)
        asked = siting.Asking(wanted=wanted, override=override, ask=ask)
        if app is not None and cluster is None and siting.needs_cluster(wanted.key, app):
            return await self._create_with_cluster(session, asked, app, running, told)
        appinst.check_uri(wanted)
        if wanted.key != named:
            row, running = await siting.found(session, wanted.key)
            siting.refuse_if_taken(row, running, override)
            spot = spot._replace(row=row)
        return await self._place_now(session, asked, spot, running, told)

    async def _create_with_cluster(
        self,
        session: AsyncSession,
        asked: siting.Asking,
        app: App,
        running: OperationRow | None,
        told: list[str],
    ) -> Requested:
        """Accept an instance, and begin with its cluster."""
        wanted = asked.wanted
        appinst.check_uri(wanted)
        superseded = await tracked.supersede(session, running)
        plan = siting.plan_of(wanted, Aim.CREATE, asked.override)
        plan = plan.model_copy(update={"wanted": wanted})
        operation = tracked.record(session, plan, asked.ask, supersedes=superseded)
        await session.flush()
        await tracked.tell(session, operation.id, *told)
        made = await clusterinsts.create(
            session,
            drafted(siting.auto_cluster(wanted, app)),
            asked.override,
            tracked.part_of(operation),
            self._terms,
            parent=operation.id,
        )
        plan = plan.model_copy(update={"nested": made.operation.id})
        operation.plan = plan.model_dump_json()
        developer = name_text(wanted.key.developer)
        await quotas.refuse_more(session, self._terms.quota, [developer], later=1)
        return Requested(operation=operations.as_operation(operation), superseded=superseded)

    async def _place_now(
        self,
        session: AsyncSession,
        asked: siting.Asking,
        spot: siting.Spot,
        running: OperationRow | None,
        told: list[str],
    ) -> Requested:
        """Accept an instance whose cluster is there."""
        placed = await siting.placed_now(session, asked, spot, self._terms)
        superseded = await tracked.supersede(session, running)
        plan = siting.plan_of(asked.wanted, Aim.CREATE, asked.override)
        operation = tracked.record(session, plan, asked.ask, supersedes=superseded)
        await session.flush()
        await tracked.tell(session, operation.id, *told)
        await siting.write(session, asked, spot, placed, operation, self._terms)
        return Requested(operation=operations.as_operation(operation), superseded=superseded)

    @transaction
    async def request_delete(
        self, session: AsyncSession, key: AppInstKey, override: Override, ask: Ask
    ) -> Requested:
        """Give an instance up. Its ports are free at once."""
        if earlier := await answers.answered(session, ask):
            return Requested(operation=operations.as_operation(earlier))
        await tracked.refuse_unready(session, key.cluster.cloudlet, override)
        return await delete(session, key, override, ask, self._terms)

    @transaction
    async def observe(
        self,
        session: AsyncSession,
        report: Report,
        info: Record | None = None,
        speaker: Speaker | None = None,
    ) -> OperationId | None:
        """Take in what a resource manager says of an instance, by `domain.tracking.hear`, and keep
        `info`, its own words, for those who show them. A word out of turn changes nothing else,
        but for READY while READY, which renews the runtime. Returns the operation whose workflow
        is to be nudged, if one waits. Safe to repeat.

        A `speaker` is not listened to who does not speak for the cloudlet any more."""
        return await reports.heard(session, Noun.APP_INST, report, info, speaker)

    @transaction
    async def forget(
        self, session: AsyncSession, key: str, speaker: Speaker | None = None
    ) -> OperationId | None:
        """Take in that a resource manager has nothing to say of an instance any more: while it is
        being deleted, that it is gone. As `observe`."""
        return await reports.forgotten(session, Noun.APP_INST, key, speaker)

    @reading
    async def get(self, session: AsyncSession, key: str) -> Noted | None:
        row = (await session.execute(select(*STANDING).where(AppInstRow.key == key))).one_or_none()
        return None if row is None else Noted._make(row)

    @reading
    async def several(self, session: AsyncSession, keys: Sequence[str]) -> Sequence[Noted]:
        """Those that there are of some."""
        rows = await session.execute(select(*STANDING).where(AppInstRow.key.in_(keys)))
        return list(map(Noted._make, rows))

    @reading
    async def page(
        self, session: AsyncSession, after: str, most: int, cloudlet: str = ""
    ) -> Sequence[Noted]:
        """Instances in the order of their keys, past one of them; of one cloudlet, if its key is
        said."""
        query = select(*STANDING).where(AppInstRow.key > after)
        if cloudlet:
            query = query.where(AppInstRow.cloudlet == cloudlet)
        rows = await session.execute(query.order_by(AppInstRow.key).limit(most))
        return list(map(Noted._make, rows))


async def delete(
    session: AsyncSession,
    key: AppInstKey,
    override: Override,
    ask: Ask,
    terms: Terms,
    *,
    parent: str = "",
) -> Requested:
    """The transaction's part of a delete."""
    given, key = key, appinst.keyed(key)
    cloudlet = key.cluster.cloudlet
    place = await tracked.facts(session, Noun.CLOUDLET, cloudlet_text(cloudlet))
    refuse_if(place is None and not cloudlet.is_default, Refusal.CLOUDLET_UNKNOWN)
    refs = await siting.refs_of(session, key)
    row, running = await siting.found(session, key)
    if row is None:
        hints = [] if given.cluster.developer else [awaiting.WHOSE_CLUSTER]
        raise Refusal.KEY_UNKNOWN().after(hints)
    appinst.check_delete(Phase(row.phase), override)
    refuse_if(running is not None and not override.displaces, Refusal.APPINST_BUSY)
    superseded = await tracked.supersede(session, running)
    instance = AppInst.model_validate_json(row.facts)
    plan = siting.plan_of(instance, Aim.DELETE, override)
    operation = tracked.record(session, plan, ask, supersedes=superseded, parent=parent)
    if refs is not None:
        await cloudlet_refs.give_back(session, refs, row)
    await tracked.claim(session, row, operation, terms, Aim.DELETE)
    if override.ignores_crm or cloudlet.is_default:
        await settling.remove(session, row)
        await session.flush()
        if not await settling.leaves_cluster(session, plan):  # its workflow tells of both
            await settling.settle(session, operation, plan, None)
    else:
        asked = led(APP_MOVES, Phase(row.phase), Move.DELETE, override=override)
        await tracked.move(session, row, asked)
    return Requested(operation=operations.as_operation(operation), superseded=superseded)
