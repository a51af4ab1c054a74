"""The OpenSSH client of the distribution against a simulated host: it must notice nothing."""

import asyncio
import shutil
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from domain.machine import Machine
from sim.hosts import etcd
from tests.metal import USER, Metal, metal, until

PROGRAMS = ("ssh", "sftp", "ssh-keygen")


@dataclass
class OpenSsh:
    """The client, its key and what it knows of hosts."""

    site: Metal
    machine: Machine
    home: Path

    def options(self, port_flag: str) -> list[str]:
        settings = {
            "BatchMode": "yes",
            "GlobalKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "IdentityFile": str(self.home / "key"),
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": str(self.home / "known_hosts"),
        }
        pairs = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return ["-F", "/dev/null", port_flag, str(self.site.port), *pairs]

    @property
    def target(self) -> str:
        return f"{USER}@{self.machine.address}"

    async def ssh(self, command: str, given: bytes = b"") -> tuple[int, str, str]:
        return await run("ssh", *self.options("-p"), self.target, command, given=given)

    async def sftp(self, batch: str) -> tuple[int, str, str]:
        words = ("sftp", *self.options("-P"), "-b", "-", self.target)
        return await run(*words, given=batch.encode())


async def run(*words: str, given: bytes = b"") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[OpenSsh]:
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"no {missing[0]} here: it is in Debian's package openssh-client")
    async with metal() as site:
        machine = await site.install("cp-1")
        path = tmp_path / "key"
        path.touch(mode=0o600)
        path.write_bytes(site.key.export_private_key())
        yield OpenSsh(site, machine, tmp_path)


async def test_logs_in_and_runs_a_command(client: OpenSsh) -> None:
    assert (await client.ssh("whoami; hostname"))[:2] == (0, "windlass\ncp-1\n")


@pytest.mark.parametrize("code", [0, 1, 42, 127])
async def test_brings_the_exit_code_back(client: OpenSsh, code: int) -> None:
    assert (await client.ssh(f"exit {code}"))[0] == code


async def test_tells_output_from_complaints(client: OpenSsh) -> None:
    status, out, err = await client.ssh("echo fine; nope")
    assert (status, out) == (127, "fine\n")
    assert "nope: not found" in err


async def test_feeds_a_command(client: OpenSsh) -> None:
    status, out, _ = await client.ssh("cat > given; sha256sum given", given=b"x" * 100_000)
    assert status == 0
    assert out.endswith("  given\n")
    assert len(client.site.host(client.machine).disk.read("/home/windlass/given")) == 100_000


async def test_a_stranger_stays_outside(client: OpenSsh) -> None:
    key = client.home / "key"
    key.unlink()
    assert (await run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))[0] == 0
    status, _, err = await client.ssh("true")
    assert status == 255
    assert "Permission denied (publickey)" in err


async def test_carries_files_both_ways(client: OpenSsh) -> None:
    source, back = client.home / "source", client.home / "back"
    source.write_bytes(bytes(range(256)) * 400)
    status, out, err = await client.sftp(
        f"put {source} there\nchmod 600 there\nrename there moved\nls -l\nget moved {back}\n"
    )
    assert status == 0, err
    assert "moved" in out
    assert back.read_bytes() == source.read_bytes()
    assert client.site.host(client.machine).disk.stat("/home/windlass/moved").mode == 0o600
    assert (await client.sftp("put nowhere\n"))[0] == 1
    assert "Permission denied" in (await client.sftp(f"put {source} /etc/x\n"))[2]


async def test_upgrades_a_node_by_hand(client: OpenSsh) -> None:
    """As somebody would who has nothing of ours: packages, kubeadm, kubelet, a copy of etcd."""
    status, _, err = await client.ssh("sudo kubeadm init --skip-token-print")
    assert status == 0, err
    (cluster,) = client.site.clusters.all()
    client.site.clusters.network_applied(cluster.uid)
    packages = "kubeadm=1.32.1-* kubelet=1.32.1-*"
    status, _, err = await client.ssh(
        f"sudo apt-mark unhold kubeadm kubelet && sudo apt-get install -y {packages}"
    )
    assert status == 0, err
    status, out, err = await client.ssh("sudo kubeadm upgrade apply v1.32.1", given=b"y\n")
    assert (status, err) == (0, "")
    assert 'was upgraded to "v1.32.1"' in out
    assert (await client.ssh("sudo systemctl restart kubelet"))[0] == 0
    node = client.site.clusters.node(cluster.uid, "cp-1")
    assert node is not None
    assert (node.version, cluster.apis) == ("1.32.1", {client.machine.address: "1.32.1"})

    save = (
        "sudo etcdctl snapshot save /var/lib/etcd/x.db && sudo tar -cf x.tar -C /var/lib/etcd x.db"
    )
    assert (await client.ssh(f"{save} && sudo chown windlass x.tar"))[0] == 0
    back = client.home / "x.tar"
    assert (await client.sftp(f"get x.tar {back}\n"))[0] == 0
    with tarfile.open(back) as archive:
        saved = archive.extractfile("x.db")
        assert saved is not None
        assert saved.read() == etcd.snapshot(client.site.clusters, cluster)
    assert client.site.hosts.inspect()["violations"] == []


async def test_notices_that_a_host_was_redeployed(client: OpenSsh) -> None:
    assert (await client.ssh("true"))[0] == 0
    name = f"[{client.machine.address}]:{client.site.port}"
    known = str(client.home / "known_hosts")
    assert "ED25519" in (await run("ssh-keygen", "-l", "-F", name, "-f", known))[1]

    host = await client.site.boot(client.machine)
    await until(lambda: host.state.settled)
    status, _, err = await client.ssh("true")
    assert status == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in err

    assert (await run("ssh-keygen", "-R", name, "-f", known))[0] == 0
    assert (await client.ssh("true"))[0] == 0
