"""A page in a browser, of another origin than ours, through the HTTP door."""

import asyncio
import json
import os
import shutil
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import grpc
import pytest
import pytest_asyncio

from domain.storage_look import Look
from protos.gen.koor.api.services.stats import stats_pb2 as pb
from protos.gen.koor.api.services.stats.stats_pb2_grpc import StatsServiceStub
from store.engine import Database
from store.observations import Observations
from tests.api.closed import Closed, closed
from tests.api.signed import bearer
from tests.conformance.environments import said
from tests.conformance.processes import EndedBadlyError, done, running
from tests.conformance.stage import BUILD, MissingError, Stage
from tests.domain.ceph import seen
from tests.support.passwords import PASSWORD

PAGE = Path(__file__).with_name("page") / "index.html"
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
INSTALL_SECONDS, TOLD_SECONDS = 600, 60


async def prepare() -> str:
    if shutil.which("chromium") is None:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise MissingError("there is no chromium here: install the package chromium")
        try:
            await done(INSTALL, log=BUILD / "chromium.log", seconds=INSTALL_SECONDS)
        except EndedBadlyError as error:
            raise MissingError(f"chromium could not be installed: {error}") from error
    return (await said("chromium", "--version")).splitlines()[-1]


STAGE = Stage(
    name="browser",
    proves="a page of another origin signs in and reads through the HTTP door, in both dialects",
    prepare=prepare,
    tests=("tests/conformance/browser.py",),
    seconds=200,
)


class Site:
    """Serves the page at an address of its own, and hears what it found."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        loop, told = asyncio.get_running_loop(), self.told

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(PAGE.read_bytes())

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["content-length"])))
                loop.call_soon_threadsafe(told.put_nowait, said)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """The page is asked for once; there is nothing to tell of that."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    async def visited(self, door: str, home: Path) -> dict[str, Any]:
        """What the page found, in a browser that is new."""
        asked = urlencode({"door": door, "name": "vic", "password": PASSWORD})
        words = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
        async with running(
            "chromium",
            *words,
            f"--user-data-dir={home}",
            "--remote-debugging-port=0",  # else it ends as soon as the page is there
            f"{self.origin}/#{asked}",
            log=home / "chromium.log",
            environment={**os.environ, "HOME": str(home)},
        ):
            async with asyncio.timeout(TOLD_SECONDS):
                return await self.told.get()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(site: Site, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Closed]:
    folder = tmp_path_factory.mktemp("server")
    async with closed(folder, origins=(site.origin,)) as served:
        database = Database(f"sqlite+aiosqlite:///{folder}/windlass.db")
        observations = Observations(database)
        await observations.claim("ceph", timedelta(minutes=10))
        observed = seen("ok").model_copy(update={"at": datetime.now(UTC)})
        await observations.keep("ceph", Look(observation=observed))
        await database.close()
        yield served


async def test_a_page_signs_in_and_reads(server: Closed, site: Site, tmp_path: Path) -> None:
    told = await site.visited(server.http, tmp_path)
    stub, carried = StatsServiceStub(server.channel), bearer(server.tokens["vic"])
    stats = (await stub.GetClusterStats(pb.GetClusterStatsRequest(), metadata=carried)).stats
    radar = (await stub.GetClusterRadar(pb.GetClusterRadarRequest(), metadata=carried)).radar
    figures = {field.camelcase_name: value for field, value in radar.ListFields()}
    assert told == {
        "stranger": "unauthenticated",
        "wrong": "unauthenticated",
        "status": stats.status,
        "osds": stats.services.osd.osd_count,
        "radar": pytest.approx(figures),
        "webStranger": grpc.StatusCode.UNAUTHENTICATED.value[0],
        "webStatus": stats.status,
        "webRadar": pytest.approx(list(figures.values())),
        "after": "unauthenticated",
    }
    assert (stats.status, stats.services.osd.osd_count) == ("HEALTH_OK", 3)
    assert len(figures) >= 4


async def test_a_page_that_is_not_listed_hears_nothing(
    server: Closed, site: Site, tmp_path: Path
) -> None:
    other = Site()
    try:
        told = await other.visited(server.http, tmp_path)
    finally:
        other.close()
    assert told == {"error": "TypeError: Failed to fetch"}
