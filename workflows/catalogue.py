"""Which workflow carries out which kind of operation. Worker, launch and sweep all read it."""

from typing import Protocol, TypeAlias

from domain.operation import CHANGES, Kind, OperationId
from workflows.change_pools import ChangePools
from workflows.create_cluster import CreateCluster
from workflows.delete_cluster import DeleteCluster
from workflows.repair_cluster import RepairCluster
from workflows.upgrade_cluster import UpgradeCluster


class Operates(Protocol):
    """A workflow that carries out an operation: given its id, it finds the rest in the row."""

    async def run(self, operation: OperationId) -> None: ...


Flow: TypeAlias = (
    type[CreateCluster]
    | type[DeleteCluster]
    | type[ChangePools]
    | type[UpgradeCluster]
    | type[RepairCluster]
)

CATALOGUE: dict[Kind, Flow] = {
    Kind.CREATE_CLUSTER: CreateCluster,
    Kind.DELETE_CLUSTER: DeleteCluster,
    **dict.fromkeys(CHANGES, ChangePools),
    Kind.UPGRADE_CLUSTER: UpgradeCluster,
    Kind.REPAIR_CLUSTER: RepairCluster,
}
