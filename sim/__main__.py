"""`python -m sim [--fault FAULT ...]`: a simulated site in a process of its own, until it is told
to stop. `python -m sim crm --cloudlet OPERATOR/NAME [--fault FAULT ...]`: a resource manager to
practise on. They go wrong as planned; `sim/troubles.py` has the faults with names."""

import argparse
import asyncio
import json
import logging
import secrets
import signal
import sys
from collections.abc import Coroutine, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from pydantic import ValidationError

from agent.crm.crm import cloudlet_key
from agent.crm.serving import serve as manage
from agent.failover import addresses
from domain.errors import DomainError, Invalid, Unavailable
from logs import keep_private, start_log
from settings import Settings, read
from sim import troubles
from sim.crm import practice
from sim.faults import Fault, Faults
from sim.ledger import Ledger
from sim.pace import Pace, WallClock
from sim.site import FAULTS, Site, compose, stock
from systems import Ceph, Maas, MissingKeyError


async def serve(settings: Settings, faults: Faults) -> None:
    """Serve until SIGTERM or SIGINT. One line of JSON says when, and where."""
    logging.getLogger("asyncssh").setLevel(logging.WARNING)  # it tells of every connection
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    with closing(Ledger(settings.state / "site.jsonl")) as ledger:
        site = composed(settings, ledger, faults)
        try:
            url = await started(site, settings.site.host, settings.site.port)
            print(json.dumps({"maas": url, "machines": settings.site.machines}), flush=True)
            await stopped.wait()
        finally:
            await site.stop()


def composed(settings: Settings, ledger: Ledger, faults: Faults) -> Site:
    """The site as the settings want it. What the ledger remembers is there already."""
    return compose(
        stock(settings.site.machines),
        ledger=ledger,
        faults=faults,
        clock=WallClock(),
        pace=Pace(**settings.site.pace.model_dump()),
        network=settings.site.network,
        ssh_port=settings.kaas.ssh_port,
        api_key=api_key(settings.maas),
        ceph_password=ceph_password(settings.ceph),
        domain=settings.kaas.domain,
    )


async def started(site: Site, host: str, port: int) -> str:
    """The URL of the region, which serves from here on. Unavailable if its port is taken."""
    try:
        return await site.start(host, port)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}: it is in use, or no address of this machine",
            do="stop what listens there, or set WINDLASS_SITE__PORT to another port",
        ) from error


def plan(path: Path | None, named: Iterable[str]) -> Faults:
    """What shall go wrong from the beginning: what the file says, then what the command line does.
    Of two faults that befall the same call, the first one does."""
    faults = Faults()
    for fault in (*planned(path), *map(troubles.fault, named)):
        faults.add(fault)
    return faults


def planned(path: Path | None) -> Iterable[Fault]:
    """The faults in a file. Invalid if it is not a list of such."""
    if path is None:
        return ()
    try:
        return FAULTS.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise Invalid(
            f"{path} is no list of faults: {error}",
            do="correct it, or set WINDLASS_SITE__FAULTS_FILE to another",
        ) from error


def api_key(maas: Maas) -> str:
    """The key the region lets in. The first site on a machine makes one, for clients to read."""
    path = maas.api_key_file
    if not maas.api_key.get_secret_value() and path is not None and not path.exists():
        make_key(path)
    return maas.key()


def make_key(path: Path) -> None:
    _made(path, ":".join(secrets.token_hex(9) for _ in range(3)))


def ceph_password(ceph: Ceph) -> str:
    """The password of the one user of the dashboard, made likewise."""
    path = ceph.password_file
    if ceph.password.get_secret_value() or path is None:
        return ceph.password.get_secret_value()
    if not path.exists():
        _made(path, secrets.token_urlsafe(18))
    return path.read_text().strip()


def _made(path: Path, secret: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(secret)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m sim", description="Serve a simulated site.")
    _takes_faults(whole)
    parts = whole.add_subparsers(dest="part", title="instead of the site")
    crm = parts.add_parser("crm", description="Manage a cloudlet that only remembers.")
    crm.add_argument(
        "--cloudlet",
        action="append",
        required=True,
        metavar="OPERATOR/NAME",
        help="whose manager; given more than once, there are as many",
    )
    crm.add_argument(
        "--controller",
        action="append",
        default=[],
        metavar="HOST:PORT[,...]",
        help="where API processes serve notify; without one, where the settings say",
    )
    crm.add_argument(
        "--seconds", type=float, default=0.2, help="how long every piece of work takes"
    )
    _takes_faults(crm)
    return whole


def _takes_faults(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help=f"what shall go wrong: {', '.join(troubles.TROUBLES)}; or a fault in JSON",
    )


def work(given: argparse.Namespace, settings: Settings) -> Coroutine[Any, Any, None]:
    """What the command line asks for."""
    if given.part != "crm":
        return serve(settings, plan(settings.site.faults_file, given.fault))
    said = given.controller or [settings.edge.notify_address or settings.grpc_address]
    controllers = [each for text in said for each in addresses(text)]
    faults = plan(None, given.fault)
    crms = {
        name: practice(cloudlet_key(name), controllers, faults, given.seconds)
        for name in given.cloudlet
    }
    return manage(crms, partial(print, flush=True))


def main() -> int:
    given = parser().parse_args()
    try:
        settings = read()
        start_log(settings)
        keep_private(settings)
        uvloop.run(work(given, settings))
    except MissingKeyError as error:
        return _refused(str(error), "set WINDLASS_MAAS__API_KEY or WINDLASS_MAAS__API_KEY_FILE")
    except DomainError as error:
        return _refused(error.message, error.do)
    except OSError as error:
        return _refused(
            str(error),
            "look at WINDLASS_STATE, WINDLASS_MAAS__API_KEY_FILE and WINDLASS_CEPH__PASSWORD_FILE",
        )
    return 0


def _refused(message: str, do: str) -> int:
    print(f"error: {message}\n  do: {do}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
