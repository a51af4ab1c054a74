"""All simulated hosts of a site: their power, their boots, and what is wrong with them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import asyncssh

from domain.machine import Role
from domain.releases import Version
from domain.upgrades import tolerates
from sim.clusters import SimulatedClusters
from sim.faults import NEVER_SECONDS, Fault, Faults, How
from sim.hosts import cloud_init, commands, etcd, file_commands, kubeadm, locks, services
from sim.hosts.disk import ROOT, Disk, recalled
from sim.hosts.host import NODES, Host, HostState, Kind, Shared
from sim.hosts.kubeadm.init import KUBELET_CONF, MANIFESTS
from sim.hosts.shell import Call, Command, Written, run_unit
from sim.hosts.sshd import Sshd
from sim.ledger import Ledger
from sim.metal import Installed
from sim.pace import Clock, Pace

COMMANDS: dict[str, Command] = (
    commands.COMMANDS
    | file_commands.COMMANDS
    | services.COMMANDS
    | kubeadm.COMMANDS
    | etcd.COMMANDS
)
_FIRST_BOOT_LOG = "/var/log/cloud-init-output.log"


class SimulatedHosts:
    """The machines' other half: see `sim.metal.Hosts` for what its callers may expect.

    Made from a ledger that knows hosts already, it is the same site after its process was killed:
    `start` lets those that were on go on, with the jobs that they were at."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        faults: Faults,
        clock: Clock,
        pace: Pace,
        clusters: SimulatedClusters,
        ssh_port: int = 22,
        resolve: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """Every host listens on `ssh_port` of its own address. With `resolve`, a name leads to an
        API only while it resolves; without, it leads to the cluster that bears it."""
        self._shared = Shared(
            ledger=ledger,
            faults=faults,
            clock=clock,
            pace=pace,
            clusters=clusters,
            resolve=resolve,
            reboot=self._reboot_soon,
            run_unit=lambda host, name: run_unit(host, COMMANDS, name),
        )
        self._port = ssh_port
        self._tasks: set[asyncio.Task[None]] = set()
        self._hosts: dict[str, Host] = {}
        self._servers: dict[str, Sshd] = {}
        files = recalled(ledger)
        for identity, state in ledger.recall("host", HostState).items():
            disk = Disk(identity, ledger, clock, faults, files.get(identity))
            self._add(Host(self._shared, state, disk))

    async def start(self) -> None:
        """Let the hosts that were on when the process was killed go on. What ran in a shell has
        died with it; what systemd ran is carried on."""
        for host in self._hosts.values():
            if host.state.powered:
                host.end_runs("killed", unit="")
                self._start(host)

    async def stop(self) -> None:
        """Stop serving, as a killed process would: nothing is recorded."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for host in self._hosts.values():
            await self._stop(host)

    def host(self, system_id: str) -> Host | None:
        """A host's inside, for tests."""
        return self._hosts.get(system_id)

    async def boot(self, machine: Installed) -> None:
        await self.wipe(machine.system_id)
        key = asyncssh.generate_private_key("ssh-ed25519", comment=machine.hostname)
        now = self._shared.clock.now()
        answers = now + self._boot_seconds(machine.system_id)
        first_boot = cloud_init.read(machine.user_data)
        settles = answers + self._shared.pace.cloud_init
        match self._shared.faults.meet(f"cloud-init {machine.system_id}"):
            case Fault(how=How.SLOW, seconds=seconds):
                settles += seconds
            case Fault(how=How.HANG):
                settles += NEVER_SECONDS
            case Fault(message=message):
                first_boot = first_boot.model_copy(update={"fault": message})
        state = HostState(
            machine=machine,
            host_key=key.export_private_key().decode(),
            boot_id=str(uuid4()),
            answers_from=answers,
            settled_from=settles,
            first_boot=first_boot,
        )
        shared = self._shared
        disk = Disk(machine.system_id, shared.ledger, shared.clock, shared.faults)
        disk.format()
        host = Host(self._shared, state, disk)
        cloud_init.lay_out(state.first_boot, disk)
        disk.write("/etc/hostname", f"{state.first_boot.hostname or machine.hostname}\n".encode())
        disk.write("/etc/fstab", b"/swap.img none swap sw 0 0\n")
        disk.write("/etc/machine-id", f"{uuid4().hex}\n".encode())
        disk.write("/etc/os-release", f"VERSION_CODENAME={machine.series}\n".encode())
        _write_boot_id(host)
        host.keep()
        self._add(host)
        self._start(host)

    async def power_off(self, system_id: str) -> None:
        host = self._hosts.get(system_id)
        if host is None or not host.state.powered:
            return
        await self._stop(host)
        host.state.powered = False
        host.state.units.clear()
        host.end_runs("interrupted")

    async def power_on(self, system_id: str) -> None:
        host = self._hosts.get(system_id)
        if host is None or host.state.powered:
            return
        host.state.powered = True
        host.state.boot_id = str(uuid4())
        host.state.answers_from = self._shared.clock.now() + self._boot_seconds(system_id)
        _write_boot_id(host)
        host.keep()
        self._start(host)

    async def wipe(self, system_id: str) -> None:
        host = self._hosts.pop(system_id, None)
        if host is None:
            return
        await self._stop(host)
        del self._servers[system_id]
        await self._shared.clusters.wipe_host(host.address)
        host.disk.erase()
        self._shared.ledger.drop("host", system_id)

    def inspect(self) -> dict[str, Any]:
        """What happened, for tests: each host's runs of kubeadm, what every node runs, and
        everything that should never have been. Ask when nothing is under way, since a join is
        several steps."""
        return {
            "installed": sorted(self._hosts),
            "hosts": {host.id: _shown(host) for host in self._hosts.values()},
            "cordoned": [
                node.name
                for cluster in self._shared.clusters.all()
                for node in self._shared.clusters.nodes(cluster.uid)
                if node.unschedulable
            ],
            "nodes": [
                {
                    "endpoint": cluster.endpoint,
                    "name": node.name,
                    "kubelet": node.version,
                    "api": cluster.apis.get(node.address, ""),
                }
                for cluster in self._shared.clusters.all()
                for node in self._shared.clusters.nodes(cluster.uid)
            ],
            "violations": [
                *(text for host in self._hosts.values() for text in host.state.violations),
                *self._strangers(),
                *self._skewed(),
            ],
        }

    def _strangers(self) -> list[str]:
        """Clusters whose etcd members, control-plane nodes and control-plane hosts differ. One
        that no host has come to the end of founding is none."""
        found = []
        clusters = self._shared.clusters
        for cluster in clusters.all():
            members = sorted(cluster.members)
            nodes = sorted(
                node.name for node in clusters.nodes(cluster.uid) if node.role is Role.CONTROL_PLANE
            )
            hosts = sorted(
                host.state.kubeadm.name
                for host in self._hosts.values()
                if host.state.kubeadm.kind is Kind.CONTROL_PLANE
                and host.state.kubeadm.cluster == cluster.uid
            )
            if hosts and not members == nodes == hosts:
                found.append(f"{cluster.endpoint}: members {members}, nodes {nodes}, hosts {hosts}")
        return found

    def _skewed(self) -> list[str]:
        """What the version skew policy forbids: a kubelet newer than its API server, or much older,
        and API servers more than a minor version apart. A control plane's kubelet goes with its own
        server, as in kubeadm's own order; a worker's may meet any."""
        found = []
        clusters = self._shared.clusters
        for cluster in clusters.all():
            apis = {at: Version.parse(version) for at, version in cluster.apis.items()}
            oldest, newest = min(apis.values(), default=None), max(apis.values(), default=None)
            if oldest is None or newest is None:
                continue
            if newest.minor > oldest.minor + 1:
                found.append(f"{cluster.endpoint}: API servers {oldest} and {newest}")
            for node in clusters.nodes(cluster.uid):
                kubelet, api = Version.parse(node.version), apis.get(node.address, oldest)
                if kubelet.minor > api.minor or not tolerates(kubelet, newest):
                    on = f"kubelet {kubelet} on {node.name}"
                    found.append(f"{cluster.endpoint}: {on}, API {api}")
        return found

    def _boot_seconds(self, system_id: str) -> float:
        return self._shared.pace.boot + self._shared.faults.lasts(f"boot {system_id}")

    def _add(self, host: Host) -> None:
        self._hosts[host.id] = host
        self._servers[host.id] = Sshd(host, COMMANDS, self._port)

    def _start(self, host: Host) -> None:
        host.spawn(self._up(host))

    async def _up(self, host: Host) -> None:
        """Boot, or be up again after the site was killed, and finish the first boot."""
        clock, state = self._shared.clock, host.state
        await clock.sleep(max(0.0, state.answers_from - clock.now()))
        if _has_kubelet(host):
            node = state.kubeadm
            await self._shared.clusters.host_started(host.address, node.cluster, node.name)
            services.kubelet_up(host)
        for name, unit in list(state.units.items()):
            host.begin_unit(name, unit)
        await self._servers[host.id].open()
        if not state.settled:
            await clock.sleep(max(0.0, state.settled_from - clock.now()))
            await _settle(host)

    async def _stop(self, host: Host) -> None:
        self._servers[host.id].close()
        await host.halt()
        await self._shared.clusters.host_stopped(host.address)

    def _reboot_soon(self, system_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._reboot(system_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reboot(self, system_id: str) -> None:
        await self.power_off(system_id)
        await self.power_on(system_id)


def _has_kubelet(host: Host) -> bool:
    """Whether systemd starts a node's kubelet: that of a host which kubeadm is still making a node,
    too, once it has written where the cluster is and, on a server, what to run."""
    state = host.state.kubeadm
    begun = state.kind is Kind.PARTIAL and host.disk.exists(KUBELET_CONF)
    cluster = host.shared.clusters.get(state.cluster)
    serves = cluster is not None and host.address in cluster.servers
    return state.kind in NODES or (begun and (not serves or host.disk.exists(MANIFESTS[-1])))


async def _settle(host: Host) -> None:
    """The last stage of cloud-init: packages, then the commands as one script."""
    state = host.state
    if state.first_boot.packages and await locks.held(host, locks.patience(host.disk)):
        state.cloud_init_error = "('package_update_upgrade_install', could not get dpkg's lock)"
    log = Written(host.disk, _FIRST_BOOT_LOG, ROOT)
    packages = list(state.first_boot.packages)
    if missing := services.unpublished(packages):
        await log.write("\n".join(missing).encode() + b"\n")
        state.cloud_init_error = (
            "('package-update-upgrade-install', ProcessExecutionError(\"Unexpected error while "
            'running command.\\nExit code: 100\\nReason: -\\nStdout: -\\nStderr: -"))'
        )
    else:
        services.install(host, packages)
    status = 0
    for command in state.first_boot.commands:
        call = Call(host, COMMANDS, ROOT, ["sh"], log, log, unit="cloud-final")
        status = await call.script(command)
    if state.first_boot.fault or (status and not state.cloud_init_error):
        state.cloud_init_error = state.first_boot.fault or f"runcmd ended with {status}"
    state.settled = True
    host.keep()


def _write_boot_id(host: Host) -> None:
    text = f"{host.state.boot_id}\n"
    host.disk.write("/proc/sys/kernel/random/boot_id", text.encode(), mode=0o444)


def _shown(host: Host) -> dict[str, Any]:
    state = host.state
    return {
        "hostname": host.name,
        "address": host.address,
        "powered": state.powered,
        "settled": state.settled,
        "packages": dict(state.packages),
        "kubeadm": state.kubeadm.kind.value,
        "node": state.kubeadm.name,
        "runs": [run.model_dump() for run in state.kubeadm.runs],
        "counts": dict(Counter(state.kubeadm.counts)),
    }
