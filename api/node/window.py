"""The window service: nodes tell of their pods."""

from api.asking import Context
from api.node import convert
from protos.gen.agent import node_pb2 as pb
from protos.gen.agent.node_pb2_grpc import WindowServicer
from store.window import FleetWindow


class Window(WindowServicer):
    def __init__(self, window: FleetWindow) -> None:
        self._window = window

    async def Report(self, request: pb.ReportRequest, context: Context) -> pb.ReportResponse:
        return pb.ReportResponse(taken=await self._window.take(convert.report(request)))
