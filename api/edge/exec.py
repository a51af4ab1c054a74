"""Commands in containers: brought to the resource manager of their cloudlet, at whichever API
process it is connected, and its answer brought back."""

from datetime import timedelta

import grpc
import grpc.aio

from api.asking import Context
from api.edge import fellows, keys
from api.edge.descriptions import Descriptions
from api.edge.relay import Relay
from api.edge.streams import Streams
from api.tls import PLAIN, Peers
from domain.errors import DomainError
from domain.refusal import Refusal, refuse_if
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_ERRORS, CLOUDLET_STATE_READY
from protos.gen.edge.exec_pb2 import ExecRequest
from protos.gen.edge.exec_pb2_grpc import ExecApiServicer, ExecApiStub
from store.appinsts import AppInsts
from store.controllers import Controllers

ABLE = frozenset({CLOUDLET_STATE_READY, CLOUDLET_STATE_ERRORS})

SPARE_SECONDS = 1.0
"""What another process gets beside its own wait."""


class ExecApi(ExecApiServicer):
    def __init__(
        self,
        apps: AppInsts,
        described: Descriptions,
        streams: Streams,
        relay: Relay,
        controllers: Controllers,
        patience: timedelta,
        peers: Peers = PLAIN,
    ) -> None:
        """`patience` is what a resource manager gets to answer."""
        self._apps = apps
        self._described = described
        self._streams = streams
        self._relay = relay
        self._controllers = controllers
        self._peers = peers
        self._seconds = patience.total_seconds()

    async def RunCommand(self, request: ExecRequest, context: Context) -> ExecRequest:
        known = await self._apps.get(keys.written(request.app_inst_key))
        refuse_if(known is None, Refusal.KEY_UNKNOWN)
        cloudlet = _cloudlet(request)
        info = await self._described.get(cloudlet)
        if info is None or info.state not in ABLE:
            raise Refusal.EXEC_NOBODY()
        if await self._described.stream(cloudlet):
            return await self._here(request)
        return await self._elsewhere(request, info.controller.rpartition("@")[2], context)

    async def SendLocalRequest(self, request: ExecRequest, context: Context) -> ExecRequest:
        return await self._here(request)

    async def _here(self, request: ExecRequest) -> ExecRequest:
        stream = self._streams.owner(_cloudlet(request))
        if stream is None:
            raise Refusal.EXEC_NOBODY()
        return await self._relay.ask(stream, request, self._seconds)

    async def _elsewhere(self, request: ExecRequest, address: str, context: Context) -> ExecRequest:
        if address not in await self._controllers.alive():
            raise Refusal.EXEC_NOBODY()  # whoever may inject may write any: it would get the token
        seconds, metadata = self._seconds + SPARE_SECONDS, fellows.on_behalf(context)
        async with fellows.called(address, self._peers) as channel:
            try:
                return await ExecApiStub(channel).SendLocalRequest(
                    request, timeout=seconds, metadata=metadata
                )
            except grpc.aio.AioRpcError as error:
                raise _said(error) from error


def _cloudlet(request: ExecRequest) -> str:
    return keys.written(request.app_inst_key.cluster_inst_key.cloudlet_key)


def _said(error: grpc.aio.AioRpcError) -> DomainError:
    """What another process said, in our words."""
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return Refusal.EXEC_NOBODY()
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return Refusal.EXEC_TIMEOUT()
    return Refusal.EXEC_FAILED(text=error.details() or "the command was not run")
