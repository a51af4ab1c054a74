import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from api import build
from api.__main__ import Api
from api.launch import client
from settings import Settings, Temporal
from store import schema
from tests.api.caller import NOBODY
from tests.cli.peer import Peer, http_served, served
from tests.cli.running import Outcome, Windlass, in_process


@pytest.fixture(autouse=True)
def _plain_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Clocks on the wall show UTC, and nobody's environment leaks in."""
    for name in ("WINDLASS_ADDRESS", "WINDLASS_HTTP", "NO_COLOR", "FORCE_COLOR", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("WINDLASS_TOKEN", raising=False)
    for name in ("WINDLASS_CA", "WINDLASS_CERT", "WINDLASS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WINDLASS_CONTEXTS", str(tmp_path / "contexts.json"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    async with served(peer), http_served(peer):
        yield peer


@pytest.fixture
def windlass(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Windlass:
    """Run a command line in this process, in a thread and a loop of its own."""
    monkeypatch.setenv("WINDLASS_ADDRESS", peer.address)
    monkeypatch.setenv("WINDLASS_HTTP", peer.http)

    async def ask(*arguments: str) -> Outcome:
        return await asyncio.to_thread(in_process, *arguments)

    return ask


@pytest.fixture
async def real_windlass(tmp_path: Path) -> AsyncIterator[Windlass]:
    """The command, at an API of its own."""
    url = f"sqlite+aiosqlite:///{tmp_path}/windlass.db"
    await schema.upgrade(url)
    settings = Settings(
        database=url,
        key_file=tmp_path / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address=NOBODY),
    )
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    grpc, _ = await api.start()

    async def ask(*arguments: str) -> Outcome:
        return await asyncio.to_thread(in_process, *arguments, "--address", grpc)

    yield ask
    await api.stop()
