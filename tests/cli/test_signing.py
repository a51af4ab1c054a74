"""Signing in by the command, at a server that asks for it."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from settings import Tls
from tests.api.closed import Closed, closed
from tests.cli.running import Outcome, Windlass, in_process
from tests.support.passwords import BETTER, PASSWORD


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Closed]:
    async with closed(tmp_path_factory.mktemp("closed")) as served:
        yield served


@pytest.fixture
def ask(server: Closed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Windlass:
    monkeypatch.setenv("WINDLASS_ADDRESS", server.address)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "another").write_text(BETTER)

    async def ask(*arguments: str) -> Outcome:
        said = [each.replace("@", f"{tmp_path}/") for each in arguments]
        return await asyncio.to_thread(in_process, *said)

    return ask


async def test_signing_in_is_remembered_and_forgotten(ask: Windlass, tmp_path: Path) -> None:
    nobody = await ask("whoami")
    assert nobody.code == 5
    assert "error: no token" in nobody.err
    assert "windlass login" in nobody.err
    unasked = await ask("login", "ada")
    assert (unasked.code, "--password-file" in unasked.err) == (2, True)
    wrong = await ask("login", "ada", "--password-file", "@another")
    assert "wrong user name or password" in wrong.err

    signed = await ask("login", "ada", "--password-file", "@password", "--save-as", "home")
    assert signed.code == 0, signed.err
    file = tmp_path / "contexts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = json.loads(file.read_text())["known"]["home"]["token"]
    assert token not in signed.out + signed.err
    who = await ask("whoami", "-o", "json")
    assert json.loads(who.out)["role"] == "admin"
    assert "ada, admin" in (await ask("whoami")).out
    contexts = await ask("context", "list")
    assert "home" in contexts.out
    assert token not in contexts.out

    elsewhere = await ask("whoami", "--address", "127.0.0.1:1")
    assert elsewhere.code != 0
    file.chmod(0o644)
    loose = await ask("whoami")
    assert f"chmod 600 {file}" in loose.err
    file.chmod(0o600)
    assert (await ask("logout")).code == 0
    assert "no token" in (await ask("whoami")).err
    refused = await ask("whoami", "--token", token)
    assert "invalid token" in refused.err
    assert token not in refused.err
    assert (await ask("context", "use", "nowhere")).code == 2
    assert (await ask("context", "remove", "home")).code == 0
    assert json.loads(file.read_text())["known"] == {}


async def test_an_administrator_lets_others_in_and_keeps_them_out(
    ask: Windlass, server: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", server.tokens["ada"])
    added = await ask("user", "add", "eve", "--role", "operator", "--password-file", "@password")
    assert (added.code, added.out.strip()) == (0, "eve may sign in, as operator")
    made = await ask("token", "create", "ci", "--user", "eve", "--days", "7")
    secret = made.out.strip()
    assert secret.startswith("windlass_")
    assert (await ask("whoami", "--token", secret, "-o", "name")).out == "eve\n"
    listed = json.loads((await ask("token", "list", "--user", "eve", "-o", "json")).out)
    assert [each["label"] for each in listed["items"]] == ["ci"]
    assert secret not in json.dumps(listed)
    assert (await ask("token", "revoke", listed["items"][0]["id"])).code == 0
    assert "invalid token" in (await ask("whoami", "--token", secret)).err
    assert (await ask("user", "passwd", "eve", "--password-file", "@another")).code == 0
    old = await ask("login", "eve", "--password-file", "@password")
    assert "wrong user name" in old.err
    assert (await ask("user", "disable", "eve")).out.strip() == "eve is kept out"
    out = await ask("login", "eve", "--password-file", "@another")
    assert "wrong user name" in out.err
    assert (await ask("user", "enable", "eve")).code == 0
    users = json.loads((await ask("user", "list", "-o", "json")).out)["items"]
    assert ("eve", "operator", False) in [(u["name"], u["role"], u["disabled"]) for u in users]
    forbidden = await ask("user", "list", "--token", server.tokens["vic"])
    assert "vic, who is viewer, may not do this" in forbidden.err

    lines = json.loads((await ask("audit", "list", "-o", "json", "--user", "ada")).out)["items"]
    done = [(line["method"].rpartition("/")[2], line["subject"]) for line in lines]
    assert ("Add", "eve") in done
    assert ("SetDisabled", "eve") in done
    assert PASSWORD not in json.dumps(lines)
    assert "every one follows" in (await ask("audit", "verify")).out
    anchor = (await ask("audit", "verify", "-o", "name")).out.strip()
    kept = await ask("audit", "verify", "--anchor", anchor)
    assert (kept.code, "every one follows" in kept.out) == (0, True)
    number, _, _ = anchor.partition(":")
    lost = await ask("audit", "verify", "--anchor", f"{number}:{'0' * 64}")
    assert (lost.code, f"line {number} is not there any more" in lost.out) == (1, True)
    assert (await ask("audit", "verify", "--anchor", number)).code == 2


async def test_a_doctor_who_is_signed_in_is_told_why(
    ask: Windlass, server: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def readiness() -> str:
        told = (await ask("doctor", "-o", "json", "--http", server.http)).out
        document = told[told.index("{\n") :]  # the server is in this process, and logs there, too
        sheet, _ = json.JSONDecoder().raw_decode(document)
        found = {item["check"]: item for item in sheet["items"]}
        return str(found["readyz"]["detail"])

    assert await readiness() == "ok"
    monkeypatch.setenv("WINDLASS_TOKEN", server.tokens["vic"])
    assert (await readiness()).startswith("temporal: away")


async def test_a_certificate_says_who_calls_and_is_remembered(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(*arguments: str) -> Outcome:
        return await asyncio.to_thread(in_process, *arguments)

    folder = tmp_path / "certs"
    made = await ask("certs", "init", str(folder), "--user", "ole")
    assert f"WINDLASS_KEY={folder}/ole.key" in made.out + made.err
    ca, cert, key = (str(folder / name) for name in ("ca.crt", "ole.crt", "ole.key"))
    tls = Tls(
        certificate=folder / "server.crt", key=folder / "server.key", client_ca=folder / "ca.crt"
    )
    (tmp_path / "password").write_text(PASSWORD)
    async with closed(tmp_path_factory.mktemp("closed"), tls) as server:
        monkeypatch.setenv("WINDLASS_ADDRESS", server.address)
        shown = ("--ca", ca, "--cert", cert, "--key", key)
        assert (await ask("whoami", "-o", "name", *shown)).out == "ole\n"
        assert (await ask("whoami", "--ca", ca, "--cert", cert)).code == 2
        assert (await ask("whoami", "--cert", cert, "--key", key)).code == 2
        monkeypatch.setenv("WINDLASS_CERT", cert)
        monkeypatch.setenv("WINDLASS_KEY", key)
        assert (await ask("whoami", "-o", "name", "--ca", ca)).out == "ole\n"
        file = str(tmp_path / "password")
        signed = await ask("login", "ada", "--password-file", file, "--ca", ca)
        assert signed.code == 0, signed.err
        monkeypatch.delenv("WINDLASS_CERT")
        monkeypatch.delenv("WINDLASS_KEY")
        assert (await ask("whoami", "-o", "name")).out == "ada\n"
        assert (await ask("logout")).code == 0
        assert (await ask("whoami", "-o", "name")).out == "ole\n"


def test_a_file_of_contexts_that_makes_no_sense_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "contexts.json"
    for said in ("{", "[]", '{"known": 7}', '{"current": "a", "known": {"a": {"x": 1}}}'):
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(said)
        told = in_process("context", "list")
        assert told.code == 1
        assert "cannot be read" in told.err
        assert "Traceback" not in told.err
