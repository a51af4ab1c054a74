"""A Kubernetes cluster, from nothing to an API that answers and nodes that are Ready."""

import asyncio

from temporalio import workflow

from activities.endpoints import Endpoints
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.progress import Progress
from activities.storage import Storage
from domain.cluster import ClusterPlan, Phase
from domain.machine import Machine, Slot
from domain.operation import Brief, OperationId, Reached
from domain.ports import Endpoint, Joining, Supply
from domain.share import Share
from workflows.books import book
from workflows.carrying_out import carry_out
from workflows.growth import Growth
from workflows.limits import within
from workflows.policies import BRIEF, OPERATION_DEADLINE, PATIENT, WATCHING
from workflows.steps import do
from workflows.together import together
from workflows.unwind import Unwind


@workflow.defn
class CreateCluster:
    """Metal for every slot, many at once; then the first control-plane node, and once its API
    answers the other control planes one by one and the workers side by side.

    Without the first control-plane node there is no cluster: everything is undone, and the cluster
    is in ERROR. Once that node works, what fails elsewhere, or is not there in time, is given back
    and the cluster is DEGRADED. A cancel undoes everything, however far it was."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._unwind = Unwind()
        self._growth = Growth(operation, self._unwind, outlived=False)
        self._answers = asyncio.Event()

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._create, failed=Phase.ERROR)

    async def _create(self, plan: ClusterPlan, _brief: Brief) -> Reached:
        async with self._unwind:
            await self._build(plan)
        wanted, lost = len(plan.slots), self._growth.lost
        troubles = sorted(self._growth.left)
        if lost:
            missing = "; ".join(sorted(lost))
            troubles.insert(0, f"{len(lost)} of {wanted} nodes missing: {missing}")
        if troubles:
            return Reached.well(self._operation, Phase.DEGRADED, "; ".join(troubles))
        return Reached.well(self._operation, Phase.RUNNING, f"{wanted} nodes Ready")

    async def _build(self, plan: ClusterPlan) -> None:
        first, *others = plan.control_plane
        growth, room = self._growth, asyncio.Semaphore(plan.workers_at_once)
        await growth.shun()
        self._unwind.add(Endpoints.remove, Endpoint(cluster_uid=plan.uid, name=plan.endpoint))
        await growth.point(plan, [])
        await together(
            within(OPERATION_DEADLINE, self._first(plan, first)),
            *(growth.or_without(plan, s, self._control_plane(plan, s)) for s in others),
            *(growth.or_without(plan, s, self._worker(plan, s, room)) for s in plan.workers),
            *([self._storage(plan, plan.storage)] if plan.storage else ()),
        )

    async def _first(self, plan: ClusterPlan, slot: Slot) -> None:
        growth = self._growth

        async def become(machine: Machine, turn: int) -> None:
            await growth.point(plan, [machine])
            joining = Joining(machine=machine, through=machine, endpoint=plan.endpoint)
            await do(Kubeadm.initialise, joining, PATIENT, turn=turn)
            node = growth.node(plan, slot, [machine])
            await do(Kubernetes.wait_api, node, WATCHING, turn=turn)
            await do(Kubernetes.install_network, node, BRIEF, turn=turn)
            await growth.settle(node, turn)

        growth.working.append(await growth.fill(plan, slot, become))
        await book(Progress.record, Reached(operation=self._operation, published=True))
        self._answers.set()

    async def _storage(self, plan: ClusterPlan, share: Share) -> None:
        """A pool, somebody who may use it, and a cluster that knows of both. Whoever asked for it
        counts on it: without it there is no cluster."""
        self._unwind.add(Storage.delete_pool, share.pool)
        made = await do(Storage.ensure_pool, share.pool, BRIEF)
        self._unwind.add(Storage.revoke_identity, share.identity)
        await do(Storage.ensure_identity, share.identity, BRIEF)
        await self._answers.wait()
        node = self._growth.node(plan, plan.control_plane[0], self._growth.working)
        supply = Supply(node=node, made=made, identity=share.identity)
        await do(Kubernetes.supply, supply, BRIEF)

    async def _control_plane(self, plan: ClusterPlan, slot: Slot) -> None:
        growth = self._growth

        async def become(machine: Machine, turn: int) -> None:
            await self._answers.wait()
            await growth.join_control_plane(plan, machine, turn)

        await growth.fill(plan, slot, become)

    async def _worker(self, plan: ClusterPlan, slot: Slot, room: asyncio.Semaphore) -> None:
        async def become(machine: Machine, turn: int) -> None:
            await self._answers.wait()
            await self._growth.join(plan, machine, turn)

        async with room:
            await self._growth.fill(plan, slot, become)
