"""What resource managers say of their cloudlets, as it is kept: with the stream it came by, so that
nobody but that stream's end puts the cloudlet offline."""

from collections.abc import Callable
from contextlib import suppress

from api.edge import convert, keys
from api.edge.presence import Presence
from domain.cloudlet_info import Speaker
from domain.errors import NotFound
from domain.operation import Ask
from domain.record import Noun, Record
from protos.gen.edge.cloudlet_pb2 import CLOUDLET_STATE_OFFLINE, CloudletInfo
from store.shelf import Shelf

ASK = Ask(method="edgeproto.NotifyApi/StreamNotice")


class Descriptions:
    def __init__(self, shelf: Shelf, presence: Presence) -> None:
        self._shelf = shelf
        self._presence = presence

    async def get(self, cloudlet: str) -> CloudletInfo | None:
        """What is said of a cloudlet, by its key."""
        value = await self._shelf.get(Noun.CLOUDLET_INFO, cloudlet)
        return None if value is None else CloudletInfo.FromString(value)

    async def stream(self, cloudlet: str) -> int | None:
        """The number of the stream of this process that said it. 0: it came another way. None:
        nothing is said."""
        info = await self.get(cloudlet)
        if info is None:
            return None
        ours = info.controller == await self._presence.stamp()
        return int(info.notify_id) if ours else 0

    async def speaker(self, stream: int, cloudlet: str) -> Speaker:
        """A stream of this process, as who says something of a cloudlet."""
        stamp = await self._presence.stamp()
        return Speaker(cloudlet=cloudlet, stream=stream, controller=stamp)

    async def put(
        self, stream: int, info: CloudletInfo, may: Callable[[], bool], *, again: bool
    ) -> bool:
        """Keep what a stream says, if it still may say so when it is written: if it does so
        `again`, only unless another process has been told since. Whether it is kept."""
        info.notify_id, info.controller = stream, await self._presence.stamp()
        kept = True

        def described(before: bytes | None) -> Record:
            nonlocal kept
            there = None if before is None else CloudletInfo.FromString(before)
            kept = there is None or (may() and not (again and _is_anothers(there, info)))
            return convert.cloudlet_info(info if there is None or kept else there)

        await self._shelf.put(Noun.CLOUDLET_INFO, keys.of(info), described, ASK)
        return kept

    async def put_offline(self, stream: int, cloudlet: str) -> None:
        """A cloudlet is offline, if it is this stream that described it last."""
        stamp = await self._presence.stamp()

        def changed(before: bytes) -> Record:
            info = CloudletInfo.FromString(before)
            if (info.notify_id, info.controller) == (stream, stamp):
                info.state = CLOUDLET_STATE_OFFLINE
            return convert.cloudlet_info(info)

        with suppress(NotFound):  # it was evicted
            await self._shelf.change(Noun.CLOUDLET_INFO, cloudlet, changed, ASK)


def _is_anothers(there: CloudletInfo, info: CloudletInfo) -> bool:
    """Whether a cloudlet is described by a stream of another process, which has not ended. Of two
    streams at one process that knows by itself."""
    elsewhere = there.controller not in {"", info.controller}
    return elsewhere and there.state != CLOUDLET_STATE_OFFLINE
