"""The book of healing: what a cluster's policy says about nodes that do not work."""

from temporalio import activity

from domain.operation import OperationId
from store.repairs import Repairs


class Healing:
    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs

    @activity.defn(name="healing.consider")
    async def consider(self, cluster_uid: str) -> OperationId | None:
        """Propose a repair, or record one, which a sweep starts within seconds. Asking again while
        nothing has changed does nothing."""
        operation = await self._repairs.consider(cluster_uid)
        return operation.id if operation else None
