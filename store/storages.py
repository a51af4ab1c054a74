"""Changes of a Ceph cluster for its own sake: accepted, or refused with what is in the way.

What is asked for is judged by the last look at the cluster, and once more by a fresh one before
anything is touched."""

from collections.abc import Sequence
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.ceph_releases import newest, refuse_unknown
from domain.cluster import Phase
from domain.errors import AlreadyExists, Conflict, NotFound
from domain.operation import ACTIVE, Ask, Kind, Operation, OperationId, Stage
from domain.outline import keys, outline
from domain.share import OWNER, PoolTerms, Share, shared
from domain.storage import Pool, Source
from domain.storage_gates import refuse, refuse_upgrade
from domain.storage_look import Seen
from domain.storage_plan import (
    Marking,
    OsdMark,
    StoragePlan,
    Target,
    ids,
    pool_name,
    pool_subject,
    refuse_unconfirmed,
    subject,
)
from domain.wishes import refuse_wishes
from store import answers, observations, operations, quotas, recording, rehearsal, steps
from store.engine import Store, reading, transaction
from store.rows import ClusterRow, OperationRow, now

SCHEDULE = "ceph-version-check"
"""Who asks for upgrades that nobody asks for."""


class Owned(Pool):
    """A pool, and whose it is."""

    owner: str = ""
    """The uid in its mark. Empty: it is not ours."""
    stranger: str = ""
    """A uid in a mark like ours that we never gave out: another Windlass did."""
    owned_by: str = ""
    """The cluster of ours that uses it."""


class Storages(Store):
    @transaction
    async def request_marks(
        self, session: AsyncSession, cluster: str, osds: tuple[int, ...], ask: Ask, *, inside: bool
    ) -> Operation | None:
        """Have OSDs taken out, or in. None if all of them are."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        seen = await observations.newest(session, cluster)
        marks = tuple(OsdMark(id=each, inside=inside) for each in ids(osds))
        there = {osd.id: osd.inside for osd in seen.look.observation.osds.all}
        todo = tuple(mark for mark in marks if there.get(mark.id) is not inside)
        if not todo:
            return None
        marking = Marking(cluster=cluster, marks=todo)
        refuse(seen.look.observation, marking, known=seen.source(now()) is Source.MANAGER)
        kind = Kind.TAKE_OSDS_IN if inside else Kind.TAKE_OSDS_OUT
        plan = StoragePlan(cluster=cluster, marking=marking)
        return await _accepted(session, kind, subject(cluster), plan, ask)

    @transaction
    async def request_pool(
        self, session: AsyncSession, cluster: str, name: str, terms: PoolTerms | None, ask: Ask
    ) -> Operation:
        """Have a pool made, with an identity that may use it."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        seen = await observations.newest(session, cluster)
        if pool_name(name) in {pool.name for pool in seen.look.observation.pools}:
            raise AlreadyExists(
                f"there is a pool {name} in Ceph",
                subject=name,
                reason="POOL_EXISTS",
                do="choose another name; windlass storage pool list shows the pools there are",
            )
        uid = str(uuid4())
        share = Share.of(uid, (shared(uid, terms) and terms) or PoolTerms(), name)
        plan = StoragePlan(cluster=cluster, share=share)
        return await _accepted(session, Kind.CREATE_POOL, pool_subject(name), plan, ask)

    @transaction
    async def request_drop(
        self, session: AsyncSession, cluster: str, name: str, confirmed: str, ask: Ask
    ) -> Operation:
        """Have a pool deleted that is ours and that no cluster uses, by its number and its owner:
        what is made under its name meanwhile is left alone."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        seen = await observations.newest(session, cluster)
        pool = next((each for each in await _owned(session, seen) if each.name == name), None)
        if pool is None:
            raise NotFound(
                f"there is no pool {name} in Ceph",
                subject=name,
                reason="STORAGE_POOL_NOT_FOUND",
                do="windlass storage pool list shows the pools there are",
            )
        _refuse_what_is_used(pool)
        refuse_unconfirmed(name, confirmed)
        share = Share.of(pool.owner, PoolTerms(), name)
        doomed = share.pool.model_copy(update={"id": pool.id})
        plan = StoragePlan(cluster=cluster, share=share.model_copy(update={"pool": doomed}))
        return await _accepted(session, Kind.DELETE_POOL, pool_subject(name), plan, ask)

    @transaction
    async def request_upgrade(
        self, session: AsyncSession, cluster: str, version: str, known: Sequence[str], ask: Ask
    ) -> Operation | None:
        """Have Ceph upgraded. None if all of it runs that version."""
        if earlier := await answers.answered(session, ask):
            return operations.as_operation(earlier)
        refuse_unknown(version, known)
        seen = await observations.newest(session, cluster)
        if {seen.look.observation.version, *seen.look.observation.versions} == {version}:
            return None
        target = Target(cluster=cluster, version=version)
        if not await _was_begun(session, target):  # what was is mixed, and gone on with
            known_now = seen.source(now()) is Source.MANAGER
            refuse_upgrade(seen.look.observation, target, known=known_now)
        plan = StoragePlan(cluster=cluster, target=target)
        return await _accepted(session, Kind.UPGRADE_STORAGE, subject(cluster), plan, ask)

    @reading
    async def newer(
        self, session: AsyncSession, cluster: str, known: Sequence[str]
    ) -> tuple[str, str]:
        """Which newer version there is, and the same in words. Empty: none."""
        now = (await observations.newest(session, cluster)).look.observation.version
        to = newest(now, known)
        said = f"Ceph {now} can be upgraded to {to}" if to else f"nothing is newer than Ceph {now}"
        return to, said

    @transaction
    async def consider(self, session: AsyncSession, cluster: str, known: Sequence[str]) -> str:
        """Record an upgrade to the newest version of the same major one, under a key that is good
        for one, and say so. Conflict if Ceph is not fit for it, or busy."""
        seen = await observations.newest(session, cluster)
        version = newest(seen.look.observation.version, known, majors=False)
        if not version:
            return f"nothing is newer than Ceph {seen.look.observation.version}"
        target = Target(cluster=cluster, version=version)
        ask = Ask(caller=SCHEDULE, method=SCHEDULE, key=f"{cluster}/{version}")
        if earlier := await answers.answered(session, ask):
            return f"op {earlier.id} was to upgrade Ceph to {version}, and is {earlier.stage}"
        refuse_upgrade(seen.look.observation, target, known=seen.source(now()) is Source.MANAGER)
        plan = StoragePlan(cluster=cluster, target=target)
        made = await _accepted(session, Kind.UPGRADE_STORAGE, subject(cluster), plan, ask)
        return f"op {made.id} upgrades Ceph to {version}"

    @reading
    async def pools(self, session: AsyncSession, cluster: str) -> list[Owned]:
        """The pools that were seen last, by name, and whose they are."""
        return await _owned(session, await observations.newest(session, cluster))


async def _was_begun(session: AsyncSession, target: Target) -> bool:
    """Whether the latest upgrade was to this version and left it unfinished."""
    upgrades = select(OperationRow).where(
        OperationRow.subject == subject(target.cluster),
        OperationRow.kind == Kind.UPGRADE_STORAGE,
    )
    latest = await session.scalar(upgrades.order_by(OperationRow.created.desc()).limit(1))
    if latest is None or latest.stage == Stage.SUCCEEDED:
        return False
    plan = StoragePlan.model_validate_json(latest.plan)
    begun = await steps.begun(session, latest.id, "storage.begin_upgrade")
    return plan.target == target and begun


async def _accepted(
    session: AsyncSession, kind: Kind, subject: str, plan: StoragePlan, ask: Ask
) -> Operation:
    """Write an accepted change down, unless something else is being done to the same thing."""
    refuse_wishes(kind, ask)
    await quotas.refuse_more_running(session, kind, ask)
    held = (
        OperationRow.tenant == ask.tenant,
        OperationRow.subject == subject,
        OperationRow.stage.in_(ACTIVE),
    )
    if running := await session.scalar(select(OperationRow).where(*held)):
        raise Conflict(
            f"{running.kind} of {subject} is under way, and no {kind} is possible now",
            subject=subject,
            reason="STORAGE_BUSY",
            do=f"windlass op watch {running.id} shows when it is over",
            facts={"operation": running.id, "state": running.stage},
        )
    if (trial := rehearsal.under_way()) is not None:
        trial.accepted = rehearsal.Accepted(kind, subject, plan)
    foreseen = len(keys(outline(kind, plan)))
    row = recording.write(
        session,
        OperationId(str(uuid4())),
        kind,
        subject,
        plan.model_dump_json(),
        ask,
        steps=foreseen,
    )
    return operations.as_operation(row)


async def _owned(session: AsyncSession, seen: Seen) -> list[Owned]:
    """Each with the uid in its mark, and the living cluster of that uid. A mark alone does not make
    a pool ours: others who run Windlass on the same Ceph write such marks, too. What makes it so is
    that we gave that uid out."""
    marks = {
        pool.id: next((each for each in pool.applications if each.startswith(OWNER)), "")
        for pool in seen.look.observation.pools
    }
    uids = {mark.removeprefix(OWNER) for mark in marks.values() if mark}
    query = select(ClusterRow).where(ClusterRow.uid.in_(uids))
    clusters = (await session.scalars(query)).all()
    living = {row.uid: row.name for row in clusters if row.phase != Phase.GONE}
    marked = [pool.name for pool in seen.look.observation.pools if marks[pool.id]]
    given = {row.uid for row in clusters} | await _given(session, marked)
    found = []
    for pool in seen.look.observation.pools:
        uid = marks[pool.id].removeprefix(OWNER)
        ours = {"owner": uid, "owned_by": living.get(uid, "")}
        whose = ours if uid in given else {"stranger": uid}
        found.append(Owned(**pool.model_dump(), **whose))
    return sorted(found, key=lambda pool: pool.name)


async def _given(session: AsyncSession, names: Sequence[str]) -> set[str]:
    """The uids of pools of these names that belong to no cluster and were asked for here. Their
    operations are kept for as long as the pools stand."""
    made = select(OperationRow.plan).where(
        OperationRow.kind == Kind.CREATE_POOL,
        OperationRow.subject.in_(map(pool_subject, names)),
    )
    shares = [StoragePlan.model_validate_json(plan).share for plan in await session.scalars(made)]
    return {share.pool.owner for share in shares if share}


def _refuse_what_is_used(pool: Owned) -> None:
    if pool.stranger:
        raise Conflict(
            f"the pool {pool.name} in Ceph belongs to another Windlass: its mark names "
            f"{pool.stranger}, which was never given out here",
            subject=pool.name,
            reason="CEPH_FOREIGN",
            do="have it deleted where it was made; if that Windlass is gone for good, delete it in "
            "Ceph",
            facts={"owner": pool.stranger},
        )
    if not pool.owner:
        raise Conflict(
            f"the pool {pool.name} in Ceph is somebody else's: it does not carry our mark",
            subject=pool.name,
            reason="CEPH_FOREIGN",
            do="look at it in Ceph; Windlass leaves it alone",
        )
    if pool.owned_by:
        raise Conflict(
            f"the pool {pool.name} belongs to the cluster {pool.owned_by}",
            subject=pool.name,
            reason="POOL_IN_USE",
            do=f"windlass cluster delete {pool.owned_by} --delete-data {pool.owned_by}, "
            "if both are to go",
            facts={"cluster": pool.owned_by},
        )
