"""Servers to call: the API as its process puts it together, over a real database."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from blockbuster import blockbuster_ctx

from api import build
from api.__main__ import Api
from api.launch import client
from settings import Settings, Temporal
from store.engine import Database
from store.sealing import Seal
from store.secrets import Secrets
from tests.api.caller import NOBODY, Caller
from tests.api.closed import Closed
from tests.api.closed import closed as served_closed
from tests.api.hands import Hands
from tests.programs.running import surroundings


@pytest.fixture(autouse=True)
def _nothing_blocks() -> Iterator[None]:
    """A call that blocks the loop is an error, but for files, since small ones are read while the
    API is put together, and for locks, since gRPC takes some whenever a server is collected."""
    with blockbuster_ctx(["api", "domain", "store"]) as watched:
        for name, call in watched.functions.items():
            if name.startswith(("io.", "os.", "threading.")):
                call.deactivate()
        yield


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """An API of its own for every test, with Temporal away: whatever is accepted stays so."""
    return Settings(
        database=database_url,
        key_file=tmp_path / "seal.key",
        grpc_address="127.0.0.1:0",
        http_address="127.0.0.1:0",
        temporal=Temporal(address=NOBODY),
    )


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    """What an API process of a test's own is told."""
    return surroundings(
        WINDLASS_DATABASE=database_url,
        WINDLASS_KEY_FILE=str(tmp_path / "seal.key"),
        WINDLASS_GRPC_ADDRESS="127.0.0.1:0",
        WINDLASS_HTTP_ADDRESS="127.0.0.1:0",
        WINDLASS_TEMPORAL__ADDRESS=NOBODY,
        WINDLASS_LOG_FORMAT="json",
    )


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Api]:
    temporal = await client(settings.temporal.address, settings.temporal.namespace)
    api = Api(settings, temporal, build.Build())
    yield api
    await api.stop()


@pytest.fixture
async def addresses(api: Api) -> tuple[str, str]:
    """Where its doors are: gRPC and HTTP."""
    return await api.start()


@pytest.fixture
async def caller(addresses: tuple[str, str]) -> AsyncIterator[Caller]:
    caller = Caller(addresses[0])
    yield caller
    await caller.close()


@pytest.fixture
async def http(addresses: tuple[str, str]) -> AsyncIterator[httpx2.AsyncClient]:
    """A caller at the HTTP door."""
    async with httpx2.AsyncClient(
        base_url=f"http://{addresses[1]}", trust_env=False, timeout=20
    ) as http:
        yield http


@pytest.fixture(scope="session")
async def closed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Closed]:
    """A server at which everybody has to sign in, which no test changes much."""
    async with served_closed(tmp_path_factory.mktemp("closed")) as served:
        yield served


@pytest.fixture
def seal(settings: Settings) -> Seal:
    """The key the server uses, so that a test can put secrets where it finds them."""
    return Seal.from_file(settings.key_file)


@pytest.fixture
def hands(database: Database, vault: Secrets) -> Hands:
    return Hands(database, vault)
