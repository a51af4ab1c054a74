"""The API processes that are alive."""

from collections.abc import AsyncIterator

from api.asking import Context
from api.edge.matching import matches
from protos.gen.edge.controller_pb2 import Controller, ControllerKey
from protos.gen.edge.controller_pb2_grpc import ControllerApiServicer
from store.controllers import Controllers


class ControllerApi(ControllerApiServicer):
    def __init__(self, controllers: Controllers) -> None:
        self._controllers = controllers

    async def ShowController(
        self, request: Controller, context: Context
    ) -> AsyncIterator[Controller]:
        for address in await self._controllers.alive():
            controller = Controller(key=ControllerKey(addr=address))
            if matches(request, controller):
                yield controller
