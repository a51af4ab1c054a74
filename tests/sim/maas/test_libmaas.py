"""The simulated region serves a client that nobody here wrote: the real python-libmaas."""

import asyncio
import json
from pathlib import Path

from sim.maas import Stocked
from sim.pace import Pace
from tests.sim.region import Region

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-libmaas" / "bin" / "python"
TOUR = Path(__file__).parent / "libmaas_tour.py"

STOCK = [
    Stocked(hostname="plain", tags=("metal",)),
    Stocked(hostname="fast", tags=("metal", "gpu"), zone="rack-a"),
]


async def test_python_libmaas_can_take_a_tour() -> None:
    assert PYTHON.exists(), "python-libmaas is not installed, run `make .venv-libmaas`"
    region = Region(STOCK, pace=Pace(deploy=0.2, release=0.2))
    async with region.serve():
        tour = await asyncio.create_subprocess_exec(
            PYTHON, TOUR, region.url, region.api_key, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await tour.communicate()
    assert tour.returncode == 0
    seen = json.loads(said)
    system_id = STOCK[1].system_id
    assert seen == {
        "listed": ["fast", "plain"],
        "owner": "windlass",
        "me": "windlass",
        "version": "3.2.10",
        "tags": ["gpu", "metal"],
        "zone": "rack-a",
        "allocated": "ALLOCATED",
        "refused": "No machine matching the given criteria was found.",
        "invalid": 400,
        "deployed": "DEPLOYED",
        "addresses": ["fe80::5054:ff:fe00:2", "127.41.0.3"],
        "power": "on",
        "events": ["Deployed", "Deploying", "User acquiring node"],
        "created": True,
        "zones": ["default", "rack-a"],
        "system_id": system_id,
        "power off": "off",
        "power on": "on",
        "released": "READY",
        "broken": ["BROKEN", "it does not deploy", None],
        "fixed": "READY",
    }
    assert region.hosts.done == [
        ("boot", system_id),
        ("power off", system_id),
        ("power on", system_id),
        ("wipe", system_id),
        ("wipe", STOCK[0].system_id),
    ]
