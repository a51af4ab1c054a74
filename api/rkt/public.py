"""The PublicAPI: what can be seen of pods. It changes nothing, and waits for no node."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from pydantic import AfterValidator

from api.asking import Context
from api.build import UNKNOWN, Build
from api.rkt import convert
from api.rkt.listening import listen
from api.rkt.reading import read
from api.rkt.shown import Shown
from domain.frozen import Frozen
from domain.pod import image_of, images_match, pod_of, pods_match
from domain.window import Window
from protos.gen.rkt import api_pb2 as pb
from protos.gen.rkt.api_pb2_grpc import PublicAPIServicer

API_VERSION, APPC_VERSION = "1.0.0-alpha", "0.8.11"

NODE, TENANT = "x-windlass-node", "x-windlass-tenant"
"""Metadata that narrows what is listed to a node, or to a tenant."""


RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)(.*)")


def semantic(version: str) -> str:
    """A version as SemVer has it: without `v`, and with what is beside the three numbers set off.
    rkt's clients refuse any other."""
    found = RELEASE.fullmatch(version.strip())
    if found is None:
        return "0.0.0"
    release, rest = found.groups()
    before, plus, build = rest.partition("+")
    before = "-".join(filter(None, re.split(r"[^0-9A-Za-z]+", before)))
    build = ".".join(filter(None, re.split(r"[^0-9A-Za-z-]+", build)))
    return release + (f"-{before}" if before else "") + (f"{plus}{build}" if build else "")


class About(Frozen):
    """What a server says of itself."""

    version: Annotated[str, AfterValidator(semantic)]
    directory: Annotated[str, AfterValidator(os.path.abspath)]
    system_config: str = "/usr/lib/windlass"
    local_config: str = "/etc/windlass"
    user_config: str = ""


def versioned(built: Build) -> str:
    """The version with the commit that it was built from."""
    known = built.commit != UNKNOWN
    return f"{built.version}+git.{built.commit[:7]}" if known else built.version


class PublicAPI(PublicAPIServicer):
    def __init__(self, window: Window, about: About) -> None:
        self._window, self._about = window, about
        self._shown = Shown()

    async def GetInfo(self, request: pb.GetInfoRequest, context: Context) -> pb.GetInfoResponse:
        flags = pb.GlobalFlags(
            dir=self._about.directory,
            system_config_dir=self._about.system_config,
            local_config_dir=self._about.local_config,
            user_config_dir=self._about.user_config,
            insecure_flags="none",
        )
        info = pb.Info(
            rkt_version=self._about.version,
            appc_version=APPC_VERSION,
            api_version=API_VERSION,
            global_flags=flags,
        )
        return pb.GetInfoResponse(info=info)

    async def ListPods(self, request: pb.ListPodsRequest, context: Context) -> pb.ListPodsResponse:
        filters, scope = convert.pod_filters(request.filters), _scope(context)
        found = await self._window.pods(node=scope.get(NODE, ""), tenant=scope.get(TENANT, ""))
        pods = (pod for pod in found if pods_match(pod, filters))
        return self._shown.pods(pods, detail=request.detail)

    async def InspectPod(
        self, request: pb.InspectPodRequest, context: Context
    ) -> pb.InspectPodResponse:
        pod = pod_of(await self._window.pods(prefix=request.id.lower()), request.id)
        return pb.InspectPodResponse(pod=convert.pod(pod.shown(detail=True)))

    async def ListImages(
        self, request: pb.ListImagesRequest, context: Context
    ) -> pb.ListImagesResponse:
        filters = convert.image_filters(request.filters)
        found = await self._window.images(node=_scope(context).get(NODE, ""))
        shown = (one.shown(detail=request.detail) for one in found if images_match(one, filters))
        return pb.ListImagesResponse(images=map(convert.image, shown))

    async def InspectImage(
        self, request: pb.InspectImageRequest, context: Context
    ) -> pb.InspectImageResponse:
        image = image_of(await self._window.images(), request.id)
        return pb.InspectImageResponse(image=convert.image(image))

    async def ListenEvents(
        self, request: pb.ListenEventsRequest, context: Context
    ) -> AsyncIterator[pb.ListenEventsResponse]:
        interest = convert.interest(request.filter)
        async with aclosing(listen(self._window, interest, context.send_initial_metadata)) as told:
            async for batch in told:
                yield pb.ListenEventsResponse(events=map(convert.event, batch))

    async def GetLogs(
        self, request: pb.GetLogsRequest, context: Context
    ) -> AsyncIterator[pb.GetLogsResponse]:
        wanted = convert.wanted(request)
        async with aclosing(read(self._window, request.pod_id, wanted)) as told:
            async for lines in told:
                yield pb.GetLogsResponse(lines=lines)


def _scope(context: Context) -> dict[str, str]:
    metadata = context.invocation_metadata() or ()
    return {name: str(value) for name, value in metadata if name in {NODE, TENANT}}
