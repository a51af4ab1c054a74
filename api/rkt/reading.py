"""Reading logs: of several apps in the order of time, up to now or as they are written."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

from domain.errors import NotFound
from domain.happening import SECOND_NS
from domain.logline import Joiner, Line, Wanted, merged
from domain.pod import ENDED, Pod, pod_of
from domain.window import Window

LOOK_SECONDS = 1.0
"""How often a follower looks by itself."""

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
        found: list[Line] = []
        before = -1
        while before < self._offset:
            before = self._offset
            for chunk in await self._window.log(self._pod, self._app, before):
                found += self._joiner.read(chunk.lines)
                self._offset = chunk.end
        return found

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
        found = [line for line in await _read(reels, over=over) if wanted.covers(line)]
        sent = False
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


async def _read(reels: Sequence[Reel], *, over: bool) -> list[Line]:
    """What all of them have that is new; at the end also what was begun and not finished."""
    logs = [await reel.lines() for reel in reels]
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
