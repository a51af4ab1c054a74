"""A living cluster brought to another release of Kubernetes, node by node, in place."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from activities.errors import pushed_aside, understood
from activities.kubeadm import Kubeadm
from activities.kubernetes import Kubernetes
from activities.progress import Progress
from domain.cluster import ClusterPlan, PoolUpgrade, Upgrade
from domain.machine import Machine, Role
from domain.operation import Brief, OperationId, Reached
from domain.ports import Node, Snapshot, Upgrading
from workflows.books import book
from workflows.carrying_out import carry_out
from workflows.helm import helm
from workflows.policies import BRIEF, PATIENT
from workflows.steps import child, do
from workflows.together import together
from workflows.upgrade_node import Renewal, UpgradeNode


@workflow.defn
class UpgradeCluster:
    """The control planes that work are looked at, kubeadm is asked what it thinks of it, and etcd
    is backed up. Then come the control planes, one by one and the first with the cluster's own
    configuration, then the pod network that goes with the release, as kubeadm's own add-ons have
    come by then, and after that the workers, pool by pool, a few at a time.

    The first node that cannot be upgraded ends it: no other is begun, and the cluster is DEGRADED,
    of two versions that get on with each other. A cancel ends it between two nodes. Asking for the
    same version again goes on with the nodes that are left."""

    @workflow.init
    def __init__(self, operation: OperationId) -> None:
        self._operation = operation
        self._done = 0
        self._troubles: list[str] = []
        self._warnings: list[str] = []

    @workflow.run
    async def run(self, operation: OperationId) -> None:
        await carry_out(operation, self._upgrade, failed=None)

    async def _upgrade(self, plan: ClusterPlan, _brief: Brief) -> Reached:
        upgrade = _wanted(plan)
        await self._prepare(plan, upgrade)
        for machine in upgrade.control_plane:
            lead = upgrade.leads and machine == upgrade.control_plane[0]
            await self._node(plan, upgrade, machine, lead=lead)
            self._refuse_to_roll_on()
        await self._network(plan, upgrade)
        self._refuse_to_roll_on()
        for pool in upgrade.pools:
            await self._before(plan, pool)
            await self._pool(plan, upgrade, pool)
            self._refuse_to_roll_on()
        told = [f"every node runs {upgrade.release.version}", *self._warned()]
        return Reached.well(self._operation, None, "; ".join(told))

    async def _prepare(self, plan: ClusterPlan, upgrade: Upgrade) -> None:
        """Nothing is touched before all of this is well. Once a control plane runs the release, a
        copy of etcd would only push out the one that was taken before it did."""
        nodes = [self._asked(plan, upgrade, machine) for machine in upgrade.working]
        await together(*(do(Kubernetes.wait_node, node, BRIEF) for node in nodes))
        if upgrade.forewarned:
            first = self._upgrading(plan, upgrade, upgrade.working[0], lead=True)
            evidence = await do(Kubeadm.foresee, first, PATIENT)
            await self._say(f"kubeadm foresees: {evidence}")
        if upgrade.leads and upgrade.working:
            name = f"before-{upgrade.release.version}-{self._operation}"
            snapshot = Snapshot(machine=upgrade.working[0], name=name)
            where = await do(Kubeadm.back_up, snapshot, PATIENT)
            await self._say(f"etcd and the certificates are kept: {where}")

    async def _network(self, plan: ClusterPlan, upgrade: Upgrade) -> None:
        """Before the workers: as long as one of them is of the old version the same upgrade can be
        asked for again, and applies it again."""
        for machine in upgrade.through[:1]:
            node = self._asked(plan, upgrade, machine)
            try:
                await do(Kubernetes.install_network, node, BRIEF)
            except FailureError as error:
                if pushed_aside(error):
                    raise
                self._troubles.append(f"the pod network ({understood(error).message})")

    async def _before(self, plan: ClusterPlan, pool: PoolUpgrade) -> None:
        """Whatever has to be waited for before a pool is touched."""
        if plan.approve_each:
            await helm().approved(pool.gate)

    async def _pool(self, plan: ClusterPlan, upgrade: Upgrade, pool: PoolUpgrade) -> None:
        room = asyncio.Semaphore(upgrade.at_once)

        async def in_turn(machine: Machine) -> None:
            async with room:
                if not self._troubles:
                    await self._node(plan, upgrade, machine)

        await together(*map(in_turn, pool.machines))

    async def _node(
        self, plan: ClusterPlan, upgrade: Upgrade, machine: Machine, *, lead: bool = False
    ) -> None:
        renewal = Renewal(
            upgrading=self._upgrading(plan, upgrade, machine, lead=lead),
            node=self._asked(plan, upgrade, machine),
            drain_seconds=upgrade.drain_seconds,
            drain_policy=upgrade.drain_policy,
        )
        name = f"m-{plan.uid[:8]}-{machine.named}-upgrade-{self._operation}"
        renewed = await child(UpgradeNode.run, renewal, id=name)
        if renewed.warning:
            self._warnings.append(renewed.warning)
        if renewed.trouble:
            self._troubles.append(f"{machine.named} ({renewed.trouble})")
            return
        self._done += 1
        said = f"{machine.named} runs {upgrade.release.version}"
        await self._say(said, headline=upgrade.headline(self._done))

    async def _say(self, note: str, *, headline: str = "") -> None:
        reached = Reached(operation=self._operation, note=note, headline=headline)
        await book(Progress.record, reached)

    def _refuse_to_roll_on(self) -> None:
        """A cluster in which a node did not come back takes no other node down."""
        if self._troubles:
            told = [f"stopped at {'; '.join(sorted(self._troubles))}", *self._warned()]
            raise ApplicationError("; ".join(told), type="Failed", non_retryable=True)

    def _warned(self) -> list[str]:
        return [f"warnings: {'; '.join(sorted(self._warnings))}"] if self._warnings else []

    def _upgrading(
        self, plan: ClusterPlan, upgrade: Upgrade, machine: Machine, *, lead: bool
    ) -> Upgrading:
        others = [each for each in upgrade.through if each.named != machine.named]
        return Upgrading(
            machine=machine,
            release=upgrade.release,
            through=(others or [machine])[0],
            endpoint=plan.endpoint,
            lead=lead,
        )

    def _asked(self, plan: ClusterPlan, upgrade: Upgrade, machine: Machine) -> Node:
        """The node as it is to be. Of the control planes itself is asked last: its own API goes
        away for a while."""
        others = [each for each in upgrade.through if each.named != machine.named]
        itself = [machine] if machine.slot.role is Role.CONTROL_PLANE else []
        return Node(
            slot=machine.slot.model_copy(update={"release": upgrade.release}),
            endpoint=plan.endpoint,
            addresses=tuple(each.address for each in (*others, *itself)),
            workless=not plan.workers,
        )


def _wanted(plan: ClusterPlan) -> Upgrade:
    if plan.upgrade is None:
        message = "its plan does not say what is to be upgraded"
        raise ApplicationError(message, type="Failed", non_retryable=True)
    return plan.upgrade
