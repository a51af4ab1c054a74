"""Which workflow carries out which kind of operation. Worker, launch and sweep all read it."""

from typing import Protocol

from domain.operation import CHANGES, Kind, OperationId
from workflows.change_pools import ChangePools
from workflows.create_cluster import CreateCluster
from workflows.delete_cluster import DeleteCluster
from workflows.upgrade_cluster import UpgradeCluster


class Operates(Protocol):
    """A workflow that carries out an operation: given its id, it finds the rest in the row."""

    async def run(self, operation: OperationId) -> None: ...


Operating = type[CreateCluster] | type[DeleteCluster] | type[ChangePools] | type[UpgradeCluster]

CATALOGUE: dict[Kind, Operating] = {
    Kind.CREATE_CLUSTER: CreateCluster,
    Kind.DELETE_CLUSTER: DeleteCluster,
    **dict.fromkeys(CHANGES, ChangePools),
    Kind.UPGRADE_CLUSTER: UpgradeCluster,
}
