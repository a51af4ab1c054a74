"""`python -m sim`: a site in a process of its own, which may be killed at any time."""

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clients.maas import Maas, MaasMachines
from domain.machine import Machine, Role, Search, Slot
from domain.releases import CATALOGUE
from sim.__main__ import parser
from sim.site import stock
from tests.sim.region import eventually

ROOT = Path(__file__).parents[2]


def secret(path: Path) -> str:
    """What lies there, for its owner alone."""
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_text()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "WINDLASS_STATE": str(tmp_path),
        "WINDLASS_MAAS__API_KEY_FILE": str(tmp_path / "maas.key"),
        "WINDLASS_KAAS__SSH_PORT": str(free_port()),
        "WINDLASS_SITE__PORT": str(free_port()),
        "WINDLASS_SITE__MACHINES": "3",
        "WINDLASS_SITE__NETWORK": f"127.{100 + secrets.randbelow(100)}",
        "WINDLASS_SITE__PACE__DEPLOY": "1",
        "WINDLASS_SITE__PACE__BOOT": "0",
    }


@asynccontextmanager
async def site(surroundings: dict[str, str], end: signal.Signals) -> AsyncIterator[str]:
    """A site's URL, once it serves. It gets the signal in the end, whatever happened."""
    process: Process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sim", cwd=ROOT, env=surroundings, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        said = json.loads(await process.stdout.readline())
        assert said["machines"] == 3
        yield said["maas"]
    finally:
        process.send_signal(end)
        assert await process.wait() == (0 if end is signal.SIGTERM else -end)


async def test_a_killed_site_finishes_what_it_was_told(surroundings: dict[str, str]) -> None:
    slot = Slot(
        cluster_uid=secrets.token_hex(8),
        cluster="hello",
        name="workers-x7k2p",
        role=Role.WORKER,
        pool="workers",
        release=CATALOGUE.releases[0],
        public_key=f"ssh-ed25519 {secrets.token_hex(8)}",
    )
    key = Path(surroundings["WINDLASS_MAAS__API_KEY_FILE"])

    async with site(surroundings, signal.SIGKILL) as url:
        maas = Maas(url, secret(key))
        machine = await MaasMachines(maas).allocate(Search(slot=slot))
        assert (await MaasMachines(maas).deploy(machine)).status == "Deploying"

    async with site(surroundings, signal.SIGTERM) as again:
        assert again == url
        machines = MaasMachines(maas)
        done: list[Machine | None] = []

        async def there() -> bool:
            done.append(await machines.deployed(machine))
            return done[-1] is not None

        await eventually(there)
        reached = done[-1]
        assert reached is not None
        port = int(surroundings["WINDLASS_KAAS__SSH_PORT"])

        async def answers() -> bool:
            try:
                _, writer = await asyncio.open_connection(reached.address, port)
            except ConnectionRefusedError:  # Deployed comes before the SSH server
                return False
            writer.close()
            return True

        await eventually(answers)
        await machines.release(slot)
        await eventually(lambda: machines.released(slot))
        assert (await machines.stock()).machines == len(stock(3))
        await maas.close()


def test_a_resource_manager_is_asked_for_by_its_cloudlet() -> None:
    given = parser().parse_args(["crm", "--cloudlet", "tele/west", "--fault", "crm-slow"])
    assert (given.part, given.cloudlet, given.fault) == ("crm", ["tele/west"], ["crm-slow"])
    assert parser().parse_args(["--fault", "maas-full"]).fault == ["maas-full"]
