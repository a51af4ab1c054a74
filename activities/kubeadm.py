"""Hosts made into nodes, over SSH."""

from temporalio import activity

from activities.waiting import until_true
from domain.machine import Machine
from domain.ports import Joining, Nodes, Snapshot, Upgrading


class Kubeadm:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    @activity.defn(name="kubeadm.reach")
    async def reach(self, machine: Machine) -> None:
        """Only looks, and pins the host's key the first time."""
        what = f"{machine.named} was to answer SSH at {machine.address}"
        await until_true(what, lambda: self._nodes.reach(machine))

    @activity.defn(name="kubeadm.preflight")
    async def preflight(self, machine: Machine) -> None:
        """Only looks."""
        await self._nodes.preflight(machine)

    @activity.defn(name="kubeadm.initialise")
    async def initialise(self, joining: Joining) -> None:
        """Safe to repeat: a run under way or over is found, not begun again."""
        await self._nodes.initialise(joining)

    @activity.defn(name="kubeadm.join")
    async def join(self, joining: Joining) -> None:
        """Safe to repeat: a run under way or over is found, not begun again."""
        await self._nodes.join(joining)

    @activity.defn(name="kubeadm.leave")
    async def leave(self, joining: Joining) -> None:
        """Safe to repeat: no such etcd member is success."""
        await self._nodes.leave(joining)

    @activity.defn(name="kubeadm.reset")
    async def reset(self, machine: Machine) -> None:
        """Safe to repeat. An undo by courtesy: the release that follows wipes the disk anyway."""
        await self._nodes.reset(machine)

    @activity.defn(name="kubeadm.foresee")
    async def foresee(self, upgrading: Upgrading) -> str:
        """Safe to repeat: kubeadm is asked, and installed if it is not the release's yet."""
        return await self._nodes.foresee(upgrading)

    @activity.defn(name="kubeadm.back_up")
    async def back_up(self, snapshot: Snapshot) -> str:
        """Safe to repeat: a copy of the same name is replaced."""
        return await self._nodes.back_up(snapshot)

    @activity.defn(name="kubeadm.upgrade")
    async def upgrade(self, upgrading: Upgrading) -> None:
        """Safe to repeat: a run under way or over is found, not begun again."""
        await self._nodes.upgrade(upgrading)

    @activity.defn(name="kubeadm.renew_kubelet")
    async def renew_kubelet(self, upgrading: Upgrading) -> None:
        """Safe to repeat: a run under way or over is found, not begun again."""
        await self._nodes.renew_kubelet(upgrading)

    @activity.defn(name="kubeadm.see_through")
    async def see_through(self, upgrading: Upgrading) -> bool:
        """Safe to repeat: it waits for what is under way and begins nothing, so that whoever calls
        an upgrade off starts none. Whether the kubelet was renewed."""
        return await self._nodes.see_through(upgrading)
