"""What resource managers say of instances, as it is taken in."""

from collections.abc import Callable
from typing import Any

from api.edge import convert, keys, states
from domain.cloudlet_info import Speaker
from domain.operation import OperationId
from domain.record import Noun, Record
from domain.standing import Report
from store.appinsts import AppInsts
from store.clusterinsts import ClusterInsts

WORDS: dict[Noun, Callable[[Any], Record]] = {
    Noun.CLUSTER_INST: convert.clusterinst_info,
    Noun.APP_INST: convert.appinst_info,
}
"""The words themselves, as they are kept for those who want to see them."""


class Reports:
    def __init__(self, clusters: ClusterInsts, apps: AppInsts) -> None:
        self._stores: dict[Noun, ClusterInsts | AppInsts] = {
            Noun.CLUSTER_INST: clusters,
            Noun.APP_INST: apps,
        }

    async def take(
        self, noun: Noun, info: Any, speaker: Speaker | None, *, gone: bool
    ) -> OperationId | None:
        """What is said of an instance, or that nothing is said of it any more. Which operation
        waits for it, if one does. A state that there is not is passed over."""
        key = keys.of(info)
        if gone:
            return await self._stores[noun].forget(key, speaker)
        if info.state not in states.HEARD:
            return None
        runtime = info.runtime_info.container_ids if noun is Noun.APP_INST else ()
        report = Report(
            key=key,
            phase=states.HEARD[info.state],
            errors=tuple(info.errors),
            runtime=tuple(runtime),
        )
        return await self._stores[noun].observe(report, WORDS[noun](info), speaker)
