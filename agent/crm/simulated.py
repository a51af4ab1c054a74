"""The platform `sim`: clusters and apps that are nothing but remembered."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from agent.crm import names
from agent.crm.names import Instance
from agent.crm.platform import AppOrder, Output, Resources, Standing, words
from domain.errors import Failed
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.cloudlet_pb2 import FlavorInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInst

RESOURCES = Resources(
    ram_mb=500,
    vcores=50,
    volume_gb=5000,
    flavors=(FlavorInfo(name="flavor1", vcpus=10, ram=101024, disk=500),),
)
"""What the first fake platform said that it has."""


class Simulated:
    def __init__(self, seconds: float = 0.0) -> None:
        """Every piece of work takes so long."""
        self._seconds = seconds
        self.clusters: dict[str, ClusterInst] = {}
        self.apps: dict[str, Sequence[str]] = {}
        self.ailing: dict[str, Standing] = {}
        """How those stand, by name, with which something is wrong."""

    async def resources(self) -> Resources:
        return RESOURCES

    async def create_cluster(self, cluster: ClusterInst) -> None:
        await asyncio.sleep(self._seconds)
        self.clusters[self.name(cluster)] = cluster

    async def update_cluster(self, cluster: ClusterInst) -> None:
        await self.create_cluster(cluster)

    async def delete_cluster(self, cluster: ClusterInst) -> None:
        await asyncio.sleep(self._seconds)
        self.clusters.pop(self.name(cluster), None)

    async def create_app(self, order: AppOrder) -> Sequence[str]:
        await asyncio.sleep(self._seconds)
        name = order.app.key.name
        return self.apps.setdefault(self.name(order.instance), (f"{name}-0",))

    async def delete_app(self, order: AppOrder) -> None:
        await asyncio.sleep(self._seconds)
        self.apps.pop(self.name(order.instance), None)

    @property
    def adopts(self) -> bool:
        return False

    async def adopt(self, known: Collection[Instance]) -> None:
        """Nothing outlives the process."""

    def name(self, instance: Instance) -> str:
        if isinstance(instance, AppInst):
            return f"app {names.app(instance.key)}"
        return f"cluster {names.cluster(instance.key)}"

    async def carries(self) -> Collection[str]:
        return {*self.clusters, *self.apps}

    async def remove(self, name: str) -> None:
        await asyncio.sleep(self._seconds)
        self.clusters.pop(name, None)
        self.apps.pop(name, None)

    async def inspect(
        self, clusters: Sequence[ClusterInst], apps: Sequence[AppOrder]
    ) -> Mapping[str, Standing]:
        """Everything is well that nothing else is said of: what was made before a restart is not
        remembered."""
        well = {self.name(each): Standing(nodes=each.num_nodes) for each in clusters}
        well |= {self.name(order.instance): Standing() for order in apps}
        return {name: self.ailing.get(name, standing) for name, standing in well.items()}

    async def run(self, order: AppOrder, container: str, command: str) -> Output:
        """Says what it was asked to run, and where; `false` and `exit N` fail as they would."""
        told = order.instance.runtime_info.container_ids  # of what ran before a restart
        containers = self.apps.get(self.name(order.instance)) or tuple(told)
        if not containers or (container and container not in containers):
            raise Failed(f"there is no container {container or 'of this app'}")
        await asyncio.sleep(self._seconds)
        match words(command):
            case ["false"]:
                return Output(1, "")
            case ["exit", code] if code.isdecimal():
                return Output(int(code) % 256, "")
            case ["echo", *said]:
                return Output(0, " ".join(said) + "\n")
        return Output(0, f"{container or containers[0]}$ {command}\n")

    async def close(self) -> None:
        pass
