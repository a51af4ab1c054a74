"""The books of the sweep: what was accepted and stands still, and what the pool holds."""

from temporalio import activity
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from domain.cluster import Phase
from domain.errors import Failure
from domain.frozen import Frozen
from domain.operation import Kind, Operation, OperationId, Reached
from domain.ports import Stock
from store.clusters import Clusters
from store.operations import Operations
from store.stocks import Stocks

UNLAUNCHED_SECONDS = 5.0
SILENT_SECONDS = 300.0

ALIVE = frozenset({WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW})

LOST: dict[Kind, Phase | None] = {Kind.CREATE_CLUSTER: Phase.ERROR, Kind.DELETE_CLUSTER: None}
"""What a cluster is once the workflow that changed it is gone. None: as it was."""


class Due(Frozen):
    """An operation the sweep has something to do for."""

    id: OperationId
    kind: Kind


class Standing(Frozen):
    """What stands still."""

    unlaunched: tuple[Due, ...] = ()
    called_off: tuple[Due, ...] = ()
    silent: tuple[Due, ...] = ()


class Sweeping:
    def __init__(self, operations: Operations, clusters: Clusters, stocks: Stocks) -> None:
        self._operations = operations
        self._clusters = clusters
        self._stocks = stocks

    @activity.defn(name="sweeping.look")
    async def look(self) -> Standing:
        """What was accepted and not started, called off and not told, or not heard of."""
        return Standing(
            unlaunched=_due(await self._operations.unlaunched(UNLAUNCHED_SECONDS)),
            called_off=_due(await self._operations.called_off()),
            silent=_due(await self._operations.silent(SILENT_SECONDS)),
        )

    @activity.defn(name="sweeping.verify")
    async def verify(self, due: Due) -> None:
        """Ask Temporal after a silent operation; one whose workflow is gone ends as failed. The
        one book that looks beyond our rows. It never starts anything over."""
        handle = activity.client().get_workflow_handle(f"op-{due.id}")
        try:
            status = (await handle.describe()).status
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            status = None
        if status in ALIVE:
            return
        ending = status.name.lower().replace("_", " ") if status else "unknown to Temporal"
        failure = Failure(
            kind="Failed",
            message=f"its workflow is {ending} and never ended the operation; "
            "what it held is given back when the cluster is deleted",
            reason="WORKFLOW_LOST",
        )
        await self._clusters.reach(Reached.badly(due.id, LOST[due.kind], failure))

    @activity.defn(name="sweeping.restock")
    async def restock(self, stock: Stock) -> None:
        """Remember what the machine pool holds."""
        await self._stocks.saw(stock)


def _due(operations: list[Operation]) -> tuple[Due, ...]:
    return tuple(Due(id=operation.id, kind=operation.kind) for operation in operations)
