"""The last lines of a log are read from its end, as they are if all of it is read."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent.archive import Archive
from agent.bell import Bell
from agent.ledger import Ledger
from agent.runtime import APP
from agent.window import NodeWindow
from api.rkt.reading import BEYOND_BYTES, read
from domain.happening import SECOND_NS
from domain.logline import Chunk, Wanted, stamp
from domain.pod import App, Image, Pod, PodState

POD = "4f6d6a1e-0000-4000-8000-000000000000"
LINES = 100_000
BEGAN = 1_700_000_000


class Counting(NodeWindow):
    """Says how much of a log was read."""

    read = 0

    async def log(self, pod: str, app: str, after: int) -> Sequence[Chunk]:
        return self._counted(await super().log(pod, app, after))

    async def log_end(self, pod: str, app: str, before: int | None) -> Sequence[Chunk]:
        return self._counted(await super().log_end(pod, app, before))

    def _counted(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        self.read += sum(len(chunk.lines) for chunk in chunks)
        return chunks


class Written:
    """A pod that has ended, with a log."""

    def __init__(self, folder: Path) -> None:
        self.ledger, self.path = Ledger(None), folder / "log"
        bell = Bell()
        self.archive = Archive(folder / "logs", self.ledger, bell.ring, most_bytes=16 * 10**6)
        self.window = Counting("n1", self.ledger, self.archive, bell)
        app = App(name=APP, image=Image(id=""))
        self.ledger.tell_pod(Pod(id=POD, state=PodState.EXITED, apps=(app,)))

    def write(self, lines: Sequence[bytes]) -> None:
        self.path.write_bytes(b"".join(lines))
        self.archive.watch(POD, self.path)
        self.archive.finish(POD)

    async def lines(self, **wanted: int) -> list[str]:
        told = read(self.window, POD, Wanted(**wanted))
        return [line.split(" ", 1)[1] async for message in told for line in message]


@pytest.fixture
async def written(tmp_path: Path) -> AsyncIterator[Written]:
    made = Written(tmp_path)
    yield made
    made.ledger.close()


def line(at: int, text: str, stream: str = "stdout", mark: str = "F") -> bytes:
    return f"{stamp((BEGAN + at) * SECOND_NS)} {stream} {mark} {text}\n".encode()


async def test_a_few_lines_of_a_long_log_are_read_from_its_end(written: Written) -> None:
    written.write([line(each, f"line {each}") for each in range(LINES)])
    size = sum(chunk.stat().st_size for chunk in written.path.parent.glob("logs/*/*"))
    assert size > 4 * 10**6
    assert await written.lines(lines=10) == [f"line {each}" for each in range(LINES - 10, LINES)]
    assert written.window.read < 200_000
    written.window.read = 0
    since = BEGAN + LINES - 5
    assert await written.lines(lines=10, since=since) == [
        f"line {each}" for each in range(LINES - 4, LINES)
    ]
    assert written.window.read < 200_000
    until = BEGAN + LINES - 100
    assert (await written.lines(lines=2, until=until))[-1] == f"line {LINES - 101}"


async def test_a_long_log_is_told_while_it_is_read(written: Written) -> None:
    """It is never kept whole: who asks for all of it gets the beginning first."""
    written.write([line(each, f"line {each}") for each in range(LINES)])
    told = read(written.window, POD, Wanted())
    assert (await anext(told))[0].endswith("line 0")
    assert written.window.read < 200_000
    await told.aclose()
    assert await written.lines() == [f"line {each}" for each in range(LINES)]


async def test_lines_in_parts_and_of_two_streams_are_whole_at_the_end_too(written: Written) -> None:
    """Parts of a line may lie far before its end, and lines of the other stream between them."""
    lines = [line(0, "first of all", "stderr")]
    for each in range(3000):
        if each % 100 == 0:
            lines.append(line(each, f"error {each} ", "stderr", "P"))
        lines.append(line(each, f"{each} " + "x" * 100))
        if each % 100 == 99:
            lines.append(line(each, "ends", "stderr"))
    written.write([*lines, line(3000, "begun", mark="P")])
    whole = await written.lines()
    assert whole[-1] == "begun"
    for number in (1, 2, 3, 50, 101, 102, 2000, len(whole) + 5):
        assert await written.lines(lines=number) == whole[-number:], number


async def test_a_stream_that_is_seldom_written_to_does_not_have_all_read(written: Written) -> None:
    lines = [line(each, "x" * 100) for each in range(30_000)]
    written.write([*lines, line(30_000, "at last", "stderr")])
    assert (await written.lines(lines=1)) == ["at last"]
    assert written.window.read < BEYOND_BYTES + 200_000


async def test_of_an_empty_log_there_is_no_end(written: Written) -> None:
    assert await written.lines(lines=10) == []
