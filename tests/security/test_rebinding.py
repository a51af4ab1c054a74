"""A7: no page reaches an API that is open, whatever name leads there and whatever path it asks."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from api import build
from api.__main__ import Api
from api.launch import client
from settings import Auth, Settings, Temporal
from store import schema
from tests.api.caller import NOBODY
from tests.support.load import grown

PATHS = [
    ("GET", "/cluster"),
    ("GET", "/cluster/kubeconfig"),
    ("DELETE", "/cluster"),
    ("POST", "/show/app"),
    ("POST", "/create/developer"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
    ("GET", "/livez"),
    ("POST", "/api/config"),
    ("POST", "/cnct.kaas.api.Cluster/GetClusterList"),
    ("POST", "/api/cnct.kaas.api.Cluster/GetClusterList"),
    ("POST", "/codec/decode"),
    ("GET", "/nothing"),
]


@pytest.fixture(scope="module", params=["127.0.0.1:0", "0.0.0.0:0"], ids=["loopback", "all"])
async def url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """An API at which nobody signs in; that it listens everywhere is how a container does."""
    folder: Path = tmp_path_factory.mktemp("open")
    settings = Settings(
        state=folder,
        grpc_address="127.0.0.1:0",
        http_address=request.param,
        temporal=Temporal(address=NOBODY),
        auth=Auth(mode="open", open_beyond_loopback=True),
        hosts=("windlass.example",),
    )
    await schema.upgrade(settings.database)
    api = Api(settings, await client(NOBODY, "default"), build.Build())
    _, http = await api.start()
    yield f"http://127.0.0.1:{http.rpartition(':')[2]}"
    await api.stop()


@pytest.fixture
async def web(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=grown(20)) as http:
        yield http


@pytest.mark.parametrize(("verb", "path"), PATHS)
async def test_a_name_that_leads_here_is_refused_on_every_path(
    web: httpx2.AsyncClient, verb: str, path: str
) -> None:
    for host in ("rebound.example:8282", "rebound.example", "127.0.0.1.rebound.example"):
        origin = {"origin": f"http://{host}"}
        for headers in ({"host": host}, {"host": host, **origin}):
            answer = await web.request(verb, path, headers=headers)
            assert answer.status_code == 403, (host, path)


@pytest.mark.parametrize(("verb", "path"), PATHS)
async def test_a_page_of_another_origin_is_refused_on_every_path(
    web: httpx2.AsyncClient, verb: str, path: str
) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        answer = await web.request(verb, path, headers={"origin": origin})
        assert answer.status_code in (403, 415), (origin, path)
        assert "access-control-allow-origin" not in answer.headers


async def test_names_of_ours_are_served(web: httpx2.AsyncClient, url: str) -> None:
    port = url.rpartition(":")[2]
    for host in ("localhost", f"127.0.0.1:{port}", "windlass.example", "WINDLASS.example:443"):
        answer = await web.get("/livez", headers={"host": host, "origin": f"http://{host}"})
        assert answer.status_code == 200, host
    behind = {"host": "127.0.0.1:8282", "origin": "https://windlass.example"}
    assert (await web.get("/api/ping", headers=behind)).status_code == 200
