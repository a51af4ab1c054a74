"""What only a terminal shows: these run the command under a pseudo-terminal."""

import asyncio
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.cli.peer import Peer, Story, operation, told
from tests.cli.running import ROOT, spawned
from tests.support.load import grown

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Terminal:
    """The near end of a pseudo-terminal, and what has been seen on it."""

    descriptor: int
    process: asyncio.subprocess.Process
    seen: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self) -> None:
        try:
            self.seen += os.read(self.descriptor, 65536).decode()
        except OSError:  # the far end is closed
            asyncio.get_running_loop().remove_reader(self.descriptor)
        self._news.set()

    async def until(self, text: str) -> None:
        while text not in self.plain:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), grown(20))

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    @property
    def plain(self) -> str:
        return ESCAPE.sub("", self.seen).replace("\r\n", "\n")


@asynccontextmanager
async def terminal(peer: Peer, *arguments: str) -> AsyncIterator[Terminal]:
    near, far = pty.openpty()
    termios.tcsetwinsize(far, (40, 100))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "--address", peer.address, *arguments),
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm-256color"},
        stdin=far,
        stdout=far,
        stderr=far,
    )
    os.close(far)
    shown = Terminal(near, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(near, shown.read)
    try:
        yield shown
    finally:
        loop.remove_reader(near)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(near)


async def test_a_picture_changes_in_place(peer: Peer) -> None:
    story = told("op-1")
    gate = story.holds[6] = asyncio.Event()
    running = operation("op-1", percent=90, steps=story.operation.steps, last_event=4)
    peer.stories["op-1"] = Story(running, story.events, holds=story.holds)
    async with terminal(peer, "op", "watch", "op-1") as shown:
        await shown.until("90 %")
        assert "create-cluster cluster/hello  RUNNING" in shown.plain
        peer.stories["op-1"].operation = story.operation
        gate.set()
        assert await shown.process.wait() == 0
        await shown.until("create-cluster cluster/hello succeeded in 10 s")
    assert "\x1b[1A" in shown.seen
    assert shown.plain.rpartition("100 %")[0].count("SUCCEEDED") >= 1


async def test_a_picture_says_when_the_connection_is_lost(peer: Peer) -> None:
    story = told("op-1")
    story.breaks = [5]
    story.holds[6] = asyncio.Event()
    peer.stories["op-1"] = Story(operation("op-1"), story.events, story.breaks, story.holds)
    async with terminal(peer, "op", "watch", "op-1") as shown:
        await shown.until("connection lost, trying again in 0.2 s")
        peer.stories["op-1"].operation = story.operation
        story.holds[6].set()
        assert await shown.process.wait() == 0


async def test_an_operation_that_has_ended_is_shown_once(peer: Peer) -> None:
    peer.stories["op-1"] = told("op-1")
    async with terminal(peer, "op", "watch", "op-1") as shown:
        assert await shown.process.wait() == 0
        await shown.until("succeeded in 10 s")
    assert peer.requests("Watch") == []


async def test_deleting_needs_the_name_typed(peer: Peer) -> None:
    async with terminal(peer, "cluster", "delete", "hello") as shown:
        await shown.until("Type its name to go on: ")
        shown.type("hello\n")
        assert await shown.process.wait() == 0
    assert [each.name for each in peer.requests("DeleteCluster")] == ["hello"]


async def test_another_name_deletes_nothing(peer: Peer) -> None:
    async with terminal(peer, "cluster", "delete", "hello") as shown:
        await shown.until("Type its name to go on: ")
        shown.type("yes\n")
        assert await shown.process.wait() == 1
        await shown.until("error: nothing was deleted: that is not its name")
    assert peer.requests("DeleteCluster") == []


async def test_one_may_think_again_at_the_question(peer: Peer) -> None:
    async with terminal(peer, "cluster", "delete", "hello") as shown:
        await shown.until("Type its name to go on: ")
        shown.process.send_signal(signal.SIGINT)
        assert await shown.process.wait() == 130
    assert peer.requests("DeleteCluster") == []


async def test_leaving_does_not_stop_the_work(peer: Peer) -> None:
    story = told("op-1")
    story.holds[3] = asyncio.Event()
    peer.stories["op-1"] = story
    peer.next_operation = "op-1"
    process = await spawned("--address", peer.address, "cluster", "create", "hello", "--wait")
    assert process.stdout is not None
    while b"machines.deploy began" not in await process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert "not followed any more; the work goes on" in err.decode()
    assert "windlass op watch op-1 to follow it, windlass op cancel op-1 to stop it" in err.decode()
    assert "Traceback" not in err.decode()
    assert peer.requests("CancelOperation") == []
