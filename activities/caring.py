"""The book of those who look after Ceph without being asked."""

from collections.abc import Sequence

import structlog
from temporalio import activity

from domain.errors import Conflict
from domain.upgrade_policy import Mode
from store.storages import Storages

log = structlog.get_logger()


class Caring:
    def __init__(
        self, storages: Storages, cluster: str, mode: Mode, releases: Sequence[str]
    ) -> None:
        self._storages = storages
        self._cluster = cluster
        self._mode = mode
        self._releases = releases
        self._told: set[tuple[str, str]] = set()
        """Of which cluster which version was said to be newer."""

    @activity.defn(name="caring.consider")
    async def consider(self, cluster: str) -> str:
        """Look for a newer version and, if that is wished, record an upgrade, which a sweep starts
        within seconds. Asking again records none beside it. Says what came of it. No name: that
        of our settings."""
        cluster = cluster or self._cluster
        if self._mode is not Mode.UPGRADE:
            version, said = await self._storages.newer(cluster, self._releases)
            if version and (cluster, version) not in self._told:
                self._told.add((cluster, version))
                log.info("newer Ceph", cluster=cluster, version=version, said=said)
            return said
        try:
            return await self._storages.consider(cluster, self._releases)
        except Conflict as refusal:
            return refusal.message
