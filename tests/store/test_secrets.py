import asyncio
import os
import secrets
import stat
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from domain.errors import Failed, NotFound, Unavailable
from store import schema
from store.engine import Database
from store.keys import FIRST_NAME, KEY_BYTES
from store.rows import SecretRow
from store.sealing import Seal
from store.secrets import Secrets
from tests.store.desk import Desk


async def test_what_is_kept_can_be_opened(vault: Secrets) -> None:
    secret = secrets.token_bytes(100_000)
    await vault.keep("cluster/1/kubeconfig", secret)
    assert await vault.open("cluster/1/kubeconfig") == secret
    await vault.keep("cluster/1/kubeconfig", b"")
    assert await vault.open("cluster/1/kubeconfig") == b""


async def test_an_unknown_secret_is_not_found(vault: Secrets) -> None:
    with pytest.raises(NotFound, match="there is no secret cluster/1/kubeconfig"):
        await vault.open("cluster/1/kubeconfig")


async def test_a_row_does_not_hold_the_secret(desk: Desk, vault: Secrets, seal: Seal) -> None:
    secret = secrets.token_bytes(32)
    await vault.keep("a", secret)
    await vault.keep("b", secret)
    first, second = sorted(await desk.all(SecretRow), key=lambda row: row.reference)
    assert first.sealed_with == seal.name
    assert secret[:8] not in first.sealed
    assert first.sealed != second.sealed


async def test_no_file_of_the_database_holds_the_secret(tmp_path: Path, seal: Seal) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    database = Database(url)
    secret = secrets.token_bytes(32)
    await Secrets(database, seal).keep("a", secret)
    sealed = (await Desk(database, Secrets(database, seal)).all(SecretRow))[0].sealed
    await database.close()
    written = b"".join(_files(tmp_path))
    assert sealed in written
    assert secret not in written


def _files(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.iterdir()]


async def test_a_row_moved_to_another_reference_does_not_open(desk: Desk, vault: Secrets) -> None:
    await vault.keep("cluster/1/kubeconfig", b"secret")
    await desk.change(SecretRow, {"reference": "cluster/2/kubeconfig"})
    with pytest.raises(Failed, match="the secret cluster/2/kubeconfig does not open") as refused:
        await vault.open("cluster/2/kubeconfig")
    assert refused.value.reason == "WRONG_KEY"


async def test_another_key_opens_nothing(database: Database, vault: Secrets) -> None:
    await vault.keep("a", b"secret")
    stranger = Secrets(database, Seal(AESGCM.generate_key(bit_length=256)))
    for asked in (stranger.open("a"), stranger.keep_first("a", b"other")):
        with pytest.raises(Failed, match="does not open with key file-1"):
            await asked
    assert await vault.open("a") == b"secret"


async def test_a_row_that_was_cut_short_does_not_open(desk: Desk, vault: Secrets) -> None:
    await vault.keep("a", b"secret")
    for length in (0, 5, 12, 20):
        await desk.change(SecretRow, {"sealed": secrets.token_bytes(length)})
        with pytest.raises(Failed, match="does not open"):
            await vault.open("a")


async def test_the_first_to_keep_a_secret_wins(vault: Secrets) -> None:
    assert await vault.keep_first("a", b"first") == b"first"
    assert await vault.keep_first("a", b"second") == b"first"
    assert await vault.open("a") == b"first"


async def test_all_who_keep_a_first_secret_at_once_hold_the_same(
    desk: Desk, other_desk: Desk
) -> None:
    held = await asyncio.gather(
        *(
            at.vault.keep_first("a", f"{number}-{id(at)}".encode())
            for number in range(10)
            for at in (desk, other_desk)
        )
    )
    assert len(set(held)) == 1
    assert await desk.vault.open("a") == held[0]


async def test_of_many_who_keep_at_once_one_is_the_last(desk: Desk, other_desk: Desk) -> None:
    kept = [f"{number}".encode() for number in range(10)]
    await asyncio.gather(
        *(at.vault.keep("a", secret) for secret in kept for at in (desk, other_desk))
    )
    assert await desk.vault.open("a") in kept


async def test_shredding_takes_what_lies_below_and_nothing_else(
    database: Database, vault: Secrets
) -> None:
    for reference in ("cluster/1/a", "cluster/1/b/c", "cluster/10/a", "cluster/%/a", "other"):
        await vault.keep(reference, b"secret")
    async with database.session(writes=True) as session:
        await vault.shred(session, "cluster/1/")
        await vault.shred(session, "cluster/%/")
    for gone in ("cluster/1/a", "cluster/1/b/c", "cluster/%/a"):
        with pytest.raises(NotFound):
            await vault.open(gone)
    for kept in ("cluster/10/a", "other"):
        assert await vault.open(kept) == b"secret"


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "seal.key"
    sealed = Seal.from_file(path).close("a", b"secret")
    assert Seal.from_file(path).open("a", sealed) == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == KEY_BYTES
    assert os.listdir(path.parent) == ["seal.key"]


async def test_all_who_make_a_key_at_once_hold_the_same(tmp_path: Path) -> None:
    """Processes, since one process makes one key."""
    path = tmp_path / "seal.key"
    making = (
        "import sys; from pathlib import Path; from store.sealing import Seal; "
        "sys.stdout.buffer.write(Seal.from_file(Path(sys.argv[1])).close_one('a', b'secret'))"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", making, str(path), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in processes:
        sealed, _ = await process.communicate()
        assert Seal.from_file(path).open_one("a", sealed, FIRST_NAME) == b"secret"


async def test_a_new_key_is_refused_where_secrets_of_another_lie(
    database: Database, vault: Secrets
) -> None:
    other = Secrets(database, Seal(AESGCM.generate_key(bit_length=256)))
    await other.verify()
    await vault.keep("cluster/1/a", b"secret")
    await vault.verify()
    with pytest.raises(Failed) as refused:
        await other.verify()
    assert refused.value.reason == "WRONG_KEY"


@pytest.mark.parametrize("content", [b"", b"too short"])
def test_a_key_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "seal.key"
    path.write_bytes(content)
    with pytest.raises(Unavailable, match=f"the key file {path} cannot be used") as refused:
        Seal.from_file(path)
    assert refused.value.reason == "KEY_UNAVAILABLE"


def test_a_key_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Is a directory"):
        Seal.from_file(tmp_path)
