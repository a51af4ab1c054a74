"""Pools of a living cluster: nodes added, nodes taken away."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from activities.errors import pushed_aside, understood
from activities.kubernetes import Kubernetes
from domain.cluster import ClusterPlan, PoolChange, Retiring
from domain.counting import several
from domain.machine import Machine, Slot
from domain.operation import Brief, OperationId, Reached
from domain.outline import RETIRED_AT_ONCE
from domain.ports import Node
from workflows.carrying_out import carry_out
from workflows.growth import Growth
from workflows.policies import BRIEF
from workflows.retire_machine import RetireMachine, Retirement
from workflows.steps import child, do
from workflows.together import together
from workflows.unwind import Unwind


@workflow.defn
class ChangePools:
    """Every slot that is to be filled becomes a node, many side by side; every node that is to go
    is emptied and given back, a few at a time.

    What fails is left out, and the cluster is DEGRADED for as long as its pools have not what is
    wanted of them: asking for the same again makes it good. If nothing at all comes of it, the
    change has failed. A cancel gives back what was added and keeps every node that is still in
    the cluster, open to work as it was."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._unwind = Unwind()
        self._growth = Growth(operation, self._unwind, outlived=True)
        self._staying: list[str] = []
        self._warnings: list[str] = []

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._change, failed=None)

    async def _change(self, plan: ClusterPlan, _brief: Brief) -> Reached:
        change = plan.change or PoolChange(through=())
        self._growth.working += change.through
        if change.adding:
            await self._growth.shun()
        async with self._unwind:
            room = asyncio.Semaphore(plan.workers_at_once)
            going = asyncio.Semaphore(RETIRED_AT_ONCE)
            await together(*(self._open(plan, slot) for slot in change.opening))
            await together(
                *(
                    self._growth.or_without(plan, slot, self._add(plan, slot, room))
                    for slot in change.adding
                ),
                *(self._readmit(plan, slot) for slot in change.readmitting),
                *(self._retire(plan, each, going) for each in change.retiring),
            )
            self._refuse_a_change_of_nothing(change)
            shut = (*change.closing, *(change.opening if self._staying else ()))
            await together(*(self._close(plan, slot) for slot in shut))
        return Reached.well(self._operation, None, self._told(change))

    async def _add(self, plan: ClusterPlan, slot: Slot, room: asyncio.Semaphore) -> None:
        async def become(machine: Machine, turn: int) -> None:
            await self._growth.join(plan, machine, turn)

        async with room:
            await self._growth.fill(plan, slot, become)

    async def _readmit(self, plan: ClusterPlan, slot: Slot) -> None:
        node = self._growth.node(plan, slot, self._growth.working)
        try:
            await do(Kubernetes.uncordon, node, BRIEF)
        except FailureError as error:
            if pushed_aside(error):
                raise
            self._growth.lost.append(f"{slot.name} ({understood(error).message})")

    async def _open(self, plan: ClusterPlan, slot: Slot) -> None:
        """Let a control plane run everything, before the last workers are emptied onto it. Should
        any of them stay after all, it is closed again."""
        node = self._growth.node(plan, slot, self._growth.working)
        as_it_is = node.model_copy(update={"workless": None})
        self._unwind.add(Kubernetes.label, as_it_is, BRIEF)
        await self._label(node.model_copy(update={"workless": True}))

    async def _close(self, plan: ClusterPlan, slot: Slot) -> None:
        """Keep a control plane to itself, if there are workers now."""
        node = self._growth.node(plan, slot, self._growth.working)
        undone = node.model_copy(update={"workless": True})
        self._unwind.add(Kubernetes.label, undone, BRIEF, turn=2)
        await self._label(node.model_copy(update={"workless": None}), turn=2)

    async def _label(self, node: Node, *, turn: int = 1) -> None:
        """Pods find a place all the same, if not the best; that is told."""
        try:
            await do(Kubernetes.label, node, BRIEF, turn=turn)
        except FailureError as error:
            if pushed_aside(error):
                raise
            self._warnings.append(f"{node.named} is not relabelled: {understood(error).message}")

    async def _retire(self, plan: ClusterPlan, each: Retiring, going: asyncio.Semaphore) -> None:
        slot, change = each.machine.slot, plan.change or PoolChange(through=())
        retirement = Retirement(
            retiring=each,
            node=self._growth.node(plan, slot, self._growth.working),
            drain_seconds=change.drain_seconds,
            drain_policy=change.drain_policy,
        )
        async with going:
            name = f"m-{slot.cluster_uid[:8]}-{slot.name}-retire-{self._operation}"
            retired = await child(RetireMachine.run, retirement, id=name)
        if retired.trouble:
            self._staying.append(f"{slot.name} ({retired.trouble})")
        self._warnings += retired.warnings

    def _refuse_a_change_of_nothing(self, change: PoolChange) -> None:
        failed = [*self._growth.lost, *self._staying]
        if failed and len(failed) == change.size:
            message = f"nothing could be changed: {'; '.join(sorted(failed))}"
            raise ApplicationError(message, type="Failed", non_retryable=True)

    def _told(self, change: PoolChange) -> str:
        lost, staying = self._growth.lost, self._staying
        wanted = len(change.adding) + len(change.readmitting)
        added, retired = wanted - len(lost), len(change.retiring) - len(staying)
        parts = [f"{several(added, 'node')} added, {retired} taken away"]
        for what, which in (
            ("missing", lost),
            ("not taken away", staying),
            ("warnings", self._warnings),
        ):
            if which:
                parts.append(f"{what}: {'; '.join(sorted(which))}")
        return "; ".join(parts)
