"""What comes in by notify: what resource managers say of their cloudlets, and which programs there
are."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import structlog
from google.protobuf.message import DecodeError, Message

from api.edge import binding, keys, notices
from api.edge.descriptions import Descriptions
from api.edge.metrics import Measured
from api.edge.nodes import Attached
from api.edge.relay import Relay
from api.edge.reports import Reports
from api.edge.streams import Stream, Streams
from api.edge.telling import Telling
from domain.errors import DomainError, Invalid
from domain.operation import OperationId
from domain.record import Noun
from protos.gen.edge.app_inst_pb2 import AppInstInfo, AppInstMetrics
from protos.gen.edge.cloudlet_pb2 import CloudletInfo, CloudletKey, CloudletMetrics
from protos.gen.edge.clusterinst_pb2 import ClusterInstInfo
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.metric_pb2 import Metric
from protos.gen.edge.node_pb2 import Node
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, Notice
from protos.gen.edge.operator_pb2 import OperatorKey

AGAIN_SECONDS = 1.0
PARTING_SECONDS = 10.0
"""How long a process that goes down waits for what its streams leave behind to be written."""

log = structlog.get_logger()

Take = Callable[[Stream, Any, bool], Awaitable[None]]

CLOUDLETS: dict[type[Message], Callable[[Any], CloudletKey]] = {
    CloudletInfo: attrgetter("key"),
    ClusterInstInfo: attrgetter("key.cloudlet_key"),
    AppInstInfo: attrgetter("key.cluster_inst_key.cloudlet_key"),
    Node: attrgetter("key.cloudlet_key"),
    ExecRequest: attrgetter("app_inst_key.cluster_inst_key.cloudlet_key"),
}
"""Which cloudlet something is said of."""


class Keeping(NamedTuple):
    """Where what is said goes."""

    described: Descriptions
    reports: Reports
    attached: Attached
    measured: Measured
    relay: Relay
    nudge: Callable[[OperationId], None]
    """Tells the workflow that waits for what was said."""


class Hearing:
    def __init__(self, streams: Streams, telling: Telling, keeping: Keeping) -> None:
        self._streams = streams
        self._telling = telling
        self._described = keeping.described
        self._reports = keeping.reports
        self._attached = keeping.attached
        self._measured = keeping.measured
        self._relay = keeping.relay
        self._nudge = keeping.nudge
        self._leaving: set[asyncio.Task[None]] = set()
        self._takes: dict[str, tuple[Any, Take]] = {
            notices.name(message): (message, take)
            for message, take in (
                (CloudletInfo, self._cloudlet),
                (ClusterInstInfo, self._clusterinst),
                (AppInstInfo, self._appinst),
                (Node, self._node),
                (Metric, self._metric),
                (ExecRequest, self._answer),
                (AppInstMetrics, self._placeholder),
                (CloudletMetrics, self._placeholder),
            )
        }

    async def take(self, stream: Stream, notice: Notice) -> None:
        """Take in one notice. What is of no kind we know, or wrong in itself, is passed over;
        what cannot be kept at the moment ends the stream, since it would be lost, and so does what
        whoever says it may not say."""
        if notice.action == SENDALL_END and not notices.kind(notice):
            await self._all_said(stream)
            return
        message, take = self._takes.get(notices.kind(notice), (None, None))
        if message is None or take is None:
            return
        try:
            said = message.FromString(notice.any.value)
            if message in CLOUDLETS:
                binding.hold(CLOUDLETS[message](said))
            await take(stream, said, notice.action == DELETE)
        except (DecodeError, Invalid) as error:
            log.warning("notice passed over", kind=notices.kind(notice), error=str(error))

    def over(self, stream: Stream) -> None:
        """A stream has ended: its nodes are gone, its cloudlets offline."""
        self._attached.drop(stream.number)
        self._measured.drop(stream.number)
        self._relay.over(stream)
        for cloudlet in stream.spoken_for:
            task = asyncio.create_task(self._put_offline(stream, cloudlet))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Let what ended streams leave behind be written, if it can be."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=PARTING_SECONDS)
        for task in self._leaving:
            task.cancel()

    async def _all_said(self, stream: Stream) -> None:
        """The first time, what has waited for it is told. Whoever says so for a second time asks to
        be told when everything has been told. That is answered while it is the one who speaks for
        its cloudlets: then nobody else was told of them since it came."""
        asks, stream.has_said_all = stream.has_said_all, True
        if not asks:
            self._telling.resume(stream)
        if not asks or not stream.spoken_for:
            return
        for cloudlet in stream.spoken_for:
            number = await self._described.stream(cloudlet)
            if number != stream.number or self._streams.owner(cloudlet) is not stream:
                log.info("an older stream is not answered", stream=stream.number)
                return
        stream.outbox.conclude()

    async def _node(self, stream: Stream, node: Node, gone: bool) -> None:
        node.notify_id = stream.number
        if gone:
            self._attached.remove(stream.number, node)
        else:
            self._attached.put(stream.number, node)

    async def _metric(self, stream: Stream, metric: Metric, _gone: bool) -> None:
        tags = {tag.name: tag.val for tag in metric.tags}
        if "operator" in tags and "cloudlet" in tags:
            operator = OperatorKey(name=tags["operator"])
            binding.hold(CloudletKey(operator_key=operator, name=tags["cloudlet"]))
        self._measured.put(stream.number, metric)

    async def _answer(self, stream: Stream, reply: ExecRequest, _gone: bool) -> None:
        self._relay.answered(stream, reply)

    async def _placeholder(self, stream: Stream, message: Message, _gone: bool) -> None:
        self._measured.show(stream.number, message)

    async def _cloudlet(self, stream: Stream, info: CloudletInfo, gone: bool) -> None:
        key = keys.of(info)
        if gone:
            await self._described.put_offline(stream.number, key)
            self._streams.forget(stream, key)
            return
        if not self._streams.claim(stream, key):
            log.info("an older stream is not listened to", cloudlet=key, stream=stream.number)
            return
        again = key in stream.spoken_for
        stream.spoken_for.add(key)
        may = partial(self._streams.speaks, stream, key)
        if not await self._described.put(stream.number, info, may, again=again):
            self._streams.resign(stream, key)
        elif self._streams.speaks(stream, key) and self._streams.tell(stream, key):
            await self._telling.introduce(stream, key)

    async def _clusterinst(self, stream: Stream, info: ClusterInstInfo, gone: bool) -> None:
        cloudlet = keys.written(info.key.cloudlet_key)
        await self._instance(stream, info, gone, Noun.CLUSTER_INST, cloudlet)

    async def _appinst(self, stream: Stream, info: AppInstInfo, gone: bool) -> None:
        cloudlet = keys.written(info.key.cluster_inst_key.cloudlet_key)
        await self._instance(stream, info, gone, Noun.APP_INST, cloudlet)

    async def _instance(
        self, stream: Stream, info: Any, gone: bool, noun: Noun, cloudlet: str
    ) -> None:
        """What is said of an instance, unless another stream speaks for its cloudlet."""
        if not self._streams.speaks(stream, cloudlet):
            log.info("an older stream is not listened to", cloudlet=cloudlet, stream=stream.number)
            return
        info.notify_id = stream.number
        speaker = None
        if cloudlet in stream.spoken_for:
            speaker = await self._described.speaker(stream.number, cloudlet)
        operation = await self._reports.take(noun, info, speaker, gone=gone)
        if operation is not None:
            self._nudge(operation)

    async def _put_offline(self, stream: Stream, cloudlet: str) -> None:
        """Try until it is done: nobody else will say so."""
        while True:
            try:
                await self._described.put_offline(stream.number, cloudlet)
            except DomainError as error:
                log.warning("cloudlet not put offline", cloudlet=cloudlet, error=error.message)
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return
