"""`python -m sim`: a simulated site in a process of its own, until it is told to stop."""

import asyncio
import json
import logging
import secrets
import signal
from pathlib import Path

import uvloop

from settings import Maas, Settings
from sim.faults import Faults
from sim.ledger import Ledger
from sim.pace import Pace, WallClock
from sim.site import FAULTS, compose, stock


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. One line of JSON says when, and where."""
    logging.getLogger("asyncssh").setLevel(logging.WARNING)  # it tells of every connection
    site_settings = settings.site
    ledger, faults, clock = Ledger(settings.state / "site.jsonl"), Faults(), WallClock()
    pace = Pace(**site_settings.pace.model_dump())
    if site_settings.faults_file is not None:
        for fault in FAULTS.validate_json(site_settings.faults_file.read_bytes()):
            faults.add(fault)
    site = compose(
        stock(site_settings.machines),
        ledger=ledger,
        faults=faults,
        clock=clock,
        pace=pace,
        network=site_settings.network,
        ssh_port=settings.kaas.ssh_port,
        api_key=api_key(settings.maas),
        domain=settings.kaas.domain,
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    url = await site.start(site_settings.host, site_settings.port)
    try:
        print(json.dumps({"maas": url, "machines": site_settings.machines}), flush=True)
        await stopped.wait()
    finally:
        await site.stop()
        ledger.close()


def api_key(maas: Maas) -> str:
    """The key the region lets in. The first site on a machine makes one, for clients to read."""
    path = maas.api_key_file
    if not maas.api_key.get_secret_value() and path is not None and not path.exists():
        make_key(path)
    return maas.key()


def make_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(":".join(secrets.token_hex(9) for _ in range(3)))


if __name__ == "__main__":
    uvloop.run(serve(Settings()))
