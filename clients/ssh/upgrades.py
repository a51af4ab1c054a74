"""Nodes that take on another release: their kubeadm, what it does to them, and their kubelet.

Every part is a job of its own, about one release. One that has come to a good end is believed only
as long as the host agrees; so an upgrade that is asked for again skips what is done, and does again
what somebody has undone."""

import json
import re

from pydantic import BaseModel, Field, ValidationError

from clients.ssh.connections import Connections, line, named, root
from clients.ssh.failures import UPGRADE_FINAL, UPGRADING, failure
from clients.ssh.jobs import Jobs, Repeats, Seen, Step
from clients.ssh.packages import installing
from domain.errors import Failed, Unavailable
from domain.machine import Machine, Role
from domain.ports import Upgrading
from domain.releases import Version

UPGRADE_STEPS = ("kubeadm", "upgrade", "kubelet")
"""The names of the jobs in here."""

_MANIFESTS = tuple(
    f"/etc/kubernetes/manifests/{component}.yaml"
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
)
_IMAGE = re.compile(r"image:\s*\S*?/?(kube-[a-z-]+):v(\S+)")
_VERSION = re.compile(r"\bv(\d+\.\d+\.\d+)\b")
_PLAN_SECONDS = 300
_RESTART = (("systemctl", "daemon-reload"), ("systemctl", "restart", "kubelet"))


class _Component(BaseModel):
    name: str
    currentVersion: str  # noqa: N815 - kubeadm's own words
    newVersion: str  # noqa: N815


class _Available(BaseModel):
    components: list[_Component] = Field(default_factory=list)


class _Plan(BaseModel):
    """What `kubeadm upgrade plan -o json` writes, as far as we ask."""

    availableUpgrades: list[_Available] | None = None  # noqa: N815


class Upgrades:
    """Upgrades of hosts that are nodes."""

    def __init__(self, connections: Connections, jobs: Jobs) -> None:
        self._connections = connections
        self._jobs = jobs

    async def foresee(self, upgrading: Upgrading) -> str:
        """What kubeadm itself says of the upgrade. Its own package is all that it may change."""
        machine, version = upgrading.machine, upgrading.release.version
        await self._install_kubeadm(machine, version)
        command = root("kubeadm", "upgrade", "plan", f"v{version}", "-o", "json")
        answer = await self._connections.run(machine, command, seconds=_PLAN_SECONDS)
        if answer.status:
            what = f"kubeadm upgrade plan on {named(machine)}"
            said = answer.err or answer.out
            raise failure(what, answer.status, said, UPGRADING, final=UPGRADE_FINAL)
        coming = changes(machine, answer.out, version)
        if coming:
            return f"kubeadm {version} would upgrade {', '.join(coming)}"
        if await self._serves(machine, version):
            return f"kubeadm {version} has nothing to upgrade: the cluster is configured for it"
        raise Failed(
            f"kubeadm on {named(machine)} knows of no upgrade to {version}",
            subject=machine.slot.name,
            reason="NO_UPGRADE",
            do="ask which versions the cluster can be upgraded to, and choose among them",
        )

    async def upgrade(self, upgrading: Upgrading) -> None:
        """Let the release's kubeadm upgrade the node. On a control plane it is done once its static
        pods are the release's."""
        machine, version = upgrading.machine, upgrading.release.version
        await self._install_kubeadm(machine, version)
        step, controls = _step(upgrading), machine.slot.role is Role.CONTROL_PLANE
        if controls and await self._jobs.is_done(machine, step):
            if await self._serves(machine, version):
                return
            await self._jobs.forget(machine, step.name)
        await self._jobs.carry_out(machine, step, _nothing)
        if controls and not await self._serves(machine, version):
            raise Failed(
                f"kubeadm left {named(machine)} as it was, not at {version}: the cluster's "
                "configuration still names another version",
                subject=machine.slot.name,
                reason="LEAD_FIRST",
                do="upgrade the cluster's first control plane before the others",
            )

    async def renew_kubelet(self, upgrading: Upgrading) -> None:
        """Install the release's kubelet and kubectl, and restart the kubelet. Never a kubelet that
        is newer than the API: on a worker, than the one of the control plane that vouches."""
        machine, version = upgrading.machine, upgrading.release.version
        step = _kubelet(version)
        is_done = await self._jobs.is_done(machine, step)
        if is_done and await self._says(machine, "kubelet", "--version") == version:
            return
        await self._check_skew(upgrading)
        if is_done:
            await self._jobs.forget(machine, step.name)
        await self._jobs.carry_out(machine, step, _nothing)

    async def see_through(self, upgrading: Upgrading) -> bool:
        """Wait for whichever job of this upgrade is under way, and begin none. Whether the one that
        renews the kubelet has come to a good end."""
        machine, version = upgrading.machine, upgrading.release.version
        for step in (_kubeadm(version), _step(upgrading)):
            await self._jobs.see_out(machine, step)
        return await self._jobs.see_out(machine, _kubelet(version))

    async def _install_kubeadm(self, machine: Machine, version: str) -> None:
        probe = ("kubeadm", "version", "-o", "short")
        if await self._says(machine, *probe) == version:
            return
        step = _kubeadm(version)
        if await self._jobs.is_done(machine, step):
            await self._jobs.forget(machine, step.name)
        await self._jobs.carry_out(machine, step, _nothing)

    async def _check_skew(self, upgrading: Upgrading) -> None:
        machine, version = upgrading.machine, upgrading.release.version
        controls = machine.slot.role is Role.CONTROL_PLANE
        asked = machine if controls else upgrading.through
        api = (await self._images(asked)).get("kube-apiserver", "")
        if not _VERSION.fullmatch(f"v{api}"):
            raise Unavailable(f"{named(asked)} did not say which API server it runs")
        if Version.parse(api) < Version.parse(version):
            raise Failed(
                f"kubelet {version} on {named(machine)} would be newer than the API server "
                f"{api} on {named(asked)}",
                subject=machine.slot.name,
                reason="KUBELET_TOO_NEW",
                do="upgrade the control planes before the kubelets",
            )

    async def _serves(self, machine: Machine, version: str) -> bool:
        """Whether the host's static pods are that version's, all of them."""
        images = await self._images(machine)
        return len(images) == len(_MANIFESTS) and set(images.values()) == {version}

    async def _images(self, machine: Machine) -> dict[str, str]:
        """The versions in a control plane's manifests, by component."""
        answer = await self._connections.run(machine, root("cat", *_MANIFESTS))
        return dict(_IMAGE.findall(answer.out))

    async def _says(self, machine: Machine, *command: str) -> str:
        """The version that a program says it has; empty if it says none."""
        answer = await self._connections.run(machine, line(*command))
        found = _VERSION.search(answer.out)
        return found[1] if found else ""


def _kubeadm(version: str) -> Step:
    return installing("kubeadm", version, "kubeadm")


def _kubelet(version: str) -> Step:
    return installing("kubelet", version, "kubelet", "kubectl", then=_RESTART)


def _step(upgrading: Upgrading) -> Step:
    """What kubeadm is told to do, by what the node is to its cluster."""
    slot, version = upgrading.machine.slot, upgrading.release.version
    words = ("apply", f"v{version}", "--yes") if upgrading.lead else ("node",)
    return Step(
        "upgrade",
        ("kubeadm", "upgrade", *words),
        about=("upgrade", slot.cluster_uid, slot.name, version, words[0]),
        passing=UPGRADING,
        repeats=Repeats.UNTIL_DONE,
        final=UPGRADE_FINAL,
        title=f"kubeadm upgrade {words[0]}",
    )


def changes(machine: Machine, out: str, version: str) -> list[str]:
    """What a plan names that would come to this version, or with it: each change once, however many
    nodes it comes to. kubeadm writes nothing at all if nothing is newer than the cluster."""
    if not out.strip():
        return []
    try:
        plan = _Plan.model_validate(json.loads(out[out.index("{") :]))
    except (ValueError, ValidationError) as error:
        raise Failed(
            f"kubeadm on {named(machine)} wrote no plan: {type(error).__name__}"
        ) from error
    for available in plan.availableUpgrades or ():
        if any(component.newVersion == f"v{version}" for component in available.components):
            return list(dict.fromkeys(filter(None, map(_change, available.components))))
    return []


def _change(component: _Component) -> str:
    """What becomes of a component; nothing of one that stays. Some versions have no v in front."""
    old = component.currentVersion.removeprefix("v")
    new = component.newVersion.removeprefix("v")
    return f"{component.name} {old or 'unknown'} -> {new}" if old != new else ""


async def _nothing(_seen: Seen) -> str:
    """A job that is told everything on its command line."""
    return ""
