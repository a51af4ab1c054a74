"""The services of the edge contract, put together."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from api.door import Admit, Door, Service
from api.edge import convert
from api.edge.appinsts import AppInstApi, AppInstInfoApi
from api.edge.apps import AppApi
from api.edge.cloudlet_infos import CloudletInfoApi
from api.edge.cloudlets import CloudletApi
from api.edge.clusterinsts import ClusterInstApi, ClusterInstInfoApi
from api.edge.controllers import ControllerApi
from api.edge.descriptions import Descriptions
from api.edge.developers import DeveloperApi
from api.edge.drafting import Drafting
from api.edge.exec import ExecApi
from api.edge.flavors import FlavorApi
from api.edge.hearing import Hearing, Keeping
from api.edge.metrics import AppInstMetricsApi, CloudletMetricsApi, Measured
from api.edge.nodes import Attached, NodeApi
from api.edge.notify import OPTIONS, NotifyApi
from api.edge.operators import OperatorApi
from api.edge.presence import Presence
from api.edge.present import Present
from api.edge.progress import Progress
from api.edge.records import Records
from api.edge.refs import CloudletRefsApi, ClusterRefsApi
from api.edge.relay import Relay
from api.edge.remembered import Remembered
from api.edge.reports import Reports
from api.edge.streams import Streams
from api.edge.telling import Telling
from api.edge.templates import ClusterApi
from api.edge.text_reader import TextReader
from api.front import Front
from api.meters import Meters
from api.server import Server
from api.tls import PLAIN, Certificates, Peers
from domain.operation import OperationId
from domain.patience import Patience
from domain.ports import Documents
from domain.record import Noun
from domain.refusal import Refusal
from protos.gen.edge import (
    app_inst_pb2,
    app_pb2,
    cloudlet_pb2,
    cluster_pb2,
    clusterinst_pb2,
    controller_pb2,
    developer_pb2,
    exec_pb2,
    flavor_pb2,
    node_pb2,
    notice_pb2,
    operator_pb2,
    refs_pb2,
)
from store.appinsts import AppInsts
from store.apps import Apps
from store.cloudlet_refs import CloudletRefs, ClusterRefs
from store.cloudlets import Cloudlets
from store.clusterinsts import ClusterInsts
from store.controllers import Controllers
from store.engine import Database
from store.lookout import Lookout
from store.quotas import UNLIMITED, Quota
from store.shelf import Shelf
from store.tracked import Terms as Instances


class Terms(NamedTuple):
    """What an operator decides about this contract."""

    image_host: str
    strict_references: bool = False
    lax_masks: bool = False
    legacy_codes: bool = False
    allow_app_change_in_use: bool = False
    enforce_resources: bool = False
    patience: Patience = Patience()
    node_patience: timedelta = timedelta(seconds=3)
    peers: Peers = PLAIN
    """How we speak to other API processes."""
    exec_patience: timedelta = timedelta(seconds=6)
    quota: Quota = UNLIMITED
    """What one developer may keep."""


def leaving_unknown(legacy_codes: bool) -> frozenset[str]:
    """The reasons that leave without a code of their own: all of the contract, or none."""
    return frozenset(Refusal.__members__) if legacy_codes else frozenset()


class Notifying:
    """What resource managers are connected to."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        nudge: Callable[[OperationId], None],
        legacy_codes: bool,
    ) -> None:
        """`nudge` tells the workflow that waits for what a resource manager said."""
        self._unknown = leaving_unknown(legacy_codes)
        shelf, self.attached, self.measured = Shelf(database), Attached(), Measured()
        clusters, apps = ClusterInsts(database, Instances()), AppInsts(database, Instances())
        self.described, self.relay = Descriptions(shelf, presence), Relay()
        self.streams = Streams(Lookout(database), self.described.stream)
        self.remembered, self.reader = Remembered(), TextReader()
        telling = Telling(Present(shelf, clusters, apps, self.remembered))
        reports = Reports(clusters, apps)
        keeping = Keeping(self.described, reports, self.attached, self.measured, self.relay, nudge)
        self._hearing = Hearing(self.streams, telling, keeping)
        self._api = NotifyApi(self.streams, telling, self._hearing, presence)
        self._presence = presence

    def here(self) -> str:
        """The address by which the others know this process, once it has one."""
        return self._presence.address

    @property
    def service(self) -> Service:
        described = notice_pb2.DESCRIPTOR.services_by_name["NotifyApi"]
        return Service(described, self._api, unknown=self._unknown)

    def server(
        self,
        meters: Meters,
        door: Door,
        admit: Admit,
        describes: bool,
        certificates: Certificates | None = None,
        front: Front | None = None,
    ) -> Server:
        """One for notify alone, that holds streams for as long as both ends live. `describes`:
        whether it describes itself."""
        return Server(
            [self.service],
            meters,
            describes_itself=describes,
            door=door,
            admit=admit,
            options=OPTIONS,
            setting="WINDLASS_EDGE__NOTIFY_ADDRESS",
            certificates=certificates,
            front=front,
        )

    async def close(self) -> None:
        """Let what ended streams leave behind be written, and read no text any more. No new ones
        come by now."""
        await self.reader.close()
        await self._hearing.close()


def services(
    database: Database,
    documents: Documents,
    terms: Terms,
    notifying: Notifying,
    progress: Progress,
) -> list[Service]:
    """All that is served of `edgeproto`, but for notify."""
    shelf = Shelf(database, strict=terms.strict_references)
    apps = Apps(
        database,
        strict=terms.strict_references,
        changes_in_use=terms.allow_app_change_in_use,
        quota=terms.quota,
    )
    lax = terms.lax_masks
    developers = Records(shelf, Noun.DEVELOPER, developer_pb2.Developer, convert.developer, lax=lax)
    operators = Records(shelf, Noun.OPERATOR, operator_pb2.Operator, convert.operator, lax=lax)
    flavors = Records(shelf, Noun.FLAVOR, flavor_pb2.Flavor, convert.flavor_record)
    templates = Records(shelf, Noun.CLUSTER, cluster_pb2.Cluster, convert.template)
    described = Records(shelf, Noun.APP, app_pb2.App, convert.kept_app, lax=lax)
    places = Records(shelf, Noun.CLOUDLET, cloudlet_pb2.Cloudlet, convert.cloudlet_record, lax=lax)
    infos = Records(
        shelf, Noun.CLOUDLET_INFO, cloudlet_pb2.CloudletInfo, convert.cloudlet_info, lax=lax
    )
    of_clusters = Records(
        shelf, Noun.CLUSTER_INST_INFO, clusterinst_pb2.ClusterInstInfo, convert.clusterinst_info
    )
    of_apps = Records(shelf, Noun.APP_INST_INFO, app_inst_pb2.AppInstInfo, convert.appinst_info)
    placed = Instances(
        patience=terms.patience,
        strict=terms.strict_references,
        enforces=terms.enforce_resources,
        quota=terms.quota,
    )
    clusters, running = ClusterInsts(database, placed), AppInsts(database, placed)
    controllers = Controllers(database)
    parts = (notifying.described, notifying.streams, notifying.relay)
    nodes = NodeApi(
        notifying.attached, controllers, terms.node_patience, notifying.here, terms.peers
    )
    served = (
        (developer_pb2, DeveloperApi(developers)),
        (operator_pb2, OperatorApi(operators)),
        (flavor_pb2, FlavorApi(flavors)),
        (cluster_pb2, ClusterApi(templates)),
        (app_pb2, AppApi(described, apps, Drafting(documents, notifying.reader, terms.image_host))),
        (cloudlet_pb2, CloudletApi(places, Cloudlets(database), progress)),
        (cloudlet_pb2, CloudletInfoApi(infos)),
        (clusterinst_pb2, ClusterInstApi(clusters, progress, lax=lax)),
        (clusterinst_pb2, ClusterInstInfoApi(of_clusters)),
        (app_inst_pb2, AppInstApi(running, progress, notifying.remembered, lax=lax)),
        (app_inst_pb2, AppInstInfoApi(of_apps)),
        (refs_pb2, CloudletRefsApi(CloudletRefs(database))),
        (refs_pb2, ClusterRefsApi(ClusterRefs(database))),
        (controller_pb2, ControllerApi(controllers)),
        (exec_pb2, ExecApi(running, *parts, controllers, terms.exec_patience, terms.peers)),
        (app_inst_pb2, AppInstMetricsApi(notifying.measured)),
        (cloudlet_pb2, CloudletMetricsApi(notifying.measured)),
        (node_pb2, nodes),
    )
    unknown = leaving_unknown(terms.legacy_codes)
    return [
        Service(
            file.DESCRIPTOR.services_by_name[type(servicer).__name__], servicer, unknown=unknown
        )
        for file, servicer in served
    ]
