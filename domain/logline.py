"""Lines of a log, as container runtimes write them: `TIME STREAM F|P TEXT`, where P marks a part of
a line that goes on in the next one of its stream."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from domain.errors import Invalid
from domain.frozen import Frozen
from domain.happening import SECOND_NS

LONGEST = 64 * 1024
"""A line that is longer is told in pieces of this length."""


class Line(NamedTuple):
    time_ns: int
    stream: str
    text: str

    def __str__(self) -> str:
        return f"{stamp(self.time_ns)} {self.text}"


class Chunk(Frozen):
    """Whole lines of one app, as they lie in its log."""

    offset: int
    """Where in the log it begins, in bytes."""
    lines: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.lines)


class Wanted(Frozen):
    """Which lines are asked for."""

    app: str = ""
    lines: int = 0
    """Only the last so many. 0: all."""
    follow: bool = False
    since: int = 0
    """Seconds; exclusive, as is the next."""
    until: int = 0

    def check(self) -> None:
        if self.lines < 0 or self.since < 0 or self.until < 0:
            raise Invalid(
                "lines and times may not be negative",
                reason="TIME_INVALID",
                do="leave out, or 0, means no limit",
            )
        if self.until and self.since > self.until:
            raise Invalid(
                f"since_time {self.since} is after until_time {self.until}",
                reason="TIME_INVALID",
                do="ask for a time that ends after it begins",
            )

    def covers(self, line: Line) -> bool:
        return (not self.since or line.time_ns > self.since * SECOND_NS) and (
            not self.until or line.time_ns < self.until * SECOND_NS
        )

    def last(self, lines: Iterable[Line]) -> Iterable[Line]:
        return deque(lines, maxlen=self.lines) if self.lines else lines


class Joiner:
    """Reads what a log holds and puts the parts of its lines together. It keeps what is begun."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[int, str]] = {}

    def read(self, raw: bytes) -> Iterator[Line]:
        for each in raw.split(b"\n"):  # and at nothing else: a carriage return is text
            written = each.decode(errors="replace").split(" ", 3)
            if len(written) < 3 or (time_ns := moment(written[0])) is None:
                continue  # a torn line, after a crash of whoever wrote it
            stream, mark = written[1], written[2]
            begun_ns, before = self._begun.pop(stream, (time_ns, ""))
            text = before + (written[3] if len(written) > 3 else "")
            if mark == "P" and len(text) < LONGEST:
                self._begun[stream] = (begun_ns, text)
            else:
                yield Line(begun_ns, stream, text.removesuffix("\r"))

    def rest(self) -> Iterator[Line]:
        """What was begun and will not be finished: a last line without its end."""
        begun, self._begun = self._begun, {}
        for stream, (time_ns, text) in begun.items():
            yield Line(time_ns, stream, text)


def merged(logs: Sequence[Iterable[Line]]) -> Iterator[Line]:
    """The lines of several apps, by time."""
    return heapq.merge(*logs, key=lambda line: line.time_ns)


def stamp(time_ns: int) -> str:
    """A time with its nanoseconds, in UTC."""
    seconds, rest = divmod(time_ns, SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def moment(text: str) -> int | None:
    """What `stamp` wrote, or a runtime with another zone and fewer digits. None: no time at all."""
    head, dot, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    try:
        seconds = datetime.fromisoformat(head + tail[len(digits) :] if dot else text)
    except ValueError:
        return None
    if seconds.tzinfo is None:
        return None
    return int(seconds.timestamp()) * SECOND_NS + int(digits.ljust(9, "0")[:9] or 0)


def written(line: Line) -> bytes:
    """The line as it lies in a log."""
    return f"{stamp(line.time_ns)} {line.stream} F {line.text}\n".encode()
