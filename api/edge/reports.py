"""What resource managers say of instances, as it is taken in."""

from collections.abc import Callable
from typing import Any

from api.edge import convert, keys, states
from domain.operation import OperationId
from domain.record import Noun, Record
from domain.standing import Report
from store.appinsts import AppInsts
from store.clusterinsts import ClusterInsts
from store.shelf import Shelf

KEPT: dict[Noun, tuple[Noun, Callable[[Any], Record]]] = {
    Noun.CLUSTER_INST: (Noun.CLUSTER_INST_INFO, convert.clusterinst_info),
    Noun.APP_INST: (Noun.APP_INST_INFO, convert.appinst_info),
}
"""Where the words themselves are kept, for those who want to see them."""


class Reports:
    def __init__(self, shelf: Shelf, clusters: ClusterInsts, apps: AppInsts) -> None:
        self._shelf = shelf
        self._stores: dict[Noun, ClusterInsts | AppInsts] = {
            Noun.CLUSTER_INST: clusters,
            Noun.APP_INST: apps,
        }

    async def take(self, noun: Noun, info: Any, *, gone: bool) -> OperationId | None:
        """What is said of an instance, or that nothing is said of it any more. Which operation
        waits for it, if one does. A state that there is not is passed over."""
        key, (kept_as, kept) = keys.of(info), KEPT[noun]
        if gone:
            await self._shelf.drop(kept_as, key)
            return await self._stores[noun].forget(key)
        if info.state not in states.HEARD:
            return None
        runtime = info.runtime_info.container_ids if noun is Noun.APP_INST else ()
        report = Report(
            key=key,
            phase=states.HEARD[info.state],
            errors=tuple(info.errors),
            runtime=tuple(runtime),
        )
        return await self._stores[noun].observe(report, kept(info))
