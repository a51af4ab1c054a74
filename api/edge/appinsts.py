"""Apps on cloudlets. What is told of them comes from the journal of their operations."""

from collections.abc import AsyncIterator
from typing import Any

from api.asking import Context, asked
from api.edge import instances
from api.edge.masks import mask
from api.edge.progress import Progress
from api.edge.records import Records
from api.edge.remembered import Remembered
from api.edge.showing import Showing
from domain.appinst import check_whole_key
from domain.refusal import Refusal, refuse_if
from protos.gen.edge.app_inst_pb2 import AppInst, AppInstInfo
from protos.gen.edge.app_inst_pb2_grpc import AppInstApiServicer, AppInstInfoApiServicer
from protos.gen.edge.result_pb2 import Result
from store.appinsts import AppInsts, Noted

LOCATION = "3"
"""The field that says where an instance's cloudlet is."""


class AppInstApi(AppInstApiServicer):
    def __init__(
        self, apps: AppInsts, progress: Progress, remembered: Remembered, *, lax: bool = False
    ) -> None:
        self._apps = apps
        self._progress = progress
        self._lax = lax
        self._showing = Showing[Noted, AppInst](apps, remembered.written)

    def CreateAppInst(self, request: AppInst, context: Context) -> AsyncIterator[Result]:
        asking = self._apps.request_create(
            instances.appinst(request),
            instances.override(request.crm_override),
            asked(request),
        )
        return self._progress.of(asking, context)

    def UpdateAppInst(self, request: AppInst, context: Context) -> AsyncIterator[Result]:
        check_whole_key(instances.appinst_key(request.key))
        named = mask(request, lax=self._lax)
        refuse_if(named.names(LOCATION), Refusal.APPINST_LOCATION)
        raise Refusal.APPINST_UPDATE()

    def DeleteAppInst(self, request: AppInst, context: Context) -> AsyncIterator[Result]:
        key = instances.appinst_key(request.key)
        check_whole_key(key)
        asking = self._apps.request_delete(
            key,
            instances.override(request.crm_override),
            asked(request),
        )
        return self._progress.of(asking, context)

    def ShowAppInst(self, request: AppInst, context: Context) -> AsyncIterator[Any]:
        return self._showing.show(request)


class AppInstInfoApi(AppInstInfoApiServicer):
    """What resource managers said last of apps' instances."""

    def __init__(self, infos: Records[AppInstInfo]) -> None:
        self._infos = infos

    def ShowAppInstInfo(self, request: AppInstInfo, context: Context) -> AsyncIterator[AppInstInfo]:
        return self._infos.show(request)
