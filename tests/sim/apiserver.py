"""A simulated cluster to test against: real HTTPS servers, and hosts that are there by decree."""

import asyncio
import json
import os
import secrets
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from domain import kubeconfig
from sim.clusters import SimulatedClusters
from sim.clusters.cluster import Cluster, Founding, Joiner
from sim.faults import Faults
from sim.kubernetes import SimulatedApiServers
from sim.ledger import Ledger
from sim.pace import INSTANT, Clock, Pace, WallClock
from tests.metal import free_port

NAME = "hello"
ENDPOINT = f"{NAME}.windlass.test"
VERSION = "1.32.1"

NETWORK: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "network", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "network"}},
        "template": {
            "metadata": {"labels": {"app": "network"}},
            "spec": {
                "hostNetwork": True,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "network", "image": "network:1"}],
                "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}],
            },
        },
    },
}


@dataclass
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> list[list[str]]:
        """The output as lines of words, the heading excepted."""
        return [line.split() for line in self.out.splitlines()[1:]]


@dataclass
class Built:
    """One cluster with its API servers."""

    uid: str
    prefix: str
    port: int
    clusters: SimulatedClusters
    servers: SimulatedApiServers
    faults: Faults
    ledger: Ledger
    home: Path
    used: int = 0
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        cluster = self.clusters.get(self.uid)
        assert cluster is not None
        return cluster

    @property
    def url(self) -> str:
        return f"https://{self.prefix}.1:{self.port}"

    def address(self, name: str) -> str:
        self.used += 1
        return self.addresses.setdefault(name, f"{self.prefix}.{self.used}")

    async def initialise(self, name: str = "cp-1") -> None:
        await self.clusters.initialise(
            Founding(
                uid=self.uid,
                endpoint=ENDPOINT,
                port=self.port,
                version=VERSION,
                name=name,
                address=self.address(name),
            )
        )

    async def control_plane(self, name: str) -> None:
        joiner = Joiner(name=name, address=self.address(name), version=VERSION)
        await self.clusters.join_control_plane(self.uid, joiner)
        self.clusters.promote(self.uid, name)

    async def worker(self, name: str) -> None:
        joiner = Joiner(name=name, address=self.address(name), version=VERSION)
        await self.clusters.join_worker(self.uid, joiner)

    def kubeconfig(self) -> str:
        """The administrator's, leading to the first host."""
        document = json.loads(self.cluster.kubeconfig)
        return json.dumps(kubeconfig.rewritten(document, cluster=NAME, server=self.url))

    def caller(self, pair: Any = None) -> httpx2.AsyncClient:
        """A foreign client with the administrator's certificate, or another."""
        return httpx2.AsyncClient(
            base_url=self.url, verify=trusting(self, pair or self.cluster.admin), trust_env=False
        )

    def stranger(self) -> httpx2.AsyncClient:
        """A client that has no certificate."""
        return httpx2.AsyncClient(base_url=self.url, verify=trusting(self, None), trust_env=False)

    async def kubectl(self, *words: str, given: str = "") -> Said:
        """Run the real thing. Nothing it finds or leaves is shared with another test."""
        config = self.home / "config"
        config.write_text(self.kubeconfig())
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("kubectl"),
            f"--kubeconfig={config}",
            f"--cache-dir={self.home / 'cache'}",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
        )
        out, err = await process.communicate(given.encode())
        return Said(process.returncode or 0, out.decode(), err.decode())


def trusting(built: Built, pair: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=built.cluster.authority.certificate)
    if pair is not None:
        file = built.home / f"{secrets.token_hex(4)}.pem"
        file.write_text(pair.certificate + pair.key)
        context.load_cert_chain(file)
    return context


@asynccontextmanager
async def built(
    home: Path,
    *,
    clock: Clock | None = None,
    pace: Pace = INSTANT,
    path: Path | None = None,
    like: Built | None = None,
) -> AsyncIterator[Built]:
    """A site that can have one cluster. `like` another: in its place, from the same ledger."""
    prefix = like.prefix if like else _prefix()
    ledger, faults, clock = Ledger(path), Faults(), clock or WallClock()
    clusters = SimulatedClusters(ledger=ledger, clock=clock, pace=pace, faults=faults)
    servers = SimulatedApiServers(clusters, clock, faults)
    clusters.serve_with(servers)
    port = like.port if like else free_port(f"{prefix}.1")
    uid = like.uid if like else secrets.token_hex(16)
    site = Built(uid, prefix, port, clusters, servers, faults, ledger, home)
    try:
        yield site
    finally:
        await servers.close()
        ledger.close()


def _prefix() -> str:
    return f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
