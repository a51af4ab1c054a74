"""Observations of Ceph clusters: the newest of each, and whose turn it is to look."""

from datetime import timedelta

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Unavailable
from domain.share import OWNER
from domain.storage_look import Look, Seen
from store.engine import Store, reading, transaction
from store.rows import now
from store.storage_rows import ObservationRow


class Observations(Store):
    @reading
    async def due(self, session: AsyncSession, cluster: str, every: timedelta) -> bool:
        """Whether it is time to look again."""
        row = await session.get(ObservationRow, cluster)
        return row is None or row.asked + every <= now()

    @transaction
    async def claim(self, session: AsyncSession, cluster: str, every: timedelta) -> bool:
        """Take the look that is due. Of several who want it one gets it: a claim is good for an
        interval, so whoever dies with it is followed by another."""
        moment = now()
        row = await session.get(ObservationRow, cluster, with_for_update=True)
        if row is None:
            seconds = every.total_seconds()
            made = ObservationRow(cluster=cluster, asked=moment, every=seconds, seen="", trouble="")
            session.add(made)
            return True
        if row.asked + every > moment:
            return False
        row.asked, row.every = moment, every.total_seconds()
        return True

    @transaction
    async def keep(self, session: AsyncSession, cluster: str, look: Look) -> None:
        """Replace what was known. An older look changes nothing."""
        row = await session.get(ObservationRow, cluster, with_for_update=True)
        if row is None or (row.seen and _read(row).observation.at > look.observation.at):
            return
        row.seen, row.trouble = look.model_dump_json(), ""

    @transaction
    async def failed(self, session: AsyncSession, cluster: str, trouble: str) -> None:
        """Note why nothing was seen this time. What was known stays."""
        changed = update(ObservationRow).where(ObservationRow.cluster == cluster)
        await session.execute(changed.values(trouble=trouble))

    @reading
    async def newest(self, session: AsyncSession, cluster: str) -> Seen:
        """What was last seen, however old. Unavailable if nobody has seen it yet."""
        return await newest(session, cluster)


async def newest(session: AsyncSession, cluster: str) -> Seen:
    """The same, in a transaction of somebody else's."""
    row = await session.get(ObservationRow, cluster)
    if row is None or not row.seen:
        why = (row and row.trouble) or "no worker has looked yet"
        raise Unavailable(
            f"the Ceph cluster {cluster} has not been seen yet: {why}",
            subject=cluster,
            reason="STORAGE_UNSEEN",
            do="see that a worker runs, and that WINDLASS_CEPH__URLS leads to Ceph's dashboard",
        )
    return Seen(
        cluster=cluster,
        look=_read(row),
        every=timedelta(seconds=row.every),
        trouble=row.trouble,
    )


async def owners(session: AsyncSession) -> set[str]:
    """The uids in the marks of all pools that were last seen."""
    rows = await session.scalars(select(ObservationRow).where(ObservationRow.seen != ""))
    return {
        mark.removeprefix(OWNER)
        for row in rows
        for pool in _read(row).observation.pools
        for mark in pool.applications
        if mark.startswith(OWNER)
    }


def _read(row: ObservationRow) -> Look:
    return Look.model_validate_json(row.seen)
