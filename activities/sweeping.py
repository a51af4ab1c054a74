"""The books of the sweep: what was accepted and stands still, and what the pool holds."""

import asyncio
from time import monotonic

from temporalio import activity
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from domain.cluster import Phase
from domain.errors import Failure
from domain.frozen import Frozen
from domain.operation import (
    CHANGES,
    SETTLED,
    STORED,
    TRACKED,
    Cancelled,
    Kind,
    Operation,
    OperationId,
    Reached,
    Stage,
)
from domain.ports import Stock
from store.clusters import Clusters
from store.operations import Operations
from store.stocks import Stocks
from store.tracking import Tracking
from store.watches import Watches

UNLAUNCHED_SECONDS = 5.0
SILENT_SECONDS = 300.0
UNTAKEN_SECONDS = 60.0
"""By then a workflow that was started has taken its operation up, unless workers are behind."""
UNWATCHED_SECONDS = 900.0
"""A monitor is heard of every five minutes, or its worker is away."""
MONITORS_SECONDS = 20.0
"""How often Temporal is asked which monitors it runs. The rows may say that one was heard of just
now and be wrong: after they were restored, and after somebody ended it."""
ASKING_SECONDS = 4.0
MOST_UNWATCHED = 100
"""In one sweep. The next one, seconds later, finds the others."""

MONITORS = "WorkflowType = 'ClusterMonitor' AND ExecutionStatus = 'Running'"

ALIVE = frozenset({WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW})

LOST: dict[Kind, Phase | None] = {
    Kind.CREATE_CLUSTER: Phase.ERROR,
    Kind.DELETE_CLUSTER: None,
    **dict.fromkeys(SETTLED | TRACKED | STORED),
}
"""What a cluster is once the workflow that changed it is gone. None: as it was, or, if it stood
before, what its slots make of it."""

AFTER: dict[Kind, str] = {
    Kind.CREATE_CLUSTER: "what it held is given back when the cluster is deleted",
    Kind.DELETE_CLUSTER: "a delete that is asked for again gives back what is left",
    **dict.fromkeys(CHANGES, "asking for the same again goes on with what it left"),
    Kind.UPGRADE_CLUSTER: "asking for the same version again goes on with it",
    Kind.REPAIR_CLUSTER: "a repair that is asked for again goes on with what it left",
    **dict.fromkeys(TRACKED, "what it had begun is taken back"),
    **dict.fromkeys(STORED, "asking for the same again goes on with what it left"),
}
"""What becomes of what a workflow left when it was lost."""


class Due(Frozen):
    """An operation the sweep has something to do for."""

    id: OperationId
    kind: Kind


class Aside(Frozen):
    """An operation that the sweep could do nothing about, and why."""

    id: OperationId
    why: str


class Standing(Frozen):
    """What stands still."""

    unlaunched: tuple[Due, ...] = ()
    called_off: tuple[Due, ...] = ()
    unheeded: tuple[Due, ...] = ()
    silent: tuple[Due, ...] = ()
    unwatched: tuple[str, ...] = ()
    """Clusters, by uid."""


class Sweeping:
    def __init__(
        self,
        operations: Operations,
        clusters: Clusters,
        tracking: Tracking,
        stocks: Stocks,
        watches: Watches,
    ) -> None:
        self._operations = operations
        self._clusters = clusters
        self._tracking = tracking
        self._stocks = stocks
        self._watches = watches
        self._next_asking = 0.0

    @activity.defn(name="sweeping.look")
    async def look(self) -> Standing:
        """What was accepted and not started, wished and not told, or not heard of. What was
        started and never taken up is not heard of either."""
        return Standing(
            unlaunched=_due(await self._operations.unlaunched(UNLAUNCHED_SECONDS)),
            called_off=_due(await self._operations.called_off()),
            unheeded=_due(await self._operations.unheeded()),
            silent=_due(await self._operations.silent(SILENT_SECONDS, UNTAKEN_SECONDS)),
            unwatched=tuple(await self._unwatched()),
        )

    async def _unwatched(self) -> list[str]:
        """Clusters that stand and have no monitor, or none that was heard of for long."""
        found = await self._watches.unheard(UNWATCHED_SECONDS, MOST_UNWATCHED)
        running = await self._monitors() if monotonic() >= self._next_asking else None
        if running is None:
            return found
        standing = await self._watches.standing()
        lacking = [each for each in standing if monitor_id(each) not in running]
        if len(lacking) <= MOST_UNWATCHED:
            self._next_asking = monotonic() + MONITORS_SECONDS
        return list(dict.fromkeys([*found, *lacking]))[:MOST_UNWATCHED]

    async def _monitors(self) -> set[str] | None:
        """The monitors that Temporal runs, by id. None: it does not say so now. It may not have
        heard yet of one that was started just now; the id lets no second one in."""
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                listed = activity.client().list_workflows(MONITORS, page_size=1000)
                return {each.id async for each in listed}
        except (RPCError, TimeoutError):
            return None

    @activity.defn(name="sweeping.watches")
    async def watches(self, cluster: str) -> None:
        """Remember that a cluster has a monitor, which will be heard of by itself from now on."""
        await self._watches.heard(cluster)

    @activity.defn(name="sweeping.verify")
    async def verify(self, due: Due) -> None:
        """Ask Temporal after a silent operation; one whose workflow is gone ends as failed, or as
        cancelled if it was called off before it began. One that was not taken up yet and that
        Temporal does not know is still to be launched; one whose parts still work, or still undo
        what they did, is asked after again. Like `rests` it looks beyond our rows. It never starts
        anything over."""
        found = await _described(_workflow(due.id))
        works = await _works(found)
        status = found.status if found else None
        operation = await self._operations.get(due.id)  # read last: what is over begins no more
        untaken = operation.stage is Stage.REQUESTED
        if works or (status is None and untaken):
            await self._operations.found_alive(due.id)
            return
        ending = status.name.lower().replace("_", " ") if status else "unknown to Temporal"
        if untaken and operation.cancel_requested:
            failure = Cancelled.by("its caller")
        else:
            failure = Failure(
                kind="Failed",
                message=f"its workflow is {ending} and never {_unsaid(due.kind, untaken)}",
                reason="WORKFLOW_LOST",
            )
        if due.kind in TRACKED:
            await self._tracking.take_back(due.id, failure)
            return
        lost = Reached.badly(due.id, LOST[due.kind], failure, undone=untaken)
        book = self._operations.tell if due.kind in STORED else self._clusters.reach
        await book(lost)

    @activity.defn(name="sweeping.set_aside")
    async def set_aside(self, aside: Aside) -> None:
        """Have an operation say that it needs a person. What can be done for it later takes that
        back."""
        await self._operations.set_aside(aside.id, aside.why)

    @activity.defn(name="sweeping.rests")
    async def rests(self, operation: OperationId) -> bool:
        """Whether Temporal runs no workflow for it any more, and none that one of them started:
        then none of its hands is at work."""
        return not await _works(await _described(_workflow(operation)))

    @activity.defn(name="sweeping.restock")
    async def restock(self, stock: Stock) -> None:
        """Remember what the machine pool holds."""
        await self._stocks.saw(stock)


def _unsaid(kind: Kind, untaken: bool) -> str:
    return "began the operation" if untaken else f"ended the operation; {AFTER[kind]}"


def monitor_id(cluster: str) -> str:
    """One id per cluster: it lets no second monitor in."""
    return f"monitor-{cluster}"


def _workflow(operation: OperationId) -> str:
    return f"op-{operation}"


async def _works(found: WorkflowExecutionDescription | None) -> bool:
    """Whether a workflow runs, or one that it started and did not see end: a parent that was ended
    by force leaves such behind."""
    if found is None:
        return False
    if found.status in ALIVE:
        return True
    for each in found.raw_description.pending_children:
        if await _works(await _described(each.workflow_id)):
            return True
    return False


async def _described(workflow: str) -> WorkflowExecutionDescription | None:
    """How a workflow stands. None: Temporal does not know it."""
    try:
        return await activity.client().get_workflow_handle(workflow).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


def _due(operations: list[Operation]) -> tuple[Due, ...]:
    return tuple(Due(id=operation.id, kind=operation.kind) for operation in operations)
