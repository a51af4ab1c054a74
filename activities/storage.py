"""What is done in Ceph for clusters."""

import asyncio
from contextlib import suppress
from typing import NamedTuple

from temporalio import activity

from activities.waiting import MOVING, for_a_while, news
from domain.errors import DomainError, Failed, Unavailable
from domain.share import Identity, PoolMade, PoolWanted
from domain.storage_gates import (
    alarming,
    behind,
    refuse,
    refuse_unattended,
    refuse_upgrade,
    unsettled,
    unsound,
)
from domain.storage_plan import Marking, OsdMark, Renewal, Target
from domain.storage_ports import Storage as Port
from store.observations import Observations

CALM_LOOKS = 3
APART_SECONDS = 5.0
"""A cluster is well that is so at several looks, one after the other: for seconds at a time Ceph
says that all is well while it has not found out yet."""


SHOWN_SECONDS = 10.0
"""How long a pool may take to show in what the manager says of the whole cluster."""


class Shown(NamedTuple):
    """Where what is seen of a Ceph cluster is written down for all who ask."""

    observations: Observations
    cluster: str


class Storage:
    def __init__(
        self, storage: Port, *, shown: Shown | None = None, apart_seconds: float = APART_SECONDS
    ) -> None:
        """`shown`: where a change is to be seen once it is done. None: with the watch's next
        look."""
        self._storage = storage
        self._shown = shown
        self._apart_seconds = apart_seconds

    @activity.defn(name="storage.ensure_pool")
    async def ensure_pool(self, wanted: PoolWanted) -> PoolMade:
        """Safe to repeat: what is there and ours is brought into line."""
        made = await self._storage.ensure_pool(wanted)
        await self._show(wanted.name, there=True)
        return made

    @activity.defn(name="storage.delete_pool")
    async def delete_pool(self, wanted: PoolWanted) -> None:
        """Safe to repeat: none there is success, and what is not ours stays."""
        await self._storage.delete_pool(wanted)
        await self._show(wanted.name, there=False)

    async def _show(self, pool: str, *, there: bool) -> None:
        """Have it seen by whoever lists pools from now on, so that reads follow writes. That is no
        reason to fail: the watch sees it in a moment."""
        if self._shown is None:
            return
        observations, cluster = self._shown
        with suppress(DomainError, TimeoutError):
            async with asyncio.timeout(SHOWN_SECONDS):
                last = (await observations.newest(cluster)).look
                while True:
                    seen = await self._storage.observe()
                    if any(each.name == pool for each in seen.pools) is there:
                        break
                    await asyncio.sleep(0.2)
                await observations.keep(cluster, last.model_copy(update={"observation": seen}))

    @activity.defn(name="storage.ensure_identity")
    async def ensure_identity(self, identity: Identity) -> None:
        """Safe to repeat: the key stays the same."""
        await self._storage.ensure_identity(identity)

    @activity.defn(name="storage.revoke_identity")
    async def revoke_identity(self, identity: Identity) -> None:
        """Safe to repeat: none there is success."""
        await self._storage.revoke_identity(identity)

    @activity.defn(name="storage.check_marking")
    async def check_marking(self, marking: Marking) -> None:
        """Whether these OSDs may be taken out, or in, as Ceph is now."""
        refuse(await self._storage.observe(), marking)

    @activity.defn(name="storage.mark_osd")
    async def mark_osd(self, mark: OsdMark) -> None:
        """Safe to repeat: an OSD that is marked so is left as it is."""
        await self._storage.mark_osd(mark)

    @activity.defn(name="storage.wait_settled")
    async def wait_settled(self, mark: OsdMark) -> None:
        """Wait for a while until all that has to be moved has been, and else say what is left."""

        async def left() -> str:
            seen = await self._storage.observe()
            safe = mark.inside or await self._storage.safe_to_destroy(mark.id)
            return unsettled(seen, mark, safe=safe)

        await for_a_while(left)

    @activity.defn(name="storage.check_upgrade")
    async def check_upgrade(self, target: Target) -> None:
        """Whether it may be upgraded, as Ceph is now. One that is under way already is gone on
        with: it passed before."""
        seen = await self._storage.observe()
        refuse_unattended(seen, target)
        if not (await self._storage.renewal()).running:
            refuse_upgrade(seen, target)

    @activity.defn(name="storage.begin_upgrade")
    async def begin_upgrade(self, target: Target) -> None:
        """Safe to repeat: what is under way goes on."""
        await self._storage.begin_upgrade(target)

    @activity.defn(name="storage.pause_upgrade")
    async def pause_upgrade(self, _target: Target) -> None:
        """Safe to repeat: none under way is success."""
        await self._storage.pause_upgrade()

    @activity.defn(name="storage.wait_upgraded")
    async def wait_upgraded(self, target: Target) -> Renewal:
        """Wait until there is news of it, or for a minute."""

        async def look() -> Renewal:
            alarm = alarming(await self._storage.observe())
            return (await self._storage.renewal()).model_copy(update={"trouble": alarm})

        def is_news(seen: Renewal) -> bool:
            return bool(not seen.running or seen.trouble or seen.done != target.done)

        return await news("the upgrade of Ceph", look, is_news)

    @activity.defn(name="storage.wait_sound")
    async def wait_sound(self, target: Target) -> None:
        """Wait for a while until every daemon runs that version and Ceph is well, and stays so, and
        else say what is left. Failed if daemons were left behind."""

        async def left() -> str:
            return unsound(await self._storage.observe(), target)

        try:
            await for_a_while(left, looks=CALM_LOOKS, apart_seconds=self._apart_seconds)
        except Unavailable as error:
            if error.reason != MOVING:
                raise
            if not (others := behind(await self._storage.observe(), target)):
                raise
            raise Failed(  # nothing will bring them any further by itself
                f"daemons still run {', '.join(others)}, and Ceph is not on its way to "
                f"{target.version} any more",
                subject=target.cluster,
                reason="CEPH_LEFT_BEHIND",
                do="ask for the same version again: the upgrade is gone on with",
            ) from error
