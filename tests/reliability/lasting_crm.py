"""A resource manager whose platform outlives it, and that goes wrong as planned.

    python lasting_crm.py FOLDER OPERATOR/NAME HOST:PORT

What runs on the platform is a file each in `FOLDER/carried`, so that whoever looks sees it, and a
manager that was killed finds what it had made. What shall go wrong stands in `FOLDER/faults.json`
and is read at every start; without the file nothing does."""

import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import uvloop

from agent.crm.crm import Crm, cloudlet_key
from agent.crm.names import Instance, spoken
from agent.crm.platform import AppOrder
from agent.crm.serving import serve
from agent.crm.simulated import Simulated
from protos.gen.edge.app_inst_pb2 import AppInst
from protos.gen.edge.clusterinst_pb2 import ClusterInst
from sim.__main__ import plan
from sim.crm import Mishaps

WORK_SECONDS = 0.1
"""Long enough that kills land in the middle."""


class Lasting(Simulated):
    def __init__(self, carried: Path) -> None:
        super().__init__(WORK_SECONDS)
        self._carried = carried
        carried.mkdir(exist_ok=True)

    async def create_cluster(self, cluster: ClusterInst) -> None:
        self._file(self.name(cluster)).touch()  # who dies in the middle has made half of it
        await super().create_cluster(cluster)

    async def delete_cluster(self, cluster: ClusterInst) -> None:
        await super().delete_cluster(cluster)
        self._file(self.name(cluster)).unlink(missing_ok=True)

    async def create_app(self, order: AppOrder) -> Sequence[str]:
        self._file(self.name(order.instance)).touch()
        return await super().create_app(order)

    async def delete_app(self, order: AppOrder) -> None:
        await super().delete_app(order)
        self._file(self.name(order.instance)).unlink(missing_ok=True)

    def name(self, instance: Instance) -> str:
        noun = "app" if isinstance(instance, AppInst) else "cluster"
        return f"{noun} {spoken(instance)}"

    async def carries(self) -> Collection[str]:
        return {file.name for file in self._carried.iterdir()}

    async def remove(self, name: str) -> None:
        await super().remove(name)
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._carried / name


async def manage(folder: Path, cloudlet: str, controller: str) -> None:
    faults = folder / "faults.json"
    mishaps = Mishaps(plan(faults if faults.exists() else None, ()))
    crm = Crm(cloudlet_key(cloudlet), Lasting(folder / "carried"), [controller], mishaps)
    mishaps.befall(crm)
    await serve({cloudlet: crm}, partial(print, flush=True))


if __name__ == "__main__":
    uvloop.run(manage(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
