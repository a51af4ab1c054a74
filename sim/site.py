"""A whole site: a MAAS region, the hosts behind it, a Ceph cluster, and a window for whoever tests
or shows it.

The manager of Ceph is below `/ceph`. The window is plain HTTP beside the region's own API, without
credentials:

    GET /site/machines      every machine with what the region knows of it
    GET /site/invariants    what is held, and whatever must never be so and is
    GET, POST, DELETE /site/faults
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from sim.ceph import SimulatedCeph, SimulatedCluster
from sim.clusters import SimulatedClusters
from sim.faults import Fault, Faults
from sim.hosts import SimulatedHosts
from sim.kubernetes import SimulatedApiServers
from sim.ledger import Ledger
from sim.maas import SimulatedMaas
from sim.maas.machine import ERASED, OWNED, Machine, Status, Stocked
from sim.metal import Hosts
from sim.pace import Clock, Pace

FAULTS = TypeAdapter(list[Fault])

ZONES = ("rack-a", "rack-b", "rack-c")


@runtime_checkable
class Inspected(Protocol):
    """Hosts that can say how they are. Two words are read, others are passed on as they come:
    `violations`, sentences about what must never be so, and `installed`, the system ids of
    machines with a system on their disks."""

    def inspect(self) -> dict[str, Any]: ...


@runtime_checkable
class Running(Protocol):
    """Hosts that need to be started and stopped themselves."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def stock(machines: int) -> list[Stocked]:
    """So many machines, spread over racks: every third `large`, every fourth with a `gpu`."""
    return [
        Stocked(
            hostname=f"{ZONES[index % len(ZONES)]}-{index:03}",
            zone=ZONES[index % len(ZONES)],
            tags=("metal", *(["large"] * (index % 3 == 2)), *(["gpu"] * (index % 4 == 3))),
            cpu_count=16 if index % 3 == 2 else 4,
            memory=65536 if index % 3 == 2 else 16384,
        )
        for index in range(machines)
    ]


class Site:
    """The region and its hosts, started and stopped together. All of it shares one ledger, one
    plan of faults and one clock, and goes on after a kill where it was."""

    def __init__(
        self,
        maas: SimulatedMaas,
        *,
        hosts: Hosts,
        faults: Faults,
        ceph: SimulatedCeph | None = None,
    ) -> None:
        self.maas, self.hosts, self.faults, self.ceph = maas, hosts, faults, ceph

    async def start(self, host: str, port: int) -> str:
        """Serve, and return the region's URL. Hosts come first: transitions need them."""
        if isinstance(self.hosts, Running):
            await self.hosts.start()
        return await self.maas.start(host, port, beside=self._window())

    async def stop(self) -> None:
        if self.ceph is not None:
            self.ceph.stop()
        await self.maas.stop()
        if isinstance(self.hosts, Running):
            await self.hosts.stop()

    def _window(self) -> list[web.RouteDef]:
        return [
            web.get("/site/machines", self._machines),
            web.get("/site/invariants", self._invariants),
            web.get("/site/faults", self._show_faults),
            web.post("/site/faults", self._add_faults),
            web.delete("/site/faults", self._clear_faults),
            *(self.ceph.routes() if self.ceph else ()),
        ]

    def inspect(self) -> dict[str, Any]:
        """What is held, in machines and names, and every sentence that should not be true."""
        machines = list(self.maas.machines.all.values())
        hosts = self.hosts.inspect() if isinstance(self.hosts, Inspected) else {}
        return {
            "owned": [_shown(machine) for machine in machines if machine.owner],
            "dns": [
                {"fqdn": self.maas.names.fqdn(name), "addresses": name.addresses}
                for name in self.maas.names.all.values()
            ],
            "hosts": hosts,
            "ceph": self.ceph.cluster.ours() if self.ceph else {},
            "violations": [
                *_violations(machines),
                *_unbooted(machines, hosts.get("installed")),
                *hosts.get("violations", []),
                *(self.ceph.cluster.violations() if self.ceph else ()),
            ],
        }

    async def _machines(self, _: web.Request) -> web.Response:
        return web.json_response([_shown(machine) for machine in self.maas.machines.all.values()])

    async def _invariants(self, _: web.Request) -> web.Response:
        return web.json_response(self.inspect())

    async def _show_faults(self, _: web.Request) -> web.Response:
        return web.json_response(
            [
                {"fault": fault.model_dump(mode="json"), "fired": calls}
                for fault, calls in self.faults.met()
            ]
        )

    async def _add_faults(self, request: web.Request) -> web.Response:
        try:
            faults = FAULTS.validate_json(await request.read())
        except ValidationError as error:
            return web.Response(status=400, text=str(error))
        for fault in faults:
            self.faults.add(fault)
        return await self._show_faults(request)

    async def _clear_faults(self, _: web.Request) -> web.Response:
        self.faults.clear()
        return web.Response(status=204)


def compose(
    stock: Iterable[Stocked],
    *,
    ledger: Ledger,
    faults: Faults,
    clock: Clock,
    pace: Pace,
    network: str,
    ssh_port: int,
    api_key: str,
    ceph_password: str,
    domain: str,
) -> Site:
    """The site as people get it: a region, hosts that kubeadm runs on, the Kubernetes APIs they
    end up serving, and a Ceph cluster. For the hosts, names resolve by the region's own records."""
    clusters = SimulatedClusters(ledger=ledger, clock=clock, pace=pace, faults=faults)
    clusters.serve_with(SimulatedApiServers(clusters, clock, faults))
    hosts = SimulatedHosts(
        ledger=ledger,
        faults=faults,
        clock=clock,
        pace=pace,
        clusters=clusters,
        ssh_port=ssh_port,
        resolve=lambda name: maas.names.resolve(name),
    )
    maas = SimulatedMaas(
        stock,
        hosts=hosts,
        ledger=ledger,
        faults=faults,
        clock=clock,
        pace=pace,
        network=network,
        api_key=api_key,
        domain=domain,
    )
    storage = SimulatedCluster(ledger, faults, clock=clock)
    ceph = SimulatedCeph(storage, faults, clock, password=ceph_password)
    return Site(maas, hosts=hosts, faults=faults, ceph=ceph)


def _shown(machine: Machine) -> dict[str, Any]:
    return {
        "system_id": machine.system_id,
        "hostname": machine.hostname,
        "status": machine.status.said,
        "owner": machine.owner,
        "agent_name": machine.agent_name,
        "address": machine.address if machine.claimed else "",
        "powered": machine.powered,
        "zone": machine.zone,
        "tags": machine.tags,
        "annotations": machine.annotations,
    }


def _violations(machines: Iterable[Machine]) -> Iterator[str]:
    """What a region can tell by itself. Nothing here may hold even for a moment, except that two
    allocations under one name may meet before the second is given back. A machine whose disks are
    erased, or were not, keeps a name that may be another's by then."""
    held = [machine for machine in machines if machine.status not in ERASED]
    names = Counter(machine.agent_name for machine in held if machine.agent_name)
    yield from (f"{count} machines carry {name}" for name, count in names.items() if count > 1)
    for machine in machines:
        what = f"{machine.system_id} is {machine.status.said}"
        if machine.agent_name and not machine.owner:
            yield f"{what} and carries {machine.agent_name} but has no owner"
        if machine.status in OWNED and not machine.owner:
            yield f"{what} but has no owner"
        if machine.status is Status.READY and (machine.owner or machine.annotations):
            yield f"{what} but still marked: {machine.owner} {machine.annotations}"


def _unbooted(machines: Iterable[Machine], installed: list[str] | None) -> Iterator[str]:
    """Disagreements between the region and the hosts, if the hosts say what is installed."""
    if installed is None:
        return
    for machine in machines:
        there = machine.system_id in installed
        if machine.status is Status.DEPLOYED and not there:
            yield f"{machine.system_id} is Deployed but has no host"
        if machine.status in (Status.READY, Status.ALLOCATED) and there:
            yield f"{machine.system_id} is {machine.status.said} but still has a system on it"
