"""Copies of clusters, sealed: what comes back is what was kept, or nothing does."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from domain.errors import DomainError, Failed, Invalid, Unavailable
from domain.machine import Machine, Role, Slot
from domain.ports import Snapshot
from domain.releases import Release
from store import __main__ as program
from store.backups import SealedBackups
from store.sealed_files import PIECE_BYTES, opened, unseal
from store.sealing import Seal

SLOT = Slot(
    cluster_uid="0123456789abcdef",
    cluster="hello",
    name="control-plane-bcdfg",
    role=Role.CONTROL_PLANE,
    pool="control-plane",
    release=Release(version="1.31.4", series="jammy"),
    public_key="ssh-ed25519 AAAA",
)


def snapshot(name: str = "op-1", cluster: str = "hello") -> Snapshot:
    slot = SLOT.model_copy(update={"cluster": cluster})
    return Snapshot(machine=Machine(slot=slot, system_id="abc"), name=name)


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


def seal() -> Seal:
    return Seal(AESGCM.generate_key(256))


def read(path: str, key: Seal) -> bytes:
    with Path(path).open("rb") as file:
        return b"".join(opened(file, key))


def content(path: str | Path) -> bytes:
    return Path(path).read_bytes()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 5_000_000]
)
async def test_what_was_kept_comes_back(tmp_path: Path, size: int) -> None:
    key, data = seal(), os.urandom(size)
    backups = SealedBackups(tmp_path, key, most=3)
    cut = (data[at : at + 300_000] for at in range(0, size, 300_000))
    where = await backups.keep(snapshot(), pieces(*cut))
    assert where == str(tmp_path / "hello-01234567" / "op-1.sealed")
    assert read(where, key) == data
    assert len(data) < len(content(where)) < len(data) + 1000


async def test_only_its_owner_can_read_it_and_nothing_is_in_the_clear(tmp_path: Path) -> None:
    directory = tmp_path / "backups"
    backups = SealedBackups(directory, seal(), most=3)
    where = Path(await backups.keep(snapshot(), pieces(b"PRIVATE KEY " * 10_000)))
    assert mode(where) == 0o600
    assert mode(where.parent) == 0o700
    assert b"PRIVATE" not in content(where)
    assert names(where.parent) == [where.name]


async def test_a_second_copy_of_the_same_name_takes_its_place(tmp_path: Path) -> None:
    key = seal()
    backups = SealedBackups(tmp_path, key, most=3)
    for data in (b"first", b"second"):
        where = await backups.keep(snapshot(), pieces(data))
    assert read(where, key) == b"second"
    assert names(Path(where).parent) == ["op-1.sealed"]


async def test_the_oldest_of_a_cluster_go(tmp_path: Path) -> None:
    backups = SealedBackups(tmp_path, seal(), most=2)
    await backups.keep(snapshot("only", cluster="other"), pieces(b"x"))
    for number in range(4):
        where = Path(await backups.keep(snapshot(f"op-{number}"), pieces(b"x")))
        os.utime(where, (number, number))
    assert names(where.parent) == ["op-2.sealed", "op-3.sealed"]
    assert names(tmp_path / "other-01234567") == ["only.sealed"]


async def test_one_copy_is_the_least_that_is_kept(tmp_path: Path) -> None:
    backups = SealedBackups(tmp_path, seal(), most=1)
    for number in range(2):
        where = Path(await backups.keep(snapshot(f"op-{number}"), pieces(b"x")))
    assert names(where.parent) == ["op-1.sealed"]


async def test_a_copy_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    key = seal()
    backups = SealedBackups(tmp_path, key, most=1)
    where = await backups.keep(snapshot(), pieces(b"whole"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"half" * 500_000
        raise Unavailable("the host is gone")

    with pytest.raises(Unavailable, match="the host is gone"):
        await backups.keep(snapshot("op-2"), broken())
    with pytest.raises(Unavailable, match="the host is gone"):
        await backups.keep(snapshot(), broken())
    assert names(Path(where).parent) == ["op-1.sealed"]
    assert read(where, key) == b"whole"


async def test_a_copy_that_is_called_off_leaves_nothing(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        started.set()
        await asyncio.Event().wait()

    backups = SealedBackups(tmp_path, seal(), most=1)
    keeping = asyncio.create_task(backups.keep(snapshot(), endless()))
    await started.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert names(tmp_path / "hello-01234567") == []


async def test_what_a_dead_writer_left_goes_after_a_day(tmp_path: Path) -> None:
    backups = SealedBackups(tmp_path, seal(), most=1)
    folder = Path(await backups.keep(snapshot(), pieces(b"x"))).parent
    old, young = folder / ".op-0.sealed.aa.part", folder / ".op-0.sealed.bb.part"
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    await backups.keep(snapshot(), pieces(b"x"))
    assert young.exists()
    assert not old.exists()


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b", "x" * 200])
async def test_no_name_leads_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(Failed, match="cannot be a backup's name"):
        await SealedBackups(tmp_path, seal(), most=1).keep(snapshot(name), pieces())
    assert names(tmp_path) == []


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failed) as caught:
        await SealedBackups(tmp_path / "file", seal(), most=1).keep(snapshot(), pieces())
    assert caught.value.reason == "BACKUP_UNWRITABLE"
    assert "WINDLASS_BACKUPS" in caught.value.do


async def kept(tmp_path: Path, key: Seal) -> Path:
    data = bytes(PIECE_BYTES) + bytes(PIECE_BYTES) + b"end"
    return Path(await SealedBackups(tmp_path, key, most=1).keep(snapshot(), pieces(data)))


def cut(sealed: bytes) -> list[bytes]:
    """The first line and the pieces."""
    line, _, rest = sealed.partition(b"\n")
    size = PIECE_BYTES + 16
    return [line + b"\n", *(rest[at : at + size] for at in range(0, len(rest), size))]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: [parts[0]],
        lambda parts: parts[:-1],
        lambda parts: [parts[0], *parts[2:]],
        lambda parts: [parts[0], parts[2], parts[1], parts[3]],
        lambda parts: [*parts, parts[3]],
        lambda parts: [parts[0].replace(b"hello", b"other"), *parts[1:]],
        lambda parts: [*parts[:-1], parts[-1][:-1] + bytes([parts[-1][-1] ^ 1])],
    ],
    ids=["no piece", "no end", "no beginning", "swapped", "longer", "another label", "one bit"],
)
async def test_what_was_changed_does_not_open(tmp_path: Path, spoil: object) -> None:
    key = seal()
    path = await kept(tmp_path, key)
    path.write_bytes(b"".join(spoil(cut(path.read_bytes()))))  # type: ignore[operator]
    with pytest.raises(Failed) as caught:
        unseal(path, tmp_path / "out", key)
    assert caught.value.reason == "WRONG_KEY"
    assert not (tmp_path / "out").exists()


async def test_another_key_opens_nothing(tmp_path: Path) -> None:
    path = await kept(tmp_path, seal())
    with pytest.raises(Failed, match="does not open"):
        unseal(path, tmp_path / "out", seal())


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    for content in (b"", b"{}\n", b"\xff\n", b'{"windlass": "sealed-1"}\n', b"x" * 10_000):
        (tmp_path / "in").write_bytes(content)
        with pytest.raises(Invalid, match="no file that Windlass has sealed"):
            unseal(tmp_path / "in", tmp_path / "out", seal())


async def test_the_command_opens_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key_file, archive = tmp_path / "seal.key", tmp_path / "out.tar"
    data = os.urandom(2_000_000)
    backups = SealedBackups(tmp_path, Seal.from_file(key_file), most=1)
    where = await backups.keep(snapshot(), pieces(data))
    words = [sys.executable, "-m", "store", "open", where, str(archive)]
    env = os.environ | {"WINDLASS_KEY_FILE": str(key_file)}
    done = await asyncio.to_thread(
        subprocess.run, words, env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert archive.read_bytes() == data
    assert archive.stat().st_mode & 0o777 == 0o600

    again = await asyncio.to_thread(
        subprocess.run, words, env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert again.returncode == 1
    assert "File exists" in again.stderr
    assert archive.read_bytes() == data


def test_the_command_makes_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDLASS_KEY_FILE", str(tmp_path / "none"))
    assert program.main(["open", str(tmp_path / "in"), str(tmp_path / "out")]) == 1
    assert "there is no key file" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_errors_are_the_domains(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="No such file"):
        unseal(tmp_path / "in", tmp_path / "out", seal())
