"""Nodes of a living cluster that do not work, mended or replaced."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from activities.endpoints import Endpoints
from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from domain.cluster import ClusterPlan
from domain.counting import several
from domain.machine import Machine, Role
from domain.operation import Brief, OperationId, Reached
from domain.repairs import Mending, Remedy, Repair, is_beyond_reviving
from workflows.carrying_out import carry_out
from workflows.growth import Growth, courteously
from workflows.limits import ran_out, within
from workflows.policies import BRIEF, COURTESY, IN_PASSING, LEAVING, OPERATION_DEADLINE
from workflows.revive_node import Revival, ReviveNode
from workflows.steps import child, do
from workflows.together import together
from workflows.unwind import Unwind


@workflow.defn
class RepairCluster:
    """Control planes one after the other, and no further one after one that could not be mended;
    then the workers, many side by side.

    A machine that does not answer is switched off and on first. If its node does not come back, or
    the machine is past being switched, it is replaced: taken out of the cluster without waiting for
    its pods, given back, and another machine found for the same place. If nobody can say so much of
    it, since whoever is asked is away, it is left as it is. What was mended stays, whatever becomes
    of the rest. A cancel sees through what has no way back: a node that is half out of the cluster
    is taken out of it, and its place is left empty."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._unwind = Unwind()
        self._growth = Growth(operation, self._unwind, outlived=True)
        self._mended: list[str] = []
        self._well: list[str] = []
        """Those that turned out to be Ready, of the mended."""
        self._emptied: set[str] = set()
        """The slots whose node, if there was one, is out of the cluster."""

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._repair, failed=None)

    async def _repair(self, plan: ClusterPlan, _brief: Brief) -> Reached:
        repair = plan.repair or Repair()
        self._growth.working += repair.through
        masters = [each for each in repair.mending if _leads(each)]
        workers = [each for each in repair.mending if not _leads(each)]
        await self._growth.shun()
        async with self._unwind:
            await self._one_by_one(plan, repair, masters)
            room = asyncio.Semaphore(plan.workers_at_once)
            await together(*(self._in_turn(plan, repair, each, room) for each in workers))
        self._refuse_a_repair_of_nothing(repair)
        return Reached.well(self._operation, None, self._told())

    async def _one_by_one(self, plan: ClusterPlan, repair: Repair, masters: list[Mending]) -> None:
        lost = self._growth.lost
        for each in masters:
            if lost:
                lost.append(f"{each.named} (left alone, since the one before it is not mended)")
            else:
                await self._or_not(plan, repair, each)

    async def _in_turn(
        self, plan: ClusterPlan, repair: Repair, each: Mending, room: asyncio.Semaphore
    ) -> None:
        if not self._growth.working:
            self._growth.lost.append(f"{each.named} (there is no control plane that works)")
            return
        async with room:
            await self._or_not(plan, repair, each)

    async def _or_not(self, plan: ClusterPlan, repair: Repair, each: Mending) -> None:
        """Go on if this node cannot be mended. A place that was being filled is left empty; what
        nobody began to replace is left as it is. Time may run out while one is taken out of the
        cluster, which has no way back: then that is seen through, as when it is called off."""
        try:
            await within(OPERATION_DEADLINE, self._mend(plan, repair, each))
        except FailureError as error:
            if pushed_aside(error):
                raise
            gone, slot = True, each.machine.slot
            if each.named in self._emptied:
                gone = await self._growth.let_go(plan, slot)
            elif ran_out(error):
                gone = await self._unwind.take_back(slot)
            kept = "" if gone else "; its machine is not given back yet"
            self._growth.lost.append(f"{each.named} ({understood(error).message}{kept})")

    async def _mend(self, plan: ClusterPlan, repair: Repair, each: Mending) -> None:
        slot, growth = each.machine.slot, self._growth
        if each.remedy is Remedy.READMIT:
            await do(Kubernetes.uncordon, growth.node(plan, slot, growth.working), BRIEF)
        elif each.remedy is Remedy.FILL:
            await self._fill(plan, each)
        else:
            await self._revive(plan, repair, each)
        self._unwind.keep(slot)
        self._mended.append(each.named)

    async def _revive(self, plan: ClusterPlan, repair: Repair, each: Mending) -> None:
        growth, machine = self._growth, each.machine
        through = growth.working or [machine]
        revival = Revival(
            machine=machine,
            node=growth.node(plan, machine.slot, through),
            ready_seconds=repair.ready_seconds,
            alone=not growth.working,
        )
        slot = machine.slot
        name = f"m-{slot.cluster_uid[:8]}-{slot.name}-revive-{self._operation}"
        revived = await child(ReviveNode.run, revival, id=name)
        if revived.by_itself:
            self._well.append(slot.name)
        if revived.trouble is None:
            if _leads(each):
                await growth.point(plan, [*growth.working, machine])
                growth.working.append(machine)
            return
        if not is_beyond_reviving(revived.trouble):
            message = f"{revived.trouble.message}; it is left as it is, and not replaced for that"
            raise ApplicationError(message, type="Failed", non_retryable=True)
        growth.let_down_by(machine)
        if not each.replaceable:
            message = (
                f"{revived.trouble.message}; it is the only control plane, so another machine "
                "cannot take its place"
            )
            raise ApplicationError(message, type="Failed", non_retryable=True)
        await self._take_out(plan, each)
        await self._fill(plan, each)

    async def _take_out(self, plan: ClusterPlan, each: Mending) -> None:
        """The order matters: nobody is led to a control plane that goes, etcd is told through
        another before it is gone, and its machine is somebody else's last."""
        growth, machine, unwind = self._growth, each.machine, self._unwind
        node = growth.node(plan, machine.slot, growth.working)
        unwind.add(Machines.release, machine.slot, LEAVING)
        unwind.add(Kubeadm.reset, machine, IN_PASSING)
        unwind.add(Kubernetes.delete_node, node, COURTESY)
        if _leads(each):
            unwind.add(Kubeadm.leave, growth.joining(plan, machine), BRIEF, decides=True)
            try:
                await growth.point(plan, growth.working)
                await self._leave(plan, machine)
            except FailureError:
                unwind.keep(machine)  # it still counts in etcd, so it must not be taken away
                raise
        await courteously(do(Kubernetes.delete_node, node, COURTESY))
        await courteously(do(Kubeadm.reset, machine, IN_PASSING))
        await do(Machines.release, machine.slot, LEAVING)
        unwind.keep(machine)

    async def _fill(self, plan: ClusterPlan, each: Mending) -> None:
        growth, slot, unwind = self._growth, each.machine.slot, self._unwind
        if not _leads(each):
            self._emptied.add(slot.name)

            async def become(machine: Machine, turn: int) -> None:
                await growth.join(plan, machine, turn)

            await growth.fill(plan, slot, become)
            return
        if each.remedy is Remedy.FILL:  # what an earlier attempt left would keep others out
            await self._leave(plan, each.machine)
            node = growth.node(plan, slot, growth.working)
            await do(Kubernetes.delete_node, node, BRIEF)
            if each.machine.system_id:  # half a control plane cannot be gone on with
                await do(Machines.release, slot, LEAVING)
        self._emptied.add(slot.name)
        others = growth.led_to(plan, growth.working)

        async def lead(machine: Machine, turn: int) -> None:
            unwind.add(Endpoints.ensure, others, BRIEF, turn=turn)
            await growth.join_control_plane(plan, machine, turn)

        await growth.fill(plan, slot, lead)
        unwind.keep(others)

    async def _leave(self, plan: ClusterPlan, machine: Machine) -> None:
        async with self._growth.etcd:
            await do(Kubeadm.leave, self._growth.joining(plan, machine), BRIEF)

    def _refuse_a_repair_of_nothing(self, repair: Repair) -> None:
        if repair.mending and not self._mended:
            message = f"nothing could be mended: {'; '.join(sorted(self._growth.lost))}"
            raise ApplicationError(message, type="Failed", non_retryable=True)

    def _told(self) -> str:
        parts = [f"{several(len(self._mended) - len(self._well), 'node')} mended"]
        for what, which in (
            ("Ready without us", self._well),
            ("not mended", self._growth.lost),
            ("troubles", self._growth.left),
        ):
            if which:
                parts.append(f"{what}: {'; '.join(sorted(which))}")
        return "; ".join(parts)


def _leads(each: Mending) -> bool:
    return each.machine.slot.role is Role.CONTROL_PLANE
