"""The books of an operation: where its workflow has brought it."""

from temporalio import activity

from domain.operation import Brief, OperationId, Reached
from store.clusters import Clusters
from store.journal import Journal
from store.operations import Operations


class Progress:
    def __init__(self, operations: Operations, clusters: Clusters, journal: Journal) -> None:
        self._operations = operations
        self._clusters = clusters
        self._journal = journal

    @activity.defn(name="progress.begin")
    async def begin(self, operation: OperationId) -> Brief:
        """Take the operation up and read what is to be done."""
        return await self._operations.begin(operation)

    @activity.defn(name="progress.record")
    async def record(self, reached: Reached) -> None:
        """Book how far the operation has come."""
        await self._clusters.reach(reached)

    @activity.defn(name="progress.tell")
    async def tell(self, reached: Reached) -> None:
        """Book how far one has come that belongs to no cluster."""
        await self._operations.tell(reached)

    @activity.defn(name="progress.ended")
    async def ended(self, operation: OperationId) -> bool:
        """Whether another operation's work, its undo included, is over."""
        return await self._journal.ended(operation)

    @activity.defn(name="progress.fence")
    async def fence(self, operation: OperationId) -> None:
        """End another operation that was given its time; nobody writes for it any more."""
        await self._operations.fence(operation)

    @activity.defn(name="progress.fence_others")
    async def fence_others(self, operation: OperationId) -> tuple[OperationId, ...]:
        """End whatever else has not ended of the operations on the same cluster, and say what that
        was."""
        return await self._operations.fence_others(operation)
