"""The service of the kaas contract. A change is accepted here and carried out elsewhere."""

from typing import NamedTuple

from api.asking import Context, asked, refer
from api.build import Build
from api.kaas import convert
from api.kaas.kubeconfigs import Kubeconfigs
from api.launch import Launch
from domain.cluster import Limits, check
from domain.errors import Unsupported
from domain.releases import Catalogue
from domain.upgrades import offered
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterServicer
from store.clusters import Building, Clusters


class Offer(NamedTuple):
    """What may be asked for, and what is the same for every cluster."""

    catalogue: Catalogue
    limits: Limits
    building: Building


class Cluster(ClusterServicer):
    """Kubernetes clusters. Reads answer from rows and need neither Temporal nor MAAS."""

    def __init__(
        self,
        clusters: Clusters,
        kubeconfigs: Kubeconfigs,
        launch: Launch,
        offer: Offer,
        build: Build,
    ) -> None:
        self._clusters = clusters
        self._kubeconfigs = kubeconfigs
        self._launch = launch
        self._offer = offer
        self._build = build

    async def CreateCluster(
        self, request: pb.CreateClusterMsg, context: Context
    ) -> pb.CreateClusterReply:
        catalogue, limits, building = self._offer
        order = convert.order(request, limits)
        release = check(order, catalogue, limits)
        ask = asked(request)
        operation = await self._clusters.request_create(order, release, building, ask)
        refer(context, operation.id)
        self._launch.soon(operation)
        return convert.accepted(operation)

    async def DeleteCluster(
        self, request: pb.DeleteClusterMsg, context: Context
    ) -> pb.DeleteClusterReply:
        name = convert.named("name", request.name)
        deleted = await self._clusters.request_delete(name, asked(request))
        refer(context, deleted.operation.id)
        if deleted.superseded is not None:
            self._launch.cancel_soon(deleted.superseded)
        self._launch.soon(deleted.operation)
        return pb.DeleteClusterReply(ok=True, status="Deleting")

    async def GetCluster(self, request: pb.GetClusterMsg, context: Context) -> pb.GetClusterReply:
        cluster = await self._clusters.get(convert.named("name", request.name))
        kubeconfig = await self._kubeconfigs.of(cluster)
        return pb.GetClusterReply(ok=True, cluster=convert.detail(cluster, kubeconfig))

    async def GetClusterList(
        self, request: pb.GetClusterListMsg, context: Context
    ) -> pb.GetClusterListReply:
        clusters = sorted(await self._clusters.all(), key=lambda cluster: cluster.name)
        return pb.GetClusterListReply(ok=True, clusters=map(convert.item, clusters))

    async def GetClusterNodesStatus(
        self, request: pb.GetClusterNodesStatusMsg, context: Context
    ) -> pb.GetClusterNodesStatusReply:
        name = convert.named("clusterName", request.clusterName)
        return convert.nodes(await self._clusters.nodes(name))

    async def GetVersionInformation(
        self, request: pb.GetVersionMsg, context: Context
    ) -> pb.GetVersionReply:
        return convert.version(self._build)

    async def AddNodePool(
        self, request: pb.AddNodePoolMsg, context: Context
    ) -> pb.AddNodePoolReply:
        raise _later("adding a node pool")

    async def DeleteNodePool(
        self, request: pb.DeleteNodePoolMsg, context: Context
    ) -> pb.DeleteNodePoolReply:
        raise _later("deleting a node pool")

    async def ScaleNodePool(
        self, request: pb.ScaleNodePoolMsg, context: Context
    ) -> pb.ScaleNodePoolReply:
        raise _later("scaling a node pool")

    async def GetUpgradeClusterInformation(
        self, request: pb.GetUpgradeClusterInformationMsg, context: Context
    ) -> pb.GetUpgradeClusterInformationReply:
        name = convert.named("name", request.name)
        cluster, nodes = await self._clusters.get(name), await self._clusters.nodes(name)
        versions = offered(cluster, nodes.slots, self._offer.catalogue)
        return pb.GetUpgradeClusterInformationReply(ok=bool(versions), versions=versions)

    async def UpgradeCluster(
        self, request: pb.UpgradeClusterMsg, context: Context
    ) -> pb.UpgradeClusterReply:
        raise _later("upgrading a cluster")


def _later(what: str) -> Unsupported:
    return Unsupported(
        f"{what} is part of the contract and not built yet",
        do="create a cluster with the pools and the version it is to have",
    )
