"""Copies of a cluster taken over SSH and sealed: byte for byte what its etcd held."""

import asyncio
import io
import logging
import tarfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from clients.ssh import SshNodes
from domain.errors import Failed, Unavailable
from domain.machine import Machine
from domain.ports import Snapshot
from sim.faults import How
from sim.hosts import etcd
from store.backups import SealedBackups
from store.sealed_files import opened
from store.sealing import Seal
from tests.clients.cluster import Cluster, insist
from tests.metal import until

SECRET = "v3ry-s3cret-" * 250_000
"""Three megabytes of something that must never be seen."""


class Desk:
    """Somebody who takes copies, and can open them."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.seal = Seal(AESGCM.generate_key(256))
        backups = SealedBackups(directory, self.seal, most=5)
        self.nodes = SshNodes(cluster.vault, backups, port=cluster.site.port)

    @property
    def held(self) -> bytes:
        """What etcd holds now."""
        (found,) = self.cluster.site.clusters.all()
        return etcd.snapshot(self.cluster.site.clusters, found)

    def opened(self, where: str) -> dict[str, bytes]:
        """The files of a copy, by name."""
        with Path(where).open("rb") as file:
            plain = io.BytesIO(b"".join(opened(file, self.seal)))
        with tarfile.open(fileobj=plain) as archive:
            files = {entry: archive.extractfile(entry) for entry in archive.getmembers()}
            return {entry.name: file.read() for entry, file in files.items() if file}

    @property
    def parts(self) -> list[Path]:
        """What is kept, and what is on its way to be."""
        return list(self.directory.glob("*/*"))

    def left(self, machine: Machine) -> list[str]:
        """What a copy must not leave on its host."""
        paths = self.cluster.site.host(machine).disk.paths()
        return [path for path in paths if path.endswith((".db", ".tar"))]


def of(machine: Machine, name: str = "op-1") -> Snapshot:
    return Snapshot(machine=machine, name=name)


@pytest.fixture
async def desk(cluster: Cluster, tmp_path: Path) -> Desk:
    return Desk(cluster, tmp_path)


async def test_a_copy_is_what_etcd_held(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    first = await desk.cluster.found()
    desk.cluster.site.clusters.put_object(desk.cluster.uid, "secrets/x/y", {"data": SECRET})
    where = await desk.nodes.back_up(of(first))
    files = desk.opened(where)
    assert files["windlass-snapshot.db"] == desk.held
    assert len(desk.held) > 3_000_000
    disk = desk.cluster.site.host(first).disk
    keys = [path for path in disk.paths() if path.startswith("/etc/kubernetes/pki/")]
    certificates = {path.removeprefix("/etc/kubernetes/"): disk.stat(path) for path in keys}
    kept = {name: file.content for name, file in certificates.items() if not file.directory}
    assert {name: files[name] for name in kept} == kept
    assert "pki/ca.key" in kept

    assert desk.left(first) == []
    assert all(SECRET[:24].encode() not in part.read_bytes() for part in desk.parts)
    assert "v3ry-s3cret" not in caplog.text
    assert "PRIVATE KEY" not in caplog.text
    assert desk.cluster.violations == []
    await desk.nodes.close()


async def test_asking_again_replaces_it(desk: Desk) -> None:
    first = await desk.cluster.found()
    before = await desk.nodes.back_up(of(first))
    desk.cluster.site.clusters.put_object(desk.cluster.uid, "secrets/x/y", {"data": "new"})
    where = await desk.nodes.back_up(of(first))
    assert where == before
    assert desk.opened(where)["windlass-snapshot.db"] == desk.held
    assert await desk.nodes.back_up(of(first, "op-2")) != where
    await desk.nodes.close()


@pytest.mark.parametrize("how", [How.DROP, How.HALF])
async def test_any_command_may_get_lost(desk: Desk, how: How) -> None:
    first = await desk.cluster.found()
    for number in range(1, 60):
        desk.cluster.fault("ssh exec *", how, nth=number)
        name = f"op-{number}"
        wheres: list[str] = []

        async def take(name: str = name, wheres: list[str] = wheres) -> None:
            wheres.append(await desk.nodes.back_up(of(first, name)))

        await insist(take)
        assert desk.opened(wheres[0])["windlass-snapshot.db"] == desk.held
        assert desk.left(first) == []
        ((_, calls),) = desk.cluster.site.faults.met()
        desk.cluster.site.faults.clear()
        if not calls:
            break
    assert number > 8
    await desk.nodes.close()


async def test_a_copy_that_is_broken_off_on_its_way_is_taken_anew(desk: Desk) -> None:
    first = await desk.cluster.found()
    desk.cluster.site.clusters.put_object(desk.cluster.uid, "secrets/x/y", {"data": SECRET})
    host = desk.cluster.site.host(first)
    taking = asyncio.create_task(desk.nodes.back_up(of(first)))
    await until(lambda: any(part.stat().st_size > 1_000_000 for part in desk.parts))
    host.drop_connections()
    with pytest.raises(Unavailable, match="did not say how a read of"):
        await taking
    assert desk.parts == []
    where = await desk.nodes.back_up(of(first))
    assert desk.opened(where)["windlass-snapshot.db"] == desk.held
    assert desk.left(first) == []
    await desk.nodes.close()


async def test_without_an_etcd_there_is_no_copy(desk: Desk) -> None:
    first = await desk.cluster.found()
    desk.cluster.site.clusters.set_member_health(desk.cluster.uid, "cp-1", healthy=False)
    with pytest.raises(Unavailable, match="the etcd snapshot on cp-1") as caught:
        await desk.nodes.back_up(of(first))
    assert caught.value.reason == "ETCD_UNHEALTHY"
    assert desk.left(first) == []
    worker = await desk.cluster.site.install("w-1")
    with pytest.raises(Unavailable, match="no etcd runs on w-1"):
        await desk.nodes.back_up(of(worker))
    await desk.nodes.close()


async def test_a_copy_that_cannot_be_kept_is_final(desk: Desk, tmp_path: Path) -> None:
    first = await desk.cluster.found()
    (tmp_path / "hello-full").touch()
    uid = first.slot.cluster_uid[:8]
    (tmp_path / f"hello-{uid}").touch()
    with pytest.raises(Failed) as caught:
        await desk.nodes.back_up(of(first))
    assert caught.value.reason == "BACKUP_UNWRITABLE"
    await desk.nodes.close()
