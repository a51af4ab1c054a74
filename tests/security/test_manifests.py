"""A6: a manifest of a stranger takes no more of a process than it may, however it is made."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from time import monotonic

import psutil
import pytest

from api.edge.text_reader import MOST_WAITING, TextReader
from domain.errors import Exhausted, Invalid, Unavailable
from domain.yaml_limits import ALIASES, BYTES, DEPTH, DOCUMENTS, NODES

SERVICE = (
    "kind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - {port: 80, protocol: TCP}\n---\n"
)
LONG = SERVICE + "# " + "x" * 5000 + "\n"

HOSTILE = {
    "many documents": "---\na: 1\n" * 80_000,
    "few more documents than may be": "a: 1\n---\n" * (DOCUMENTS + 1),
    "many nodes": "- a\n" * (NODES + 1),
    "deep": "[" * 20_000,
    "deep in blocks": "".join("  " * level + "a:\n" for level in range(DEPTH + 10)) + " " * 5000,
    "aliases": "a: &a 1\nb: [" + "*a, " * (ALIASES + 1) + "]\n",
    "long": "a" * (BYTES + 1),
    "long in bytes": "ä" * (BYTES // 2 + 1),
}


@pytest.fixture
async def reader() -> AsyncIterator[TextReader]:
    reader = TextReader()
    yield reader
    await reader.close()
    assert not workers()


def workers() -> list[int]:
    """The processes that read for us."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any("text_worker" in word or "sleeper" in word for word in child.cmdline()):
                found.append(child.pid)
    return found


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_what_holds_too_much_is_refused_before_it_is_built(
    reader: TextReader, text: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        await reader.services(text)
    assert refusal.value.reason == "TEXT_TOO_COMPLEX"


@pytest.mark.parametrize("text", [SERVICE, LONG], ids=["here", "in a worker"])
async def test_an_honest_manifest_is_read(reader: TextReader, text: str) -> None:
    [found] = await reader.services(text)
    assert (found.name, found.ports) == ("web", (("TCP", 80),))
    assert await reader.services("a: [" + "b, " * 2000) == (), "it is no YAML"
    assert await reader.is_config('{"a": 1}')
    assert not await reader.is_config("[" + "1, " * 2000 + "1]")


async def test_a_worker_serves_many(reader: TextReader) -> None:
    await reader.services(LONG)
    before = workers()
    for _ in range(5):
        await reader.services(LONG)
    assert workers() == before
    assert len(before) == 1


SLEEPER = """
import sys, time
from api.edge.text_worker import LENGTH, serve, answer
import api.edge.text_worker as worker
def slow(request):
    if "sleep" in request["text"]:
        time.sleep(1000)
    return answer(request)
worker.answer = slow
serve(sys.stdin.buffer, sys.stdout.buffer)  # sleeper
"""


async def test_what_takes_too_long_is_ended_and_others_go_on() -> None:
    """Its process is killed; a thread would have gone on for ever."""
    reader = TextReader(read_seconds=2, command=(sys.executable, "-c", SLEEPER))
    try:
        stuck = asyncio.create_task(reader.services("sleep " + "x" * 5000))
        began = monotonic()
        [found] = await reader.services(LONG)
        assert found.name == "web"
        with pytest.raises(Invalid, match="takes longer than 2 s"):
            await stuck
        assert monotonic() - began < 120
        [again] = await reader.services(LONG)
        assert again.name == "web"
        assert len(workers()) <= 2
    finally:
        await reader.close()
    assert not workers()


async def test_nobody_who_hangs_up_leaves_a_worker_behind() -> None:
    reader = TextReader(read_seconds=600, command=(sys.executable, "-c", SLEEPER))
    await reader.services(LONG)
    call = asyncio.create_task(reader.services("sleep " + "x" * 5000))
    await asyncio.sleep(0.05)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    await reader.close()
    assert not workers()


async def test_so_many_wait_and_no_more() -> None:
    reader = TextReader(workers=0)
    waiting = [asyncio.create_task(reader.services(LONG)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Exhausted):
        await reader.services(LONG)
    assert await reader.services(SERVICE), "short ones do not wait"
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await reader.close()


async def test_a_worker_that_dies_is_replaced(reader: TextReader) -> None:
    await reader.services(LONG)
    for pid in workers():
        psutil.Process(pid).kill()
    with suppress(Unavailable):  # it may not be known yet that it is dead
        await reader.services(LONG)
    [found] = await reader.services(LONG)
    assert found.name == "web"
