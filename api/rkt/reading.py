"""Reading logs: of several apps in the order of time, up to now or as they are written."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

from domain.errors import NotFound
from domain.happening import SECOND_NS
from domain.logline import Chunk, Joiner, Line, Wanted, merged
from domain.pod import ENDED, Pod, pod_of
from domain.window import Window

LOOK_SECONDS = 1.0
"""How often a follower looks by itself."""

BEYOND_BYTES = 2**20
"""Once there are enough lines, so much more is read to find where one began that was written in
parts."""

LINES, BYTES = 1000, 256 * 1024
"""The most that one message carries."""


class Reel:
    """One app's log, read from its beginning on."""

    def __init__(self, window: Window, pod: str, app: str) -> None:
        self._window, self._pod, self._app = window, pod, app
        self._offset = 0
        self._joiner = Joiner()

    async def lines(self) -> list[Line]:
        """What was written since the last time. Older databases have pieces with nothing in them:
        where those are all there is, there is no news."""
        return [line async for page in self.pages() for line in page]

    async def pages(self) -> AsyncGenerator[list[Line], None]:
        """The same, as much at a time as a window tells."""
        before = -1
        while before < self._offset:
            before = self._offset
            found: list[Line] = []
            for chunk in await self._window.log(self._pod, self._app, before):
                found += self._joiner.read(chunk.lines)
                self._offset = chunk.end
            yield found

    async def tail(self, wanted: Wanted) -> list[Line]:
        """At least the last lines that are wanted, read from the log's end backwards."""
        chunks: list[Chunk] = []
        found, beyond = 0, 0
        while page := await self._window.log_end(self._pod, self._app, _begin(chunks)):
            chunks = [*page, *chunks]
            there = [line for chunk in page for line in Joiner().read(chunk.lines)]
            found += sum(map(wanted.covers, there))
            if there and wanted.since and there[-1].time_ns <= wanted.since * SECOND_NS:
                break  # and so is what was written before it
            if found >= wanted.lines:
                beyond += sum(len(chunk.lines) for chunk in page)
                if beyond > BEYOND_BYTES or _are_whole(self._joined(chunks), wanted):
                    break
        self._offset = chunks[-1].end if chunks else 0
        return self._joined(chunks)

    def _joined(self, chunks: Sequence[Chunk]) -> list[Line]:
        self._joiner = Joiner()
        return [line for chunk in chunks for line in self._joiner.read(chunk.lines)]

    def rest(self) -> list[Line]:
        return list(self._joiner.rest())


async def read(window: Window, prefix: str, wanted: Wanted) -> AsyncGenerator[list[str], None]:
    """Lines of the pod whose id begins so, in messages of a size that every client takes. If it is
    not to be followed there is at least one, even if nothing was written."""
    pod = pod_of(await window.pods(prefix=prefix.lower()), prefix)
    reels = [Reel(window, pod.id, app) for app in _apps(pod, wanted.app)]
    with window.watching() as news:
        news.clear()  # before reading, so that nothing falls between
        over = not wanted.follow or _left(wanted) <= 0 or await _ended(window, pod.id)
        sent = False
        async with aclosing(_first(reels, wanted, over=over)) as pages:
            async for page in pages:
                found = [line for line in page if wanted.covers(line)]
                for message in _split(list(wanted.last(found))):
                    yield message
                    sent = True
        if not sent and not wanted.follow:
            yield []
        while not over:
            left = _left(wanted)
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), timeout=min(LOOK_SECONDS, left))
            news.clear()
            over = _left(wanted) <= 0 or await _ended(window, pod.id)
            lines = [line for line in await _read(reels, over=over) if wanted.covers(line)]
            for message in _split(lines):
                yield message


def _apps(pod: Pod, name: str) -> list[str]:
    names = [app.name for app in pod.apps if not name or app.name == name]
    if name and not names:
        raise NotFound(
            f"pod {pod.id} has no app {name}",
            subject=name,
            reason="APP_NOT_FOUND",
            do=f"windlass pod inspect {pod.id[:8]} shows its apps",
        )
    return names


def _begin(chunks: Sequence[Chunk]) -> int | None:
    return chunks[0].offset if chunks else None


def _are_whole(lines: Sequence[Line], wanted: Wanted) -> bool:
    """Whether none of the last lines may have begun before all that was read: the first one of its
    stream may."""
    first: dict[str, Line] = {}
    for line in lines:
        first.setdefault(line.stream, line)
    last = wanted.last(line for line in lines if wanted.covers(line))
    return not any(line is first[line.stream] for line in last)


async def _first(
    reels: Sequence[Reel], wanted: Wanted, *, over: bool
) -> AsyncGenerator[list[Line], None]:
    """What all of them have, or the end of it if no more is wanted. Of one app, page by page: a log
    is not kept whole. Those of several have to be put in order."""
    if wanted.lines:
        yield _together(reels, [await reel.tail(wanted) for reel in reels], over=over)
    elif len(reels) == 1:
        async with aclosing(reels[0].pages()) as pages:
            async for page in pages:
                yield page
        if over:
            yield reels[0].rest()
    else:
        yield await _read(reels, over=over)


async def _read(reels: Sequence[Reel], *, over: bool) -> list[Line]:
    """What all of them have that is new; at the end also what was begun and not finished."""
    return _together(reels, [await reel.lines() for reel in reels], over=over)


def _together(reels: Sequence[Reel], logs: list[list[Line]], *, over: bool) -> list[Line]:
    if over:
        logs = [[*lines, *reel.rest()] for lines, reel in zip(logs, reels, strict=True)]
    return list(merged(logs))


async def _ended(window: Window, pod: str) -> bool:
    found = await window.pods(prefix=pod)
    return not found or found[0].state in ENDED


def _left(wanted: Wanted) -> float:
    """How long is left until its end. Without one, as long as anybody wants."""
    return (wanted.until * SECOND_NS - time.time_ns()) / SECOND_NS if wanted.until else LOOK_SECONDS


def _split(lines: Sequence[Line]) -> list[list[str]]:
    messages: list[list[str]] = []
    size = 0
    for line in map(str, lines):
        if not messages or len(messages[-1]) == LINES or size + len(line) > BYTES:
            messages.append([])
            size = 0
        messages[-1].append(line)
        size += len(line)
    return messages
