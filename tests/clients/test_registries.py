"""What opens a registry: kept sealed by a command, and carried to the agent with the order."""

import asyncio
import io
from pathlib import Path

import pytest

from clients.node_agent import NodeAgents
from domain.agents import Order
from domain.instance import InstanceSpec
from domain.placement import Amounts
from domain.registries import CREDENTIALS, Credentials, kept_under
from store import __main__ as program
from store import schema
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.agents import Host
from tests.vaults import MemoryVault

KNOWN = Credentials(username="ann", password="correct horse")


def order(host: Host, uri: str) -> Order:
    spec = InstanceSpec(id="web", uri=uri, limit=Amounts())
    told = {"node": host.id, "address": host.address, "incarnation": 1, "turn": 1}
    return Order.model_validate({"instance": uri, "tenant": "", "spec": spec, **told})


async def test_an_agent_is_told_what_opens_the_registry_of_its_image_and_no_other() -> None:
    vault, host = MemoryVault(), Host("n1", "127.0.0.1:1")
    await vault.keep(kept_under("registry.example:5000"), KNOWN.carried().encode())
    await host.listen()
    agents = NodeAgents(vault)
    try:
        for uri, carried in (
            ("docker://registry.example:5000/web", KNOWN.carried()),
            ("docker://registry.example/web", None),
            ("builtin:web", None),
        ):
            reports = agents.run(order(host, uri))
            await anext(reports)
            await reports.aclose()
            assert host.agent.copies[uri].beside.get(CREDENTIALS) == carried
    finally:
        await agents.close()
        await host.close()


def test_a_command_keeps_it_sealed_and_forgets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDLASS_STATE", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse\n"))
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"

    async def kept() -> bytes:
        database = Database(url)
        vault = Secrets(database, Seal.from_file(tmp_path / "seal.key"))
        try:
            return await vault.open(kept_under("registry.example"))
        finally:
            await database.close()

    asyncio.run(schema.upgrade(url))
    assert program.main(["registry", "registry.example", "ann"]) == 0
    assert asyncio.run(kept()) == KNOWN.carried().encode()
    assert b"correct horse" not in (tmp_path / "windlass.db").read_bytes()
    assert program.main(["registry", "registry.example", "ann"]) == 1, "nothing more on stdin"
    assert program.main(["registry", "https://registry.example", "ann"]) == 1
    assert program.main(["registry", "registry.example"]) == 0
    assert program.main(["registry", "registry.example"]) == 0
    said = capsys.readouterr()
    assert "fetched as ann" in said.out
    assert "fetched as nobody" in said.out
    assert "nothing is kept" in said.err
    assert "horse" not in said.out + said.err
