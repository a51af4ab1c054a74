"""What a resource manager says: reports, of each the present one, and messages that are said once.

A report that changes before it has been said is said once, as it is then. With every connection all
of them are said again."""

import asyncio
from collections import deque
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message

from agent.crm.replica import ident
from protos.gen.edge.app_inst_pb2 import AppInstInfo
from protos.gen.edge.cloudlet_pb2 import CloudletInfo
from protos.gen.edge.clusterinst_pb2 import ClusterInstInfo
from protos.gen.edge.node_pb2 import Node
from protos.gen.edge.notice_pb2 import DELETE, SENDALL_END, UPDATE, Notice

KINDS: tuple[Any, ...] = (CloudletInfo, AppInstInfo, ClusterInstInfo, Node)
"""In the order in which they are said."""

MOST_MESSAGES = 1000
"""That wait to be said. Older ones are dropped: whoever waited for them has given up."""


class Reports:
    def __init__(self) -> None:
        self._there: dict[Any, dict[bytes, Any]] = {kind: {} for kind in KINDS}
        self._changed: dict[Any, dict[bytes, Message]] = {kind: {} for kind in KINDS}
        self._messages: deque[Message] = deque(maxlen=MOST_MESSAGES)
        self._asks = False
        self._news = asyncio.Event()

    def put(self, report: Any) -> None:
        """Say something from now on, in the place of what was said by that key before."""
        self._there[type(report)][ident(report.key)] = report
        self._mark(type(report), report.key)

    def drop(self, kind: Any, key: Message) -> None:
        """Say that there is nothing any more."""
        self._there[kind].pop(ident(key), None)
        self._mark(kind, key)

    def get(self, kind: Any, key: Message) -> Any:
        """What is said by a key; None: nothing."""
        return self._there[kind].get(ident(key))

    def clear(self, kind: Any) -> None:
        """Forget what is said, without a word: so does who is started anew."""
        self._there[kind].clear()
        self._changed[kind].clear()

    def post(self, message: Message) -> None:
        """Say a message, once."""
        self._messages.append(message)
        self._news.set()

    def ask(self, wanted: bool = True) -> None:
        """Say once more that all has been said. A controller answers that with the same, as soon
        as it has told all that there is."""
        self._asks = wanted
        self._news.set()

    def all(self) -> list[Notice]:
        """Everything, for a connection that begins. What has changed is among it."""
        self._messages.clear()
        for changed in self._changed.values():
            changed.clear()
        return [_said(each, UPDATE) for there in self._there.values() for each in there.values()]

    async def next(self) -> list[Notice]:
        """What is to be said next, as soon as there is anything."""
        while True:
            await self._news.wait()
            self._news.clear()
            if said := self._news_of_reports() + self._news_of_messages() + self._questions():
                return said

    def _mark(self, kind: Any, key: Message) -> None:
        self._changed[kind][ident(key)] = key
        self._news.set()

    def _news_of_reports(self) -> list[Notice]:
        said = []
        for kind, changed in self._changed.items():
            for ident_, key in changed.items():
                report = self._there[kind].get(ident_)
                gone: Any = kind(key=key) if report is None else None
                said.append(_said(report or gone, DELETE if report is None else UPDATE))
            changed.clear()
        return said

    def _news_of_messages(self) -> list[Notice]:
        said = [_said(message, UPDATE) for message in self._messages]
        self._messages.clear()
        return said

    def _questions(self) -> list[Notice]:
        asked, self._asks = self._asks, False
        return [Notice(action=SENDALL_END)] if asked else []


def _said(message: Message, action: Any) -> Notice:
    name = message.DESCRIPTOR.full_name
    packed = Packed(type_url=f"type.googleapis.com/{name}", value=message.SerializeToString())
    return Notice(action=action, any=packed)
