"""The node agent: `python -m agent`. SIGTERM drains it: what runs is stopped, and the node leaves.
SIGINT has it go away and leave everything running, to be found again by the next one."""

import argparse
import asyncio
import json
import platform
import signal
import sqlite3
import sys
from pathlib import Path

import uvloop

from agent.bearing import opened
from agent.choosing import Choice, chosen
from agent.instances import Terms
from agent.whole import Agent, Plan
from api import build
from api.tls import Files
from domain.access import is_loopback
from domain.disk import trouble
from domain.errors import DomainError, Invalid, Unavailable
from domain.placement import Amounts
from logs import keep_private, start_log
from settings import Agent as AgentSettings
from settings import Settings, read

KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),  # the library's two minutes are a lease many times
]


async def serve(settings: Settings) -> None:
    """Be a node until told otherwise. One line of JSON says when, and where."""
    node = settings.agent.node or platform.node()
    folder = settings.state.absolute() / "agents" / node
    said = settings.agent
    choice = Choice(
        wanted=said.runtime, fallback=said.process_fallback, commands=said.process_commands
    )
    runtime, why = await chosen(choice, node, folder)
    channel = opened(settings.agent.control, KEEPALIVE)
    plan = planned(settings, node, (await build.found()).version)
    agent = Agent(plan, runtime, channel, why=why)
    signals: asyncio.Queue[bool] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signals.put_nowait, True)
    loop.add_signal_handler(signal.SIGINT, signals.put_nowait, False)
    listens = await agent.start()
    print(json.dumps({"node": node, "agent": listens, "why": why}), flush=True)
    drains = await signals.get()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)  # whoever says it twice does not want to wait
    if drains:
        await agent.drain()
    await agent.stop()
    await channel.close()


def planned(settings: Settings, node: str, version: str) -> Plan:
    """The agent as the settings want it."""
    agent = settings.agent
    return Plan(
        node=node,
        folder=settings.state.absolute() / "agents" / node,
        listen=agent.listen,
        address=agent.address,
        certificate=certificate(agent.certificate_file) if agent.certificate_file else "",
        tls=encryption(agent),
        pool=agent.pool,
        labels=tuple(agent.labels.items()),
        has=Amounts(cpu=agent.cpu, memory=agent.memory_mb, disk=agent.disk_gb),
        grace_seconds=agent.grace_seconds,
        log_bytes=settings.pods.log_mb * 10**6,
        terms=Terms(
            linger=agent.linger_seconds,
            records=settings.pods.kept.total_seconds(),
            images=agent.image_hours * 3600,
        ),
        version=version,
        serves_anybody=agent.serves_anybody,
    )


def encryption(said: AgentSettings) -> Files | None:
    """What the agent's port is encrypted with. Invalid if others can reach it, it is not encrypted
    and nobody has said that this is meant."""
    if said.certificate_file and said.key_file:
        return Files(said.certificate_file, said.key_file)
    if said.key_file:
        raise Invalid(
            "the agent has a key and no certificate",
            do="set WINDLASS_AGENT__CERTIFICATE_FILE to the key's certificate, PEM",
        )
    if not (is_loopback(said.listen) or said.plaintext or said.serves_anybody):
        raise Invalid(
            f"what is said to the agent at {said.listen} would not be encrypted",
            do="set WINDLASS_AGENT__CERTIFICATE_FILE and WINDLASS_AGENT__KEY_FILE, or say that it "
            "is meant so: WINDLASS_AGENT__PLAINTEXT=true",
        )
    return None


def certificate(path: Path) -> str:
    """The PEM that says who the node is."""
    try:
        return path.read_text()
    except OSError as error:
        raise Invalid(
            f"{path} cannot be read: {error.strerror}",
            do="set WINDLASS_AGENT__CERTIFICATE_FILE to a PEM certificate",
        ) from error


def told() -> dict[str, str]:
    """What the command line says of the agent, over what is set."""
    parser = argparse.ArgumentParser(prog="python -m agent", description="Be a node.")
    parser.add_argument("--node", metavar="ID", help="the node's id")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to serve")
    parser.add_argument(
        "--control",
        metavar="HOST:PORT[,...]",
        help="where the control plane is; where one address is away the next is called",
    )
    return {name: said for name, said in vars(parser.parse_args()).items() if said}


def main() -> int:
    said = told()
    try:
        settings = read()
        agent = settings.agent.model_copy(update=said)
        settings = settings.model_copy(update={"agent": agent})
        start_log(settings)
        keep_private(settings)
        uvloop.run(serve(settings))
    except DomainError as error:
        print(f"error: {error.message}\n  do: {error.do}", file=sys.stderr)
        return 1
    except (OSError, sqlite3.Error) as error:  # of the folder that the agent keeps its state in
        found = trouble(error, "the agent's state") or Unavailable(
            f"the agent's state cannot be used: {error}",
            do="make WINDLASS_STATE writable for this user, on a disk with free space",
        )
        print(f"error: {found.message}\n  do: {found.do}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
