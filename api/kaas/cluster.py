"""The service of the kaas contract. A change is accepted here and carried out elsewhere."""

from typing import NamedTuple

from google.protobuf.message import Message

from api.asking import Context, asked, explain, notes, refer
from api.build import Build
from api.kaas import convert
from api.kaas.kubeconfigs import Kubeconfigs
from api.launch import Launch
from domain.cluster import Limits, check
from domain.operation import Ask, Operation
from domain.pools import check_added, check_dropped, check_scaled
from domain.releases import Catalogue
from domain.repairs import Prudence
from domain.upgrades import chosen, hindrance, offered
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterServicer
from store.clusters import Building, Clusters
from store.pools import Pools, Terms
from store.upgrades import Upgrades


class Offer(NamedTuple):
    """What may be asked for, and what is the same for every cluster."""

    catalogue: Catalogue
    limits: Limits
    building: Building
    prudence: Prudence = Prudence()


class Cluster(ClusterServicer):
    """Kubernetes clusters. Reads answer from rows and need neither Temporal nor MAAS."""

    def __init__(
        self,
        clusters: Clusters,
        pools: Pools,
        upgrades: Upgrades,
        kubeconfigs: Kubeconfigs,
        launch: Launch,
        offer: Offer,
        build: Build,
    ) -> None:
        self._clusters = clusters
        self._pools = pools
        self._upgrades = upgrades
        self._kubeconfigs = kubeconfigs
        self._launch = launch
        self._offer = offer
        self._build = build

    async def CreateCluster(
        self, request: pb.CreateClusterMsg, context: Context
    ) -> pb.CreateClusterReply:
        catalogue, limits, building, _ = self._offer
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
        notes().discloses = bool(kubeconfig)
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
        name, limits = convert.named("clusterName", request.clusterName), self._offer.limits
        pools = convert.pools(request, limits)
        check_added(name, pools, limits)
        self._begun(context, await self._pools.request_add(name, pools, *self._asked(request)))
        return pb.AddNodePoolReply(ok=True)

    async def DeleteNodePool(
        self, request: pb.DeleteNodePoolMsg, context: Context
    ) -> pb.DeleteNodePoolReply:
        name, limits = convert.named("clusterName", request.clusterName), self._offer.limits
        pools = list(dict.fromkeys(request.node_pool_names))
        check_dropped(name, pools, limits)
        self._begun(context, await self._pools.request_drop(name, pools, *self._asked(request)))
        return pb.DeleteNodePoolReply(ok=True)

    async def ScaleNodePool(
        self, request: pb.ScaleNodePoolMsg, context: Context
    ) -> pb.ScaleNodePoolReply:
        name, limits = convert.named("clusterName", request.clusterName), self._offer.limits
        sizes = convert.sizes(request, limits)
        check_scaled(name, sizes, limits)
        self._begun(context, await self._pools.request_scale(name, sizes, *self._asked(request)))
        return pb.ScaleNodePoolReply(ok=True)

    def _asked(self, request: Message) -> tuple[Terms, Ask]:
        _, limits, building, prudence = self._offer
        return Terms(limits=limits, building=building, prudence=prudence), asked(request)

    def _begun(self, context: Context, operation: Operation | None) -> None:
        """Tell the caller which operation it led to, and start it. None: there is nothing to do."""
        if operation is not None:
            refer(context, operation.id)
            self._launch.soon(operation)

    async def GetUpgradeClusterInformation(
        self, request: pb.GetUpgradeClusterInformationMsg, context: Context
    ) -> pb.GetUpgradeClusterInformationReply:
        name = convert.named("name", request.name)
        cluster, nodes = await self._clusters.get(name), await self._clusters.nodes(name)
        silent = await self._upgrades.silent(asked(request).tenant, name)
        catalogue = self._offer.catalogue
        versions = offered(cluster, nodes.slots, catalogue, silent=silent)
        if not versions:
            explain(context, hindrance(cluster, nodes.slots, catalogue, silent=silent))
        return pb.GetUpgradeClusterInformationReply(ok=bool(versions), versions=versions)

    async def UpgradeCluster(
        self, request: pb.UpgradeClusterMsg, context: Context
    ) -> pb.UpgradeClusterReply:
        name, (catalogue, _, building, _) = convert.named("name", request.name), self._offer
        wanted = name, chosen(name, request.version, catalogue), catalogue
        self._begun(context, await self._upgrades.request(*wanted, building, asked(request)))
        return pb.UpgradeClusterReply(ok=True)
