"""What somebody would write who knows Temporal and nothing of us: the same hands in the same order,
as many at once, and neither undos nor children nor operations."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.workflow import ActivityConfig

from activities.endpoints import Endpoints
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.machines import Machines
from activities.verbs import name_of, queue_of
from domain.cluster import ClusterPlan, Upgrade
from domain.machine import Machine, Search, Slot
from domain.operation import StepKey
from domain.outline import RETIRED_AT_ONCE
from domain.ports import Draining, Endpoint, Joining, Node, Snapshot, Upgrading
from workflows.steps import Named

Subject = TypeVar("Subject", bound=Named)
Answer = TypeVar("Answer")


class Hands:
    """Steps as anybody would write them. `lent`: our own workers are the hands, and write their
    lines as ever; otherwise they are the bare workflow's own worker's, which has no logbook."""

    def __init__(self, *, lent: bool) -> None:
        self._lent = lent

    async def do(
        self, step: Callable[[Any, Subject], Awaitable[Answer]], subject: Subject, turn: int = 1
    ) -> Answer:
        how: ActivityConfig = {"start_to_close_timeout": timedelta(minutes=45)}
        if self._lent:
            key = StepKey(verb=name_of(step), subject=subject.named, turn=turn)
            how |= {"task_queue": queue_of(step), "activity_id": str(key)}
        return await workflow.execute_activity_method(step, subject, **how)

    async def provision(self, slot: Slot) -> Machine:
        machine = await self.do(Machines.allocate, Search(slot=slot))
        machine = await self.do(Machines.deploy, machine)
        machine = await self.do(Machines.wait_deployed, machine)
        await self.do(Kubeadm.reach, machine)
        await self.do(Kubeadm.preflight, machine)
        return machine

    async def join(self, plan: ClusterPlan, machine: Machine, through: Machine) -> None:
        joining = Joining(machine=machine, through=through, endpoint=plan.endpoint)
        await self.do(Kubeadm.join, joining)
        await self.settle(_node(plan, machine.slot, through))

    async def settle(self, node: Node) -> None:
        await self.do(Kubernetes.wait_node, node)
        await self.do(Kubernetes.label, node)

    async def retire(self, node: Node, machine: Machine, seconds: float) -> None:
        await self.do(Kubernetes.cordon, node)
        await self.do(Kubernetes.drain, Draining(node=node, seconds=seconds))
        await self.do(Kubernetes.delete_node, node)
        await self.do(Kubeadm.reset, machine)
        await self.do(Machines.release, machine.slot)


@workflow.defn
class BareCreateCluster:
    """For one control plane and any number of workers."""

    def __init__(self) -> None:
        self._hands = Hands(lent=False)
        self._first: asyncio.Future[Machine] = asyncio.Future()

    @workflow.run
    async def run(self, plan: ClusterPlan, lent: bool) -> None:
        self._hands = Hands(lent=lent)
        [first] = plan.control_plane
        await self._point(plan)
        workers = (self._worker(plan, slot) for slot in plan.workers)
        await asyncio.gather(self._control_plane(plan, first), *workers)

    async def _control_plane(self, plan: ClusterPlan, slot: Slot) -> None:
        hands = self._hands
        machine = await hands.provision(slot)
        await self._point(plan, machine.address, turn=2)
        joining = Joining(machine=machine, through=machine, endpoint=plan.endpoint)
        await hands.do(Kubeadm.initialise, joining)
        node = _node(plan, slot, machine)
        await hands.do(Kubernetes.wait_api, node)
        await hands.do(Kubernetes.install_network, node)
        await hands.settle(node)
        self._first.set_result(machine)

    async def _worker(self, plan: ClusterPlan, slot: Slot) -> None:
        machine = await self._hands.provision(slot)
        await self._hands.join(plan, machine, await self._first)

    async def _point(self, plan: ClusterPlan, *addresses: str, turn: int = 1) -> None:
        endpoint = Endpoint(cluster_uid=plan.uid, name=plan.endpoint, addresses=addresses)
        await self._hands.do(Endpoints.ensure, endpoint, turn)


@workflow.defn
class BareChangePools:
    """Nodes added and taken away, in a cluster that stands."""

    @workflow.run
    async def run(self, plan: ClusterPlan, lent: bool) -> None:
        hands, change = Hands(lent=lent), plan.change
        assert change is not None
        [through] = change.through
        room = asyncio.Semaphore(plan.workers_at_once)
        going = asyncio.Semaphore(RETIRED_AT_ONCE)

        async def add(slot: Slot) -> None:
            async with room:
                await hands.join(plan, await hands.provision(slot), through)

        async def retire(machine: Machine) -> None:
            async with going:
                await hands.retire(
                    _node(plan, machine.slot, through), machine, change.drain_seconds
                )

        retiring = (retire(each.machine) for each in change.retiring)
        await asyncio.gather(*map(add, change.adding), *retiring)


@workflow.defn
class BareUpgradeCluster:
    """For one control plane and workers one after the other."""

    def __init__(self) -> None:
        self._hands = Hands(lent=False)

    @workflow.run
    async def run(self, plan: ClusterPlan, lent: bool) -> None:
        hands = self._hands = Hands(lent=lent)
        upgrade = plan.upgrade
        assert upgrade is not None
        [first] = upgrade.control_plane
        await hands.do(Kubernetes.wait_node, _renewed(plan, upgrade, first))
        await hands.do(Kubeadm.foresee, _upgrading(plan, upgrade, first))
        name = f"before-{upgrade.release.version}"
        await hands.do(Kubeadm.back_up, Snapshot(machine=first, name=name))
        for machine in upgrade.machines:
            await self._node(plan, upgrade, machine)

    async def _node(self, plan: ClusterPlan, upgrade: Upgrade, machine: Machine) -> None:
        hands, node = self._hands, _renewed(plan, upgrade, machine)
        upgrading = _upgrading(plan, upgrade, machine)
        await hands.do(Kubeadm.upgrade, upgrading)
        await hands.do(Kubernetes.cordon, node)
        await hands.do(Kubernetes.drain, Draining(node=node, seconds=upgrade.drain_seconds))
        await hands.do(Kubeadm.renew_kubelet, upgrading)
        if upgrading.lead:
            await hands.do(Kubernetes.wait_api_version, node)
        await hands.do(Kubernetes.wait_version, node)
        await hands.do(Kubernetes.uncordon, node)


def _upgrading(plan: ClusterPlan, upgrade: Upgrade, machine: Machine) -> Upgrading:
    [first] = upgrade.working
    return Upgrading(
        machine=machine,
        release=upgrade.release,
        through=first,
        endpoint=plan.endpoint,
        lead=machine == first,
    )


def _renewed(plan: ClusterPlan, upgrade: Upgrade, machine: Machine) -> Node:
    """The node as it is to be."""
    slot = machine.slot.model_copy(update={"release": upgrade.release})
    return _node(plan, slot, upgrade.working[0])


def _node(plan: ClusterPlan, slot: Slot, through: Machine) -> Node:
    return Node(slot=slot, endpoint=plan.endpoint, addresses=(through.address,))
