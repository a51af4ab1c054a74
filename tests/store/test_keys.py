"""Where keys come from, and how another one is used while everything runs."""

import asyncio
import base64
import os
import stat
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from domain.errors import AlreadyExists, Conflict, Failed, Invalid, NotFound, Unavailable
from store import __main__ as program
from store import keys, secrets
from store.keys import FIRST_NAME, KEY_BYTES
from store.rows import SecretRow
from store.sealing import FIRST, Seal, Sealed
from store.secrets import CHOSEN, KeyUse, Secrets
from tests.store.desk import Desk
from tests.support.load import limit


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(secrets, "FOLLOW_SECONDS", 0.01)
    monkeypatch.setattr(secrets, "BATCH", 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A key file with two keys, of which the first is used."""
    path = tmp_path / "seal.key"
    keys.from_file(path)
    keys.add(path, "next")
    return path


async def rotated(vault: Secrets, name: str) -> list[int]:
    return [left async for left in vault.rotate(name)]


async def used(seal: Seal, name: str) -> None:
    while True:
        if seal.name == name:
            return
        await asyncio.sleep(0.01)


def test_a_key_is_added_behind_the_one_that_is_used(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    before = keys.from_file(path)
    keys.add(path, "2027-01")
    after = keys.from_file(path)
    assert list(after) == [FIRST_NAME, "2027-01"]
    assert after[FIRST_NAME] == before[FIRST_NAME]
    assert len(after["2027-01"]) == KEY_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["seal.key"]
    with pytest.raises(AlreadyExists):
        keys.add(path, "2027-01")
    with pytest.raises(Invalid):
        keys.add(path, "2027 01")
    assert keys.from_file(path) == after


@pytest.mark.parametrize(
    "written",
    [
        "hunter2",
        f"a {base64.b64encode(bytes(31)).decode()}",
        f"A {base64.b64encode(bytes(32)).decode()}",
        f"a {base64.b64encode(bytes(32)).decode()}\n" * 2,
        "\n",
    ],
)
def test_a_file_that_holds_something_else_is_refused_and_not_repeated(
    tmp_path: Path, written: str
) -> None:
    path = tmp_path / "seal.key"
    path.write_text(written)
    with pytest.raises(Unavailable) as refused:
        keys.from_file(path)
    assert refused.value.reason == "KEY_UNAVAILABLE"
    assert not written.strip() or written.strip() not in refused.value.message.partition(": ")[2]


def test_a_command_prints_the_keys(path: Path) -> None:
    assert keys.source(path, ("cat", str(path)))() == keys.from_file(path)
    none = path.with_name("none")
    assert keys.source(none, ("cat", str(path)))() == keys.from_file(path)
    assert not none.exists(), "a file is made although a command was named"


@pytest.mark.parametrize(
    "command",
    [
        ("/no/such/program",),
        (sys.executable, "-c", "import sys; sys.exit('the secret word')"),
        ("echo", "the secret word"),
    ],
)
def test_a_command_that_gives_no_keys_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(Unavailable, match="gave no keys") as refused:
        keys.from_command(command)
    assert refused.value.reason == "KEY_UNAVAILABLE"
    assert "secret word" not in refused.value.message


def test_a_command_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "COMMAND_SECONDS", 0.05)
    with pytest.raises(Unavailable, match="took too long"):
        keys.from_command(("sleep", "60"))


def test_a_data_key_opens_one_secret(path: Path) -> None:
    seal = Seal.from_file(path)
    one, other = seal.close("a", b"first"), seal.close("b", b"second")
    assert one.wrapped != other.wrapped
    for mixed in (Sealed(one.key, other.wrapped, one.secret), other):
        with pytest.raises(Failed, match="the secret a does not open"):
            seal.open("a", mixed)


def test_what_was_sealed_before_there_were_data_keys_opens_and_gets_one(path: Path) -> None:
    seal = Seal.from_file(path)
    key = keys.from_file(path)[FIRST_NAME]
    before = Sealed(FIRST_NAME, b"", FIRST + AESGCM(key).encrypt(FIRST, b"secret", b"a"))
    assert seal.open("a", before) == b"secret"
    seal.use("next")
    after = seal.rewrap("a", before)
    assert after.key == "next"
    assert after.wrapped
    assert seal.open("a", after) == b"secret"


async def test_another_key_is_used_and_no_secret_is_touched(desk: Desk, path: Path) -> None:
    vault = Secrets(desk.database, Seal.from_file(path))
    for number in range(8):
        await vault.keep(f"cluster/{number}/login", b"%d" % number)
    before = {row.reference: row.sealed for row in await desk.all(SecretRow)}
    assert await rotated(vault, "next") == [8, 5, 2, 0]
    rows = await desk.all(SecretRow)
    assert {row.sealed_with for row in rows} == {"next"}
    assert {row.reference: row.sealed for row in rows if row.reference != CHOSEN} == before
    for number in range(8):
        assert await vault.open(f"cluster/{number}/login") == b"%d" % number
    assert await vault.keys() == [KeyUse(FIRST_NAME, False, True, 0), KeyUse("next", True, True, 8)]
    only_next = Seal(keys.from_file(path)["next"], "next")
    assert await Secrets(desk.database, only_next).open("cluster/3/login") == b"3"


async def test_it_goes_on_where_it_was_broken_off(desk: Desk, path: Path) -> None:
    vault = Secrets(desk.database, Seal.from_file(path))
    for number in range(8):
        await vault.keep(f"cluster/{number}/login", b"%d" % number)
    rotating = vault.rotate("next")
    assert [await anext(rotating), await anext(rotating)] == [8, 5]
    await rotating.aclose()  # type: ignore[attr-defined]
    for number in range(8):
        assert await vault.open(f"cluster/{number}/login") == b"%d" % number
    restarted = Secrets(desk.database, Seal.from_file(path))
    await restarted.verify()
    await restarted.keep("cluster/9/login", b"9")
    assert [row.name for row in await restarted.keys() if row.is_used] == ["next"]
    assert await rotated(restarted, "next") == [5, 2, 0]


async def test_another_process_learns_of_it_and_of_a_key_that_was_added(
    desk: Desk, other_desk: Desk, path: Path
) -> None:
    """It was started before there was a second key."""
    vault = Secrets(desk.database, Seal.from_file(path))
    early = Seal.from_file(path)
    lying = {FIRST_NAME: keys.from_file(path)[FIRST_NAME]}
    late = Seal.of(lambda: dict(lying))
    other = Secrets(other_desk.database, late)
    await other.keep("a", b"secret")
    lying |= keys.from_file(path)
    following = asyncio.create_task(other.follow())
    assert await rotated(vault, "next") == [1, 0]
    async with limit(10):
        await used(late, "next")
    following.cancel()
    assert await other.open("a") == b"secret"
    sealed = late.close_one("payload-1", b"plan")
    assert early.open_one("payload-1", sealed, "next") == b"plan"


async def test_a_process_without_the_key_says_so_and_may_be_helped(desk: Desk, path: Path) -> None:
    first = keys.from_file(path)[FIRST_NAME]
    poor = Secrets(desk.database, Seal(first))
    vault = Secrets(desk.database, Seal.from_file(path))
    await vault.keep("a", b"secret")
    await rotated(vault, "next")
    for asked in (poor.open("a"), poor.verify()):
        with pytest.raises(Unavailable) as refused:
            await asked
        assert refused.value.reason == "SEAL_KEY_UNKNOWN"


async def test_all_who_keep_secrets_meanwhile_can_open_them(
    desk: Desk, other_desk: Desk, path: Path
) -> None:
    vault, other = (Secrets(it.database, Seal.from_file(path)) for it in (desk, other_desk))
    names = [f"cluster/{number}/login" for number in range(12)]
    for name in names:
        await vault.keep(name, b"before")
    await asyncio.gather(
        rotated(vault, "next"),
        *(at.keep(name, name.encode()) for name in names for at in (vault, other)),
    )
    await rotated(vault, "next")
    alone = Secrets(desk.database, Seal(keys.from_file(path)["next"], "next"))
    assert [await alone.open(name) for name in names] == [name.encode() for name in names]


async def test_of_two_who_choose_the_last_has_its_way(desk: Desk, path: Path) -> None:
    vault = Secrets(desk.database, Seal.from_file(path))
    for number in range(8):
        await vault.keep(f"cluster/{number}/login", b"%d" % number)
    rotating = vault.rotate("next")
    await anext(rotating)
    await rotated(vault, FIRST_NAME)
    with pytest.raises(Conflict) as refused:
        [left async for left in rotating]
    assert refused.value.reason == "SEAL_KEY_REPLACED"
    assert [row.name for row in await vault.keys() if row.secrets] == [FIRST_NAME]


async def test_a_key_that_nobody_has_is_not_found(vault: Secrets) -> None:
    with pytest.raises(NotFound) as refused:
        await rotated(vault, "next")
    assert refused.value.reason == "SEAL_KEY_NOT_FOUND"


def test_the_program_adds_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "seal.key"
    monkeypatch.setenv("WINDLASS_KEY_FILE", str(path))
    assert program.main(["key", "2027-01"]) == 0
    assert "windlass secrets rotate-key 2027-01" in capsys.readouterr().out
    assert list(keys.from_file(path)) == [FIRST_NAME, "2027-01"]
    monkeypatch.setenv("WINDLASS_KEY_COMMAND", '["cat", "keys"]')
    assert program.main(["key", "2028-01"]) == 1
    assert "WINDLASS_KEY_COMMAND" in capsys.readouterr().err
