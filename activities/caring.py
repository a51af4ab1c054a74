"""The book of those who look after Ceph without being asked."""

from collections.abc import Sequence

from temporalio import activity

from domain.errors import Conflict
from domain.upgrade_policy import Mode
from store.storages import Storages


class Caring:
    def __init__(self, storages: Storages, mode: Mode, releases: Sequence[str]) -> None:
        self._storages = storages
        self._mode = mode
        self._releases = releases

    @activity.defn(name="caring.consider")
    async def consider(self, cluster: str) -> str:
        """Look for a newer version and, if that is wished, record an upgrade, which a sweep starts
        within seconds. Asking again records none beside it. Says what came of it."""
        if self._mode is not Mode.UPGRADE:
            return await self._storages.newer(cluster, self._releases)
        try:
            return await self._storages.consider(cluster, self._releases)
        except Conflict as refusal:
            return refusal.message
