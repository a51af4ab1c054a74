"""Apps, as their developers describe them. Instances that run are not touched by a change."""

from collections.abc import AsyncIterator

from api.asking import Context, asked
from api.edge import convert
from api.edge.drafting import Drafting
from api.edge.records import Records
from domain.refusal import Refusal
from protos.gen.edge.app_pb2 import App
from protos.gen.edge.app_pb2_grpc import AppApiServicer
from protos.gen.edge.result_pb2 import Result
from store.apps import Apps

TRIES = 20
"""How often a change is worked out anew because somebody else changed the app meanwhile."""


class AppApi(AppApiServicer):
    def __init__(self, records: Records[App], apps: Apps, drafting: Drafting) -> None:
        self._records = records
        self._apps = apps
        self._drafting = drafting

    async def CreateApp(self, request: App, context: Context) -> Result:
        ask, needs = asked(request), convert.app_needs(request)
        services = await self._drafting.complete(request)
        record, claim = convert.kept_app(request, services), convert.claim(request)
        await self._apps.create(record, claim, needs, ask)
        return Result()

    async def UpdateApp(self, request: App, context: Context) -> Result:
        for _ in range(TRIES):
            if await self._updated(request):
                return Result()
        raise Refusal.APP_CHANGING()

    async def DeleteApp(self, request: App, context: Context) -> Result:
        await self._records.delete(request)
        return Result()

    def ShowApp(self, request: App, context: Context) -> AsyncIterator[App]:
        return self._records.show(request)

    async def _updated(self, request: App) -> bool:
        """Work a change out and write it, if the app is still what it was at the beginning."""
        named = self._records.mask(request)
        await self._apps.refuse_conflict(convert.claim(request))
        merged = await self._records.get(request)
        if merged is None:
            raise Refusal.KEY_UNKNOWN()
        before, kept = convert.app(merged), convert.kept_app(merged)
        named.merge(merged, request)
        services = await self._drafting.complete(merged, before)
        record, claim = convert.kept_app(merged, services), convert.claim(merged)
        needs = [convert.app_flavor_need(merged)] if named.names("9") else []
        return await self._apps.replace(kept, record, claim, needs, asked(request))
