"""The books of an operation: where its workflow has brought it."""

from temporalio import activity

from domain.errors import Failed
from domain.operation import CHANGES, Brief, Kind, OperationId, Reached
from store.clusters import Clusters
from store.journal import Journal
from store.operations import Operations

CARRIED_BY: dict[str, frozenset[Kind]] = {
    "CreateCluster": frozenset({Kind.CREATE_CLUSTER}),
    "DeleteCluster": frozenset({Kind.DELETE_CLUSTER}),
    "ChangePools": CHANGES,
    "UpgradeCluster": frozenset({Kind.UPGRADE_CLUSTER}),
    "RepairCluster": frozenset({Kind.REPAIR_CLUSTER}),
    "CreateInstance": frozenset({Kind.CREATE_CLUSTERINST, Kind.CREATE_APPINST}),
    "UpdateClusterInst": frozenset({Kind.UPDATE_CLUSTERINST}),
    "DeleteInstance": frozenset({Kind.DELETE_CLUSTERINST, Kind.DELETE_APPINST}),
    "DeleteCloudlet": frozenset({Kind.DELETE_CLOUDLET}),
    "MarkOsds": frozenset({Kind.TAKE_OSDS_OUT, Kind.TAKE_OSDS_IN}),
    "CreatePool": frozenset({Kind.CREATE_POOL}),
    "DeletePool": frozenset({Kind.DELETE_POOL}),
    "UpgradeStorage": frozenset({Kind.UPGRADE_STORAGE}),
}
"""Which kinds of operation a workflow carries out, by its name: the catalogue of the workflows, as
a test compares."""


class Progress:
    def __init__(self, operations: Operations, clusters: Clusters, journal: Journal) -> None:
        self._operations = operations
        self._clusters = clusters
        self._journal = journal

    @activity.defn(name="progress.begin")
    async def begin(self, operation: OperationId) -> Brief:
        """Take the operation up and read what is to be done. What a workflow is told is bound to
        its id and not to its name, so one of another name is refused here: a stranger could have a
        creation carried out as a delete."""
        flow = activity.info().workflow_type
        if flow in CARRIED_BY:
            kind = (await self._operations.get(operation)).kind
            if kind not in CARRIED_BY[flow]:
                raise Failed(
                    f"{flow} was asked to carry out an operation of kind {kind}",
                    subject=operation,
                    reason="FOREIGN_WORKFLOW",
                    do="nothing of Windlass starts it so: find out who writes to Temporal",
                )
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
