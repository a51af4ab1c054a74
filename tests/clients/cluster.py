"""Clusters of simulated hosts for tests of the SSH client, and the client that works on them."""

from collections.abc import Awaitable, Callable

from clients.ssh import SshNodes
from domain.errors import Unavailable
from domain.machine import Machine, Role
from domain.ports import Joining, Upgrading, ssh_key
from domain.releases import Release
from sim.faults import Fault, How
from tests.metal import Metal
from tests.vaults import MemoryBackups, MemoryVault

ENDPOINT = "hello.windlass.test"


def founding(machine: Machine) -> Joining:
    return Joining(machine=machine, through=machine, endpoint=ENDPOINT)


def joining(machine: Machine, through: Machine, *others: Machine) -> Joining:
    return Joining(machine=machine, through=through, endpoint=ENDPOINT, others=others)


async def insist(attempt: Callable[[], Awaitable[object]], tries: int = 5) -> int:
    """Try again as long as that is worth it, as an activity does. How many tries it took."""
    for number in range(1, tries):
        try:
            await attempt()
        except Unavailable:
            continue
        return number
    await attempt()
    return tries


class Cluster:
    """A cluster that stands, and those who upgrade it."""

    def __init__(self, site: Metal) -> None:
        self.site = site
        self.vault = MemoryVault()
        self.vault.secrets[ssh_key(site.cluster_uid)] = site.key.export_private_key()
        self.nodes = self.worker()

    def worker(self) -> SshNodes:
        """Another process that does the same."""
        return SshNodes(self.vault, MemoryBackups(), port=self.site.port, voter_seconds=10)

    async def found(self) -> Machine:
        machine = await self.site.install("cp-1")
        await self.nodes.initialise(founding(machine))
        self.site.clusters.network_applied(self.uid)
        return machine

    async def join(self, name: str, through: Machine, role: Role = Role.WORKER) -> Machine:
        machine = await self.site.install(name, role)
        await self.nodes.join(joining(machine, through))
        return machine

    @property
    def uid(self) -> str:
        (cluster,) = self.site.clusters.all()
        return cluster.uid

    def kubelet(self, machine: Machine) -> str:
        node = self.site.clusters.node(self.uid, machine.slot.name)
        assert node is not None
        return node.version

    def api(self, machine: Machine) -> str:
        (cluster,) = self.site.clusters.all()
        return cluster.apis[machine.address]

    def fault(self, where: str, how: How, **more: object) -> None:
        self.site.faults.add(Fault.model_validate({"where": where, "how": how, **more}))

    def upgrades(self, machine: Machine) -> list[tuple[str, str]]:
        """How kubeadm's upgrades of a host went."""
        runs = self.site.runs(machine)
        return [(verb, result) for verb, result in runs if verb.startswith("upgrade")]

    @property
    def violations(self) -> list[str]:
        violations: list[str] = self.site.hosts.inspect()["violations"]
        return violations


def to(
    version: str, machine: Machine, through: Machine | None = None, *, lead: bool = False
) -> Upgrading:
    return Upgrading(
        machine=machine,
        release=Release(version=version, series="jammy"),
        through=through or machine,
        endpoint=ENDPOINT,
        lead=lead,
    )
