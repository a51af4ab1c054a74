"""Disks that are full or read-only: what is said of it, and that nothing has to be restarted."""

import asyncio
import errno
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx2
import pytest
from sqlalchemy import Connection, Engine, event, text

from api import admission
from domain.disk import trouble
from domain.errors import Unavailable
from store import keys
from store.engine import Database
from store.probe import Probe
from tests.api.caller import Caller, refused, wanted
from tests.programs.running import ended, surroundings
from tests.support.load import limit


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "PROBE_SECONDS", 0.0)


class Disk:
    """The database's, which may be mounted read-only."""

    is_read_only = False

    def begin(self, connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA query_only = {int(self.is_read_only)}")
        elif self.is_read_only:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    event.listen(Engine, "begin", disk.begin)
    yield disk
    event.remove(Engine, "begin", disk.begin)


async def readiness(http: httpx2.AsyncClient, wanted: int) -> str:
    """What is said of it, once it is so: a busy machine may answer late at first."""
    async with limit(120):
        while True:
            answer = await http.get("/readyz")
            if answer.status_code == wanted:
                return answer.text
            await asyncio.sleep(0.1)


@pytest.mark.timeout(300)
async def test_b14_a_database_that_takes_no_writes_is_not_ready_and_says_why_until_it_does(
    disk: Disk, caller: Caller, http: httpx2.AsyncClient
) -> None:
    await readiness(http, 200)
    disk.is_read_only = True
    said = await readiness(http, 503)
    assert "the database is read-only (READ_ONLY); make the database writable again" in said
    refusal = await refused(caller.cluster.CreateCluster(wanted(), timeout=60))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "READ_ONLY")
    assert "nothing has to be restarted" in refusal.facts["do"]
    disk.is_read_only = False
    await readiness(http, 200)
    assert (await caller.cluster.CreateCluster(wanted(), timeout=60)).ok


async def test_b14_a_disk_that_really_is_full_and_read_only_is_said_to_be_so(
    tmp_path: Path,
) -> None:
    """On a file system of a mebibyte, where this user may mount one."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if not _did("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mounted)):
        pytest.skip("mounting is not allowed here")
    database = Database(f"sqlite+aiosqlite:///{mounted}/windlass.db")
    try:
        async with database.session(writes=True) as session:
            await session.execute(
                text("CREATE TABLE probes (number INTEGER PRIMARY KEY, written, filler)")
            )
        probe = Probe(database)
        await probe.write()
        filler = mounted / "filler"
        with pytest.raises(OSError, match="space"):
            filler.write_bytes(bytes(2**21))
        assert await _refusal(probe) == "DISK_FULL"
        with pytest.raises(Unavailable) as refused:
            keys.from_file(mounted / "seal.key")
        assert refused.value.reason == "DISK_FULL"
        filler.unlink()
        await probe.write()
        await database.close()
        assert _did("mount", "-o", "remount,ro", str(mounted))
        assert await _refusal(probe) == "READ_ONLY"
        with pytest.raises(Unavailable) as refused:
            keys.from_file(mounted / "seal.key")
        assert refused.value.reason == "READ_ONLY"
        assert _did("mount", "-o", "remount,rw", str(mounted))
        await probe.write()
        assert keys.from_file(mounted / "seal.key")
    finally:
        await database.close()
        _did("umount", "-l", str(mounted))


async def _refusal(probe: Probe) -> str:
    with pytest.raises(Unavailable) as refused:
        await probe.write()
    return refused.value.reason


def _did(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def test_b14_a_key_file_left_half_made_is_in_nobodys_way(tmp_path: Path) -> None:
    """Whoever died while he made it had any process id, such as our own."""
    path = tmp_path / "seal.key"
    left = tmp_path / f".seal.key.{os.getpid()}"
    left.write_bytes(b"half")
    assert keys.from_file(path)
    keys.add(path, "next")
    assert {each.name for each in tmp_path.iterdir()} == {"seal.key", left.name}


def test_b14_a_key_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable) as refused:
        keys.from_file(tmp_path / "seal.key")
    assert refused.value.reason == "DISK_FULL"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [("-m", "store", "key", "next"), ("-m", "agent", "--node", "n", "--control", "127.0.0.1:1")],
    ids=["store key", "agent"],
)
@pytest.mark.timeout(180)
async def test_b14_a_program_that_cannot_write_says_so_without_a_traceback(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A file is where its folder should be."""
    (tmp_path / "state").write_text("")
    environment = surroundings(
        WINDLASS_STATE=str(tmp_path / "state"), WINDLASS_AGENT__RUNTIME="simulated"
    )
    ending = await ended(*words, environment=environment)
    assert any(line.startswith("error: ") for line in ending.refusal)


def test_b14_what_a_full_node_says_names_the_disk() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert (found := trouble(full, "what this server keeps")) is not None
    assert found.reason == "DISK_FULL"
    ledger = sqlite3.OperationalError("database or disk is full")
    ledger.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert (found := trouble(ledger, "what this server keeps")) is not None
    assert found.reason == "DISK_FULL"
    assert trouble(ValueError("anything"), "it") is None
