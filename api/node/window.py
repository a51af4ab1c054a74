"""The window service: nodes tell of their pods."""

from api.asking import Context
from api.belonging import Belonging
from api.node import convert
from protos.gen.agent import node_pb2 as pb
from protos.gen.agent.node_pb2_grpc import WindowServicer
from store.window import FleetWindow


class Window(WindowServicer):
    def __init__(self, window: FleetWindow, belonging: Belonging) -> None:
        self._window, self._belonging = window, belonging

    async def Report(self, request: pb.ReportRequest, context: Context) -> pb.ReportResponse:
        report = convert.report(request)
        await self._belonging.prove(report.node, context)
        return pb.ReportResponse(taken=await self._window.take(report))
