"""A Kubernetes cluster of real parts on one loopback address, without containers.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real ones. Nodes are
hollow: the kubelet's code over a container runtime that only says so."""

import os
import secrets
import ssl
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from sim.clusters import authority
from sim.clusters.authority import Pair
from tests.conformance.processes import eventually, running, stop
from tests.metal import free_port

SERVE_SECONDS = 60
NODE_SECONDS = 60
_ADVERTISED = "192.0.2.1"
"""Of a network that is for examples: a server will not advertise a loopback address."""


@dataclass
class Cluster:
    """What runs, and how to reach it."""

    programs: Mapping[str, Path]
    home: Path
    stack: AsyncExitStack
    address: str
    authority: Pair = field(default_factory=lambda: authority.authority("kubernetes"))
    nodes: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.admin = authority.client(self.authority, "kubernetes-admin", "system:masters")
        self.port = free_port(self.address)
        self.etcd_port = free_port(self.address)

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def kubeconfig(self) -> str:
        return authority.kubeconfig(
            self.url, self.authority.certificate, "kubernetes-admin", self.admin
        )

    def caller(self) -> httpx2.AsyncClient:
        """A client that is not ours, as the administrator."""
        context = ssl.create_default_context(cadata=self.authority.certificate)
        context.load_cert_chain(self.home / "admin.pem")
        return httpx2.AsyncClient(base_url=self.url, verify=context, trust_env=False, timeout=10)

    async def start(self) -> None:
        self._write("ca.pem", self.authority.certificate)
        self._write("admin.pem", self.admin.certificate + self.admin.key)
        self._write("admin.conf", self.kubeconfig)
        serving = authority.server(
            self.authority, "kube-apiserver", (self.address, "127.0.0.1", "localhost", "kubernetes")
        )
        self._write("serving.pem", serving.certificate)
        self._write("serving.key", serving.key)
        signing = authority.signing_key()
        self._write("accounts.key", signing)
        self._write("accounts.pub", _public(signing))
        await self._start_etcd()
        await self._start_api()
        await self._start_controllers()

    async def add_node(self, name: str) -> None:
        """A hollow node, once it is Ready."""
        self.nodes[name] = await self._run(
            name,
            "kubemark",
            "--morph=kubelet",
            f"--name={name}",
            f"--kubeconfig={self.home / 'admin.conf'}",
            f"--kubelet-port={free_port(self.address)}",
            f"--kubelet-read-only-port={free_port(self.address)}",
        )
        async with self.caller() as http:
            await eventually(
                f"node {name} is Ready", lambda: _is_ready(http, name), seconds=NODE_SECONDS
            )

    async def kill_node(self, name: str) -> None:
        await stop(self.nodes.pop(name))

    async def _start_etcd(self) -> None:
        client, peer = (f"http://{self.address}:{port}" for port in (self.etcd_port, self._free()))
        await self._run(
            "etcd",
            "etcd",
            "--name=etcd",
            f"--data-dir={self.home / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=etcd={peer}",
            "--unsafe-no-fsync",
        )

    async def _start_api(self) -> None:
        await self._run(
            "kube-apiserver",
            "kube-apiserver",
            f"--etcd-servers=http://{self.address}:{self.etcd_port}",
            f"--bind-address={self.address}",
            f"--secure-port={self.port}",
            f"--advertise-address={_ADVERTISED}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self.home / 'serving.pem'}",
            f"--tls-private-key-file={self.home / 'serving.key'}",
            f"--client-ca-file={self.home / 'ca.pem'}",
            f"--service-account-key-file={self.home / 'accounts.pub'}",
            f"--service-account-signing-key-file={self.home / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
        )
        async with self.caller() as http:
            await eventually("the API is ready", lambda: _answers(http), seconds=SERVE_SECONDS)

    async def _start_controllers(self) -> None:
        config = f"--kubeconfig={self.home / 'admin.conf'}"
        shared = (config, "--leader-elect=false", "--port=0", f"--bind-address={self.address}")
        await self._run(
            "kube-controller-manager",
            "kube-controller-manager",
            *shared,
            f"--secure-port={self._free()}",
            f"--cert-dir={self.home}",
            f"--root-ca-file={self.home / 'ca.pem'}",
            f"--service-account-private-key-file={self.home / 'accounts.key'}",
        )
        await self._run(
            "kube-scheduler",
            "kube-scheduler",
            *shared,
            f"--secure-port={self._free()}",
            f"--cert-dir={self.home}",
        )

    async def _run(self, name: str, program: str, *words: str) -> Process:
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(self.home), "HOME": str(self.home)}
        log = self.home / f"{name}.log"
        started = running(self.programs[program], *words, log=log, environment=environment)
        return await self.stack.enter_async_context(started)

    def _free(self) -> int:
        return free_port(self.address)

    def _write(self, name: str, text: str) -> None:
        path = self.home / name
        path.touch(mode=0o600)
        path.write_text(text)


@asynccontextmanager
async def cluster(programs: Mapping[str, Path], home: Path) -> AsyncIterator[Cluster]:
    """A control plane without nodes. `programs`: where each of its parts lies, by its name."""
    address = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}.1"
    async with AsyncExitStack() as stack:
        made = Cluster(programs, home, stack, address)
        await made.start()
        yield made


def _public(key: str) -> str:
    """The public half of a private key, both PEM."""
    public = load_pem_private_key(key.encode(), None).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


async def _answers(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).status_code == 200
    except httpx2.TransportError:
        return False


async def _is_ready(http: httpx2.AsyncClient, name: str) -> bool:
    reply = await http.get(f"/api/v1/nodes/{name}")
    if reply.status_code != 200:
        return False
    body: dict[str, Any] = reply.json()
    conditions = body["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
