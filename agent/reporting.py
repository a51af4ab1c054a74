"""Telling the control plane of pods, images, events and logs: in order, until it has taken them."""

import asyncio
import json
from contextlib import suppress

import grpc
import grpc.aio
import structlog

from agent.archive import Archive
from agent.bell import Bell
from agent.ledger import Ledger, Letter
from domain.agents import SECRET
from protos.gen.agent import node_pb2 as pb
from protos.gen.agent.node_pb2_grpc import WindowStub

AT_ONCE = 200
REPORT_BYTES = 2**20
"""A report is full with so much. A control plane takes four times that, and what it refuses for its
size it would refuse for ever."""

LOOK_SECONDS = 1.0
CALL_SECONDS = 20.0
MOST_PAUSE_SECONDS = 15.0

said = structlog.get_logger()


class Reporting:
    def __init__(
        self,
        node: str,
        ledger: Ledger,
        archive: Archive,
        bell: Bell,
        channel: grpc.aio.Channel,
        secret: str,
    ) -> None:
        """`secret` proves that it is the node itself that tells."""
        self._proof = ((SECRET, secret),) if secret else ()
        self._node, self._ledger, self._archive, self._bell = node, ledger, archive, bell
        self._window = WindowStub(channel)

    async def run(self) -> None:
        """Tell what is new, for as long as this runs."""
        pause = LOOK_SECONDS
        with self._bell.watching() as news:
            while True:
                news.clear()
                try:
                    told = await self.tell()
                    pause = LOOK_SECONDS
                except grpc.aio.AioRpcError as error:
                    said.warning("not told", why=error.details(), code=error.code().name)
                    told = 0
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, MOST_PAUSE_SECONDS)
                if not told:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), timeout=LOOK_SECONDS)

    async def tell(self) -> int:
        """Tell what is to be told, so much as goes at once, and say how much that was."""
        items = self._next()
        if not items:
            return 0
        report = pb.ReportRequest(node=self._node, epoch=self._ledger.epoch, items=items)
        answer = await self._window.Report(report, metadata=self._proof, timeout=CALL_SECONDS)
        self._ledger.taken(answer.taken)
        return len(items)

    def _next(self) -> list[pb.Item]:
        """What fits into one report, and one item however large it is."""
        items: list[pb.Item] = []
        size = 0
        for letter in self._ledger.letters(AT_ONCE):
            item = self._item(letter)
            size += item.ByteSize()
            if items and size > REPORT_BYTES:
                break
            items.append(item)
        return items

    def _item(self, letter: Letter) -> pb.Item:
        if letter.kind == "log":
            log = json.loads(letter.document)
            lines = self._archive.piece(log["pod"], log["app"], log["offset"], log["length"])
            chunk = pb.LogChunk(pod=log["pod"], app=log["app"], offset=log["offset"], lines=lines)
            return pb.Item(number=letter.number, log=chunk)
        told = {letter.kind: letter.document}
        return pb.Item(number=letter.number, **told)  # type: ignore[arg-type]
