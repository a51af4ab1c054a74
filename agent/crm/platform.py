"""What a platform promises: to turn cluster instances and app instances into something that runs.

Whatever is asked for may be asked for again, after a restart for example. Failed says why something
cannot be done; its text is what the one who asked gets to read."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from agent.crm.names import Instance
from domain.errors import Failed
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.app_pb2 import App
from protos.gen.edge.cloudlet_pb2 import FlavorInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from protos.gen.edge.flavor_pb2 import Flavor

RUN_SECONDS = 50.0
"""So long a command gets that is run."""

LONGEST = 256 * 1024
"""Of each of the two that a command writes, so many characters are told. As JSON they may be six
times as long, and a message takes 4 MiB."""


class Resources(NamedTuple):
    """What a cloudlet has."""

    ram_mb: int
    vcores: int
    volume_gb: int
    flavors: Sequence[FlavorInfo]
    """The machines it can make."""


class AppOrder(NamedTuple):
    """An instance of an app, and what has to be known to run it."""

    instance: AppInst
    app: App
    flavor: Flavor
    """How large; empty where it does not matter."""
    cluster: ClusterInst | None
    """Where. A virtual machine needs none."""


class Output(NamedTuple):
    """What came of a command."""

    exit_code: int
    stdout: str
    stderr: str = ""


class Standing(NamedTuple):
    """How something stands that was made."""

    faults: tuple[str, ...] = ()
    """What is wrong with it, so that its name may stand before. Empty: nothing."""
    containers: tuple[str, ...] | None = None
    """Those of an app. None: not known."""
    nodes: int | None = None
    """How many a cluster has. None: not known."""


class Platform(Protocol):
    async def resources(self) -> Resources:
        """What there is. Failed if it cannot be found out."""

    async def create_cluster(self, cluster: ClusterInst) -> None:
        """Make a cluster. One that is there already is success, half of one is completed."""

    async def update_cluster(self, cluster: ClusterInst) -> None:
        """Give a cluster as many nodes as it says."""

    async def delete_cluster(self, cluster: ClusterInst) -> None:
        """Take a cluster away. There being none is success."""

    async def create_app(self, order: AppOrder) -> Sequence[str]:
        """Run an app, and tell the names of its containers. What runs already stays."""

    async def delete_app(self, order: AppOrder) -> None:
        """Stop an app and take it away. There being none is success."""

    @property
    def adopts(self) -> bool:
        """Whether earlier releases may have made something here that has no recorded owner."""

    async def adopt(self, known: Collection[Instance]) -> None:
        """Record the owner of what earlier releases made, given all instances that the controller
        knows. Failed if that cannot be done now; it may be asked for again."""

    def name(self, instance: Instance) -> str:
        """What an instance is called on the platform."""

    async def carries(self) -> Collection[str]:
        """The names of all that was made here for the cloudlet, even in part, by whichever start
        of its resource manager. What others made is not among it."""

    async def remove(self, name: str) -> None:
        """Take away what is called so. There being nothing is success."""

    async def inspect(
        self, clusters: Sequence[ClusterInst], apps: Sequence[AppOrder]
    ) -> Mapping[str, Standing]:
        """How these stand, by their names on the platform, without waiting for any of them. What is
        not known is left out. Failed if the platform does not answer."""

    async def run(self, order: AppOrder, container: str, command: str) -> Output:
        """Run a command in a container of an app; in the first, if none is named."""

    async def close(self) -> None:
        """Let go of connections. What runs goes on."""


def words(command: str) -> list[str]:
    """A command as a program gets it: no shell reads it, but quotes hold words together."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise Failed(f"the command cannot be read: {error}", do="close its quotes") from error
    if not found:
        raise Failed("there is no command", do="say what is to be run")
    return found
