"""`python -m agent.crm --cloudlet OPERATOR/NAME --controller HOST:PORT`: the resource manager of a
cloudlet, until it is told to stop."""

import argparse
import os
import sys
from functools import partial

import uvloop

from agent.crm.crm import Crm, cloudlet_key
from agent.crm.kaas import Kaas
from agent.crm.nodes import Nodes
from agent.crm.platform import Platform, Resources
from agent.crm.serving import serve
from agent.crm.simulated import Simulated
from agent.failover import addresses
from domain.errors import DomainError, Invalid
from protos.gen.edge.cloudlet_pb2 import FlavorInfo

FLAVOR = "machine:64:262144:1000"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agent.crm", description="Manage a cloudlet.")
    parser.add_argument("--cloudlet", required=True, metavar="OPERATOR/NAME", help="whose manager")
    parser.add_argument(
        "--controller",
        action="append",
        required=True,
        metavar="HOST:PORT[,...]",
        help="where API processes serve notify; several are tried in turn; may be repeated",
    )
    parser.add_argument(
        "--platform",
        choices=("sim", "kaas", "nodes"),
        default="sim",
        help="sim only remembers; kaas makes clusters through cnct.kaas.api; nodes runs apps as "
        "instances through scheduler.InstanceService",
    )
    nodes = parser.add_argument_group("platform nodes")
    nodes.add_argument("--scheduler", metavar="HOST:PORT[,...]", help="where scheduler is served")
    nodes.add_argument("--pool", default="", help="the pool of nodes; without one, any node")
    kaas = parser.add_argument_group("platform kaas, and what nodes have in all")
    kaas.add_argument("--kaas", metavar="HOST:PORT[,...]", help="where cnct.kaas.api is served")
    kaas.add_argument(
        "--flavor",
        action="append",
        default=[],
        metavar="NAME:VCPUS:RAM_MB:DISK_GB",
        help=f"a kind of machine that there is; without one, {FLAVOR}",
    )
    kaas.add_argument(
        "--instance-type",
        action="append",
        default=[],
        metavar="FLAVOR=TYPE",
        help="the instance type that kaas is asked for where a cluster has that flavor; given more "
        "than once; of a flavor without one any machine will do",
    )
    for name, what in (("ram-mb", "memory"), ("vcores", "cores"), ("volume-gb", "disk")):
        kaas.add_argument(f"--{name}", type=int, default=0, help=f"how much {what} there is in all")
    return parser


def flavor(text: str) -> FlavorInfo:
    """A kind of machine as people write it. Invalid if it is not NAME:VCPUS:RAM_MB:DISK_GB."""
    name, *sizes = text.split(":")
    if not name or len(sizes) != 3 or not all(size.isdecimal() for size in sizes):
        raise Invalid(f"{text!r} is no flavor", do="write NAME:VCPUS:RAM_MB:DISK_GB")
    vcpus, ram, disk = map(int, sizes)
    return FlavorInfo(name=name, vcpus=vcpus, ram=ram, disk=disk)


def instance_type(text: str) -> tuple[str, str]:
    """Which kind of machine a flavor is, as people write it. Invalid if it is not FLAVOR=TYPE."""
    name, equals, kind = text.partition("=")
    if not (name and equals and kind):
        raise Invalid(f"{text!r} is no instance type of a flavor", do="write FLAVOR=TYPE")
    return name, kind


def platform(given: argparse.Namespace) -> Platform:
    if given.platform == "sim":
        return Simulated()
    flavors = [flavor(text) for text in given.flavor or [FLAVOR]]
    resources = Resources(given.ram_mb, given.vcores, given.volume_gb, flavors)
    cloudlet = cloudlet_key(given.cloudlet)
    if given.platform == "nodes":
        if not given.scheduler:
            raise Invalid("the platform nodes needs a Windlass", do="say --scheduler HOST:PORT")
        return Nodes(cloudlet, given.scheduler, given.pool, resources)
    if not given.kaas:
        raise Invalid("the platform kaas needs a Windlass", do="say --kaas HOST:PORT")
    kinds = dict(map(instance_type, given.instance_type))
    return Kaas(cloudlet, given.kaas, resources, instance_types=kinds)


async def manage(given: argparse.Namespace) -> None:
    controllers = [each for text in given.controller for each in addresses(text)]
    crm = Crm(cloudlet_key(given.cloudlet), platform(given), controllers)
    await serve({given.cloudlet: crm}, partial(print, flush=True))


def main() -> int:
    given = parser().parse_args()
    os.umask(0o077)  # what is written is for nobody else to read
    try:
        uvloop.run(manage(given))
    except DomainError as error:
        print(f"error: {error.message}\n  do: {error.do}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
