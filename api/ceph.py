"""What is served of Ceph: what is known of it, and what is changed in it."""

from typing import NamedTuple

from api.door import Service
from api.koor.newest import Newest
from api.koor.stats import StatsService
from api.launch import Launch
from api.ops.storage import Storage
from domain.koor_cluster import Care
from domain.share import PoolTerms
from protos.gen.koor.api.services.stats import stats_pb2
from protos.gen.ops import storage_pb2
from store.engine import Database
from store.observations import Observations
from store.storages import Storages


class Ceph(NamedTuple):
    known: Service
    changed: Service


def services(
    database: Database,
    launch: Launch,
    cluster: str,
    terms: PoolTerms | None,
    care: Care,
) -> Ceph:
    """`terms`: what pools are made with. None: there is no Ceph cluster here."""
    observations = Observations(database)
    stats = StatsService(Newest(observations, cluster) if terms else None, care)
    storage = Storage(Storages(database), observations, launch, cluster, terms, care.releases)
    return Ceph(
        Service(stats_pb2.DESCRIPTOR.services_by_name["StatsService"], stats),
        Service(storage_pb2.DESCRIPTOR.services_by_name["Storage"], storage),
    )
