"""Which workflow carries out which kind of operation. Worker, launch and sweep all read it."""

from typing import Protocol, TypeAlias

from domain.operation import CHANGES, Kind, OperationId
from workflows.change_pools import ChangePools
from workflows.create_cluster import CreateCluster
from workflows.create_instance import CreateInstance
from workflows.delete_cloudlet import DeleteCloudlet
from workflows.delete_cluster import DeleteCluster
from workflows.delete_instance import DeleteInstance
from workflows.mark_osds import MarkOsds
from workflows.own_pool import CreatePool, DeletePool
from workflows.repair_cluster import RepairCluster
from workflows.update_clusterinst import UpdateClusterInst
from workflows.upgrade_cluster import UpgradeCluster
from workflows.upgrade_storage import UpgradeStorage


class Operates(Protocol):
    """A workflow that carries out an operation: given its id, it finds the rest in the row."""

    async def run(self, operation: OperationId) -> None: ...


Flow: TypeAlias = (
    type[CreateCluster]
    | type[DeleteCluster]
    | type[ChangePools]
    | type[UpgradeCluster]
    | type[RepairCluster]
    | type[CreateInstance]
    | type[UpdateClusterInst]
    | type[DeleteInstance]
    | type[DeleteCloudlet]
    | type[MarkOsds]
    | type[CreatePool]
    | type[DeletePool]
    | type[UpgradeStorage]
)

CATALOGUE: dict[Kind, Flow] = {
    Kind.CREATE_CLUSTER: CreateCluster,
    Kind.DELETE_CLUSTER: DeleteCluster,
    **dict.fromkeys(CHANGES, ChangePools),
    Kind.UPGRADE_CLUSTER: UpgradeCluster,
    Kind.REPAIR_CLUSTER: RepairCluster,
    Kind.CREATE_CLUSTERINST: CreateInstance,
    Kind.UPDATE_CLUSTERINST: UpdateClusterInst,
    Kind.DELETE_CLUSTERINST: DeleteInstance,
    Kind.CREATE_APPINST: CreateInstance,
    Kind.DELETE_APPINST: DeleteInstance,
    Kind.DELETE_CLOUDLET: DeleteCloudlet,
    Kind.TAKE_OSDS_OUT: MarkOsds,
    Kind.TAKE_OSDS_IN: MarkOsds,
    Kind.CREATE_POOL: CreatePool,
    Kind.DELETE_POOL: DeletePool,
    Kind.UPGRADE_STORAGE: UpgradeStorage,
}
