"""The storage service: Ceph, looked after."""

from collections.abc import Sequence

from api.asking import Context, asked, refer
from api.errors import wrong
from api.launch import Launch
from api.ops.convert import PREFIX
from domain.errors import Conflict
from domain.operation import Operation
from domain.share import PoolTerms, Share
from domain.storage_plan import MOST_GROUPS
from protos.gen.ops import storage_pb2 as pb
from protos.gen.ops.storage_pb2_grpc import StorageServicer
from store.observations import Observations
from store.storages import Owned, Storages

MOST_BYTES = 2**60
FEWEST_COPIES, MOST_COPIES = 2, 10


class Storage(StorageServicer):
    def __init__(
        self,
        storages: Storages,
        observations: Observations,
        launch: Launch,
        cluster: str,
        terms: PoolTerms | None,
        releases: Sequence[str],
    ) -> None:
        """`terms`: what pools are made with. None: there is no Ceph cluster here."""
        self._storages = storages
        self._observations = observations
        self._launch = launch
        self._cluster = cluster
        self._terms = terms
        self._releases = releases

    async def ListOsds(self, request: pb.ListOsdsRequest, context: Context) -> pb.ListOsdsResponse:
        self._there()
        seen = (await self._observations.newest(self._cluster)).look.observation
        return pb.ListOsdsResponse(
            osds=[
                pb.Osd(id=osd.id, host=osd.host, up=osd.up, inside=osd.inside, weight=osd.weight)
                for osd in sorted(seen.osds.all, key=lambda it: it.id)
            ]
        )

    async def TakeOsdsOut(self, request: pb.TakeOsdsRequest, context: Context) -> pb.StorageChange:
        return await self._marked(request, context, inside=False)

    async def TakeOsdsIn(self, request: pb.TakeOsdsRequest, context: Context) -> pb.StorageChange:
        return await self._marked(request, context, inside=True)

    async def _marked(
        self, request: pb.TakeOsdsRequest, context: Context, *, inside: bool
    ) -> pb.StorageChange:
        self._there()
        osds = tuple(request.osds)
        operation = await self._storages.request_marks(
            self._cluster, osds, asked(request), inside=inside
        )
        return self._begun(operation, context)

    async def ListPools(
        self, request: pb.ListPoolsRequest, context: Context
    ) -> pb.ListPoolsResponse:
        self._there()
        return pb.ListPoolsResponse(pools=map(_pool, await self._storages.pools(self._cluster)))

    async def CreatePool(self, request: pb.CreatePoolRequest, context: Context) -> pb.StorageChange:
        terms = _terms(request, self._there())
        operation = await self._storages.request_pool(
            self._cluster, request.name, terms, asked(request)
        )
        return self._begun(operation, context)

    async def DeletePool(self, request: pb.DeletePoolRequest, context: Context) -> pb.StorageChange:
        self._there()
        operation = await self._storages.request_drop(
            self._cluster, request.name, request.confirmed, asked(request)
        )
        return self._begun(operation, context)

    async def Upgrade(
        self, request: pb.UpgradeStorageRequest, context: Context
    ) -> pb.StorageChange:
        self._there()
        operation = await self._storages.request_upgrade(
            self._cluster, request.version, self._releases, asked(request)
        )
        return self._begun(operation, context)

    def _there(self) -> PoolTerms:
        if self._terms is None:
            raise Conflict(
                "there is no Ceph cluster here",
                reason="STORAGE_NOT_CONFIGURED",
                do="set WINDLASS_CEPH__URLS to where its dashboards are",
            )
        return self._terms

    def _begun(self, operation: Operation | None, context: Context) -> pb.StorageChange:
        if operation is None:
            return pb.StorageChange()
        refer(context, operation.id)
        self._launch.soon(operation)
        return pb.StorageChange(operation=PREFIX + operation.id)


def _terms(request: pb.CreatePoolRequest, usual: PoolTerms) -> PoolTerms:
    """What is asked for, and where nothing is, what is usual."""
    bounds = {
        "copies": (FEWEST_COPIES, MOST_COPIES),
        "groups": (1, MOST_GROUPS),
        "most_bytes": (1, MOST_BYTES),
    }
    said = {name: value for name in bounds if (value := getattr(request, name))}
    for name, value in said.items():
        least, most = bounds[name]
        if not least <= value <= most:
            raise wrong(name, f"has to be between {least} and {most}, or 0")
    return usual.model_copy(update=said)


def _pool(pool: Owned) -> pb.StoragePool:
    return pb.StoragePool(
        id=pool.id,
        name=pool.name,
        copies=pool.size,
        stored_bytes=pool.stored,
        objects=pool.objects,
        most_bytes=pool.most_bytes,
        owner=pool.owner,
        cluster=pool.owned_by,
        identity=Share.of(pool.owner, PoolTerms()).identity.entity if pool.owner else "",
    )
