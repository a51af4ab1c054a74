"""What an upgrade costs by the node: a cluster of thirty workers brought from patch to patch,
beside the bare workflow that does the same with the same hands.

A cluster never goes back, so each upgrade is to a version of its own."""

from typing import Any

import grpc.aio

from domain.operation import Ask, Operation
from domain.releases import Catalogue, Release
from protos.gen.kaas import api_pb2 as pb
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from store.clusters import Building
from store.engine import Database
from store.upgrades import Upgrades
from tests.bench.bare import BareUpgradeCluster
from tests.bench.creation import EAGER
from tests.bench.figures import Figure
from tests.bench.place import PYTHON, place
from tests.bench.pools import CLUSTER, WARMING, WORKERS, Bare, Change, Ours, compared, scaled

NAME = f"upgrade of {WORKERS} workers"
BUILDING = Building(domain="windlass.test")


def offered(releases: int) -> Catalogue:
    """So many patches of one minor version."""
    versions = [f"1.32.{patch}" for patch in range(releases)]
    made = tuple(Release(version=version, series="jammy") for version in versions)
    return Catalogue(releases=made, default=versions[0])


def to(version: str, catalogue: Catalogue) -> Change:
    def ask(stub: ClusterStub) -> Any:
        return stub.UpgradeCluster(pb.UpgradeClusterMsg(name=CLUSTER, version=version))

    async def accept(database: Database) -> Operation | None:
        asked = Ask(method="bare")
        return await Upgrades(database).request(CLUSTER, version, catalogue, BUILDING, asked)

    return Change(NAME, ask, accept, BareUpgradeCluster.run)


async def measure(repeats: int) -> list[Figure]:
    """Ours and the bare one by turns, on one cluster."""
    catalogue = offered(2 * (repeats + WARMING) + 1)
    changes = (to(release.version, catalogue) for release in catalogue.releases[1:])
    async with place(machines=1 + WORKERS, catalogue=catalogue) as site:
        worker = await site.start(EAGER, PYTHON, "-m", "tests.bench.bare_worker", EAGER)
        await worker.told("bare worker ready")
        client = await site.client()
        async with grpc.aio.insecure_channel(site.grpc) as channel:
            ours, bare = Ours(site, client, ClusterStub(channel)), Bare(site, client)
            await ours.create()
            await ours.change(scaled(f"0 to {WORKERS} workers", WORKERS))
            rounds = [
                [await who.change(next(changes)) for who in (ours, bare)]
                for _ in range(repeats + WARMING)
            ]
    mine, theirs = zip(*rounds[WARMING:], strict=True)
    return compared(NAME, mine, theirs)
