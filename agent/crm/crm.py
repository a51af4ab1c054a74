"""A resource manager, put together: one cloudlet, one platform, one stream at a time."""

import asyncio
from collections.abc import Sequence
from socket import gethostname
from typing import Any

import structlog
from google.protobuf.message import DecodeError

from agent.crm.care import Care, Mishaps, NoMishaps, apps, clusters
from agent.crm.commands import Commands
from agent.crm.names import Instance
from agent.crm.platform import Platform
from agent.crm.platform_watch import PlatformWatch
from agent.crm.replica import NAMES, Replica, kind
from agent.crm.reports import Reports
from agent.crm.strays import Strays
from agent.crm.stream import Stream
from domain.errors import DomainError, Invalid
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo
from protos.gen.edge.cloudlet_pb2 import (
    CLOUDLET_STATE_ERRORS,
    CLOUDLET_STATE_READY,
    CloudletInfo,
    CloudletKey,
)
from protos.gen.edge.clusterinst_pb2 import ClusterInst, ClusterInstInfo
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.metric_pb2 import Metric
from protos.gen.edge.node_pb2 import NODE_CRM, Node, NodeKey
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, Notice
from protos.gen.edge.operator_pb2 import OperatorKey

AGAIN_SECONDS = 30.0
"""Between two tries to find out what there is on the platform."""

MEASURE_SECONDS = 15.0
"""Between two times that it is said how much runs; the first is so long after a connection has
begun."""

log = structlog.get_logger()


class Crm:
    def __init__(
        self,
        cloudlet: CloudletKey,
        platform: Platform,
        controllers: Sequence[str],
        mishaps: Mishaps | None = None,
    ) -> None:
        self._key = cloudlet
        self.platform = platform
        self.replica, self.reports = Replica(), Reports()
        mishaps = mishaps or NoMishaps()
        self.strays = Strays(platform, self.reports, self._known, self.replica.instances)
        kinds = {ClusterInst: clusters(platform), AppInst: apps(platform, self.replica)}
        self._cares = {
            message: Care(kind, self.reports, mishaps, self.strays.free)
            for message, kind in kinds.items()
        }
        self._commands = Commands(platform, self.replica, self.reports, self.strays.adopted)
        says = (self._is_busy, self._say_faults, self.strays.adopted)
        self._watch = PlatformWatch(platform, self.replica, self.reports, *says)
        self._info: CloudletInfo | None = None
        self._beside: list[asyncio.Task[None]] = []
        self.stream = Stream(controllers, self.reports, self._begin, self._hear)

    async def run(self) -> None:
        """Manage until cancelled. What has been begun on the platform is left to the next start."""
        node = NodeKey(name=gethostname(), node_type=NODE_CRM, cloudlet_key=self._key)
        self.reports.put(Node(key=node))
        describing = asyncio.create_task(self._describe())
        try:
            await self.stream.run()
        finally:
            describing.cancel()
            await asyncio.wait([describing])
            await self._leave_off()
            await self.platform.close()

    async def restart(self) -> None:
        """Be as one who has just been started: what was said and begun is forgotten."""
        await self._leave_off()
        for kind_ in (AppInstInfo, ClusterInstInfo):
            self.reports.clear(kind_)
        self.stream.lose()

    async def _leave_off(self) -> None:
        for care in self._cares.values():
            await care.close()
        await self._commands.close()
        await self.strays.close()
        beside, self._beside = self._beside, []
        for task in beside:
            task.cancel()
        if beside:
            await asyncio.wait(beside)

    def _begin(self) -> None:
        self.replica.begin()
        self.strays.begin()
        if not self._beside:
            works = (self._measure(), self._watch.run())
            self._beside = [asyncio.create_task(work) for work in works]

    def _is_busy(self, instance: Instance) -> bool:
        return self._cares[type(instance)].is_busy(instance)

    def _say_faults(self, faults: Sequence[str], answers: bool) -> None:
        """Say of the cloudlet what is wrong with what is on it. It takes work all the same."""
        if self._info is None:
            return
        info = CloudletInfo()
        info.CopyFrom(self._info)
        info.state = CLOUDLET_STATE_READY if answers else CLOUDLET_STATE_ERRORS
        info.ClearField("errors")
        info.errors.extend(faults)
        if info != self.reports.get(CloudletInfo, self._key):
            self._say(info)

    def _known(self) -> list[Any]:
        """All that the controller knows of or that is being worked on, once all has been told."""
        for message, care in self._cares.items():
            care.keep_only(self.replica.keys(message))
        working = [each for care in self._cares.values() for each in care.busy_with]
        return [*self.replica.instances(), *working]

    async def _describe(self) -> None:
        """Say what there is, as soon as that is known, and until then why it is not."""
        while True:
            info = CloudletInfo(key=self._key)
            try:
                found = await self.platform.resources()
            except DomainError as error:
                info.state = CLOUDLET_STATE_ERRORS
                info.errors.append(error.message)
                self._say(info)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            info.state = CLOUDLET_STATE_READY
            info.os_max_ram, info.os_max_vcores = found.ram_mb, found.vcores
            info.os_max_vol_gb = found.volume_gb
            info.flavors.extend(found.flavors)
            self._info = info
            self._say(info)
            return

    def _say(self, info: CloudletInfo) -> None:
        """From now on the controller knows for whom to tell what there is."""
        self.reports.put(info)
        self.strays.may_ask.set()

    async def _measure(self) -> None:
        """Say again and again how much runs, as the platform tells it. What is not known is not
        said."""
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            if self._watch.counts is None:
                continue
            metric = Metric(name="cloudlet")
            metric.timestamp.GetCurrentTime()
            metric.tags.add(name="operator", val=self._key.operator_key.name)
            metric.tags.add(name="cloudlet", val=self._key.name)
            for name, count in self._watch.counts._asdict().items():
                metric.vals.add(name=name, ival=count)
            self.reports.post(metric)

    def _hear(self, notice: Notice) -> None:
        try:
            self._take(notice)
        except DecodeError as error:
            log.warning("notice passed over", kind=kind(notice.any), error=str(error))

    def _take(self, notice: Notice) -> None:
        name = kind(notice.any)
        if name == ExecRequest.DESCRIPTOR.full_name:
            self._commands.take(ExecRequest.FromString(notice.any.value))
        elif not name and notice.action == SENDALL_END:
            self.replica.prune()
            self.strays.all_told()
        elif name not in NAMES:
            return
        elif notice.action == DELETE:
            gone = self.replica.drop(notice.any)
            if gone is not None and type(gone) in self._cares:
                self._cares[type(gone)].gone(gone)
        else:
            self._told(self.replica.put(notice.any))

    def _told(self, message: Any) -> None:
        if type(message) in self._cares:
            self._cares[type(message)].told(message)


def cloudlet_key(text: str) -> CloudletKey:
    """A cloudlet as people name it. Invalid if that is not OPERATOR/NAME."""
    operator, slash, name = text.partition("/")
    if not (operator and slash and name):
        raise Invalid(f"{text!r} is no cloudlet", do="write OPERATOR/NAME")
    return CloudletKey(operator_key=OperatorKey(name=operator), name=name)
