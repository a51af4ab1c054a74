"""Frozen mons, told by sockets that take connections and say nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from clients.ceph import greetings
from clients.ceph.greetings import Greetings
from domain.storage import Light, Mon, Mons
from domain.storage_mons import FROZEN, without
from tests.domain.ceph import seen
from tests.metal import free_port
from tests.support.load import limit

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[str]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"ceph v027" + bytes(270))
    await writer.drain()
    await reader.read()
    writer.close()


async def is_frozen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


class Freezes:
    """A mon that is stopped, and goes on."""

    frozen = False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (is_frozen if self.frozen else greets)(reader, writer)


async def hangs_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_a_mon_that_says_nothing_is_told_from_those_that_cannot_be_reached() -> None:
    closed = f"127.0.0.1:{free_port('127.0.0.1')}/0"
    freezes = Freezes()
    async with (
        listening(greets) as good,
        listening(freezes.answer) as frozen,
        listening(hangs_up) as odd,
        listening(is_frozen) as never,
    ):
        mons = {"a": good, "b": frozen, "c": closed, "d": odd, "e": "nowhere", "f": never}
        asked = Greetings()
        assert await asked.silent(mons) == frozenset()
        freezes.frozen = True
        assert await asked.silent(mons) == {"b"}
        freezes.frozen = False
        assert await asked.silent(mons) == frozenset()


async def test_what_cannot_be_reached_is_not_tried_with_each_look() -> None:
    closed = f"127.0.0.1:{free_port('127.0.0.1')}/0"
    asked = Greetings()
    assert await asked.silent({"a": closed}) == frozenset()
    async with limit(greetings.CONNECT_SECONDS):
        assert await asked.silent({"a": closed}) == frozenset()


def test_a_frozen_mon_is_shown_though_the_manager_says_that_all_is_well() -> None:
    three = tuple(Mon(name=name, in_quorum=True) for name in "abc")
    it = seen().model_copy(update={"mons": Mons(all=three)})
    assert without(it, ()) == it
    one = without(it, {"b"})
    assert (one.light, one.live, one.mons.quorum) == (Light.WARN, True, ("a", "c"))
    assert FROZEN in {check.code for check in one.checks}
    assert not without(it, {"a", "b"}).live
