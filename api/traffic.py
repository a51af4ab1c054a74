"""What one HTTP/2 connection may ask of a server, told from the heads of its frames.

Memory that callers take before anybody knows them is counted where they take it: messages that have
begun and are not whole. Where there are too many of these bytes, the connection that holds most of
them is closed, and not the one that came last."""

from typing import NamedTuple, Protocol

from api import http2
from api.connections import Bucket
from api.http2 import Frame, FrameReader, Messages, Piece

CONTROL_AT_ONCE, CONTROL_PER_SECOND = 1000, 100
"""Frames of one connection that carry no call: pings, settings, priorities, empty data."""

CONTROL = frozenset({http2.PING, http2.SETTINGS})
"""Frames that have to be answered, unless they are answers."""
CARRYING = frozenset(
    {http2.DATA, http2.HEADERS, http2.RST_STREAM, http2.GOAWAY, http2.WINDOW_UPDATE}
)

MORE_STREAMS = 100
"""Streams beyond the limit that a connection may have opened before it heard of the limit."""


class TrafficLimits(NamedTuple):
    """What an operator decides about one connection, and about unfinished messages."""

    streams: int = 1000
    """Open on one connection."""
    resets_per_second: float = 100.0
    """Calls that one connection may call off; all that it has open at once besides."""
    unfinished_bytes: int = 64 * 2**20
    """Of all connections."""
    unfinished_bytes_per_address: int = 24 * 2**20
    """Of the connections of one address on which nobody is signed in."""


class Excess(Exception):  # noqa: N818 - it is a finding
    """A connection asks for too much. The text is for its caller."""


class Holder(Protocol):
    """A connection that may hold unfinished messages."""

    place: str
    is_trusted: bool
    held: int

    @property
    def is_signed_in(self) -> bool: ...

    def exceed(self, why: str) -> None:
        """Close it, and say why."""


class MessageBudget:
    """The bytes of unfinished messages of all connections."""

    def __init__(self, limits: TrafficLimits) -> None:
        self._limits = limits
        self._places: dict[str, dict[Holder, None]] = {}
        self._held: dict[str, int] = {}
        self.held = 0

    def add(self, holder: Holder, change: int) -> None:
        """Count so many more bytes of a connection, or fewer. Over a limit the connection that
        holds most is closed; it takes its bytes from here by itself."""
        if not change:
            return
        place = holder.place
        holder.held += change
        self.held += change
        self._held[place] = self._held.get(place, 0) + change
        if holder.held > 0:
            self._places.setdefault(place, {})[holder] = None
        else:
            self._forget(place, holder)
        if change > 0:
            self._hold(holder)

    def _hold(self, holder: Holder) -> None:
        limits = self._limits
        exempt = holder.is_signed_in or holder.is_trusted
        if not exempt and self._held[holder.place] > limits.unfinished_bytes_per_address:
            _largest(self._places[holder.place]).exceed("too many bytes of unfinished messages")
        elif self.held > limits.unfinished_bytes:
            everybody = {each: None for here in self._places.values() for each in here}
            _largest(everybody).exceed("too many bytes of unfinished messages")

    def _forget(self, place: str, holder: Holder) -> None:
        holders = self._places.get(place, {})
        holders.pop(holder, None)
        if not holders:
            self._places.pop(place, None)
            self._held.pop(place, None)


def _largest(holders: dict[Holder, None]) -> Holder:
    """Who holds most; those who are signed in come last."""
    return max(holders, key=lambda holder: (not holder.is_signed_in, holder.held))


class Traffic:
    """The streams of one connection."""

    def __init__(self, limits: TrafficLimits) -> None:
        self._limits = limits
        self._asked = FrameReader(gives_pieces=True)
        self._answers = FrameReader(gives_pieces=False)
        self._streams: dict[int, Messages] = {}
        self._resets = Bucket(limits.resets_per_second, limits.streams + limits.resets_per_second)
        self._control = Bucket(CONTROL_PER_SECOND, CONTROL_AT_ONCE)
        self.last = 0
        """The newest stream."""
        self.reset = 0
        """Streams that the caller has reset, until somebody takes them from here."""

    @property
    def open(self) -> int:
        return len(self._streams)

    @property
    def may_interrupt(self) -> bool:
        """Whether a frame of ours may follow on what was answered."""
        return self._answers.is_between_frames

    def ask(self, data: bytes) -> int:
        """Take in what a caller sends, and return by how much unfinished messages have grown.
        Excess if it is too much."""
        change = 0
        for found in self._asked.read(data):
            if isinstance(found, Piece):
                if messages := self._streams.get(found.stream):
                    change += messages.read(found.data)
            else:
                change -= self._frame(found)
        return change

    def answer(self, data: bytes) -> int:
        """Take in what the server answers, and return how much of unfinished messages is let go."""
        freed = 0
        for found in self._answers.read(data):
            if isinstance(found, Piece):
                continue
            ends = found.kind in (http2.DATA, http2.HEADERS) and found.flags & http2.END_STREAM
            if ends:
                freed += self._close(found.stream)
            elif found.kind == http2.RST_STREAM and found.stream in self._streams:
                freed += self._close(found.stream)
                self._count_reset()  # only what breaks the protocol is answered so
        return freed

    def _frame(self, frame: Frame) -> int:
        kind = frame.kind
        if kind == http2.HEADERS:
            self._open(frame.stream)
        elif kind == http2.DATA:
            if frame.flags & http2.PADDED:
                raise Excess("padded data")  # gRPC knows none
            if not frame.length and not frame.flags & http2.END_STREAM:
                self._count_control()
        elif kind == http2.RST_STREAM:
            if frame.stream in self._streams:
                freed = self._close(frame.stream)
                self._count_reset()
                return freed
        elif kind not in CARRYING and not (kind in CONTROL and frame.flags & http2.ACK):
            self._count_control()
        return 0

    def _open(self, stream: int) -> None:
        if stream <= self.last:  # trailers, or what the server refuses by itself
            return
        self.last = stream
        self._streams[stream] = Messages()
        if len(self._streams) > self._limits.streams + MORE_STREAMS:
            raise Excess("too many streams")

    def _close(self, stream: int) -> int:
        messages = self._streams.pop(stream, None)
        return messages.end() if messages else 0

    def _count_reset(self) -> None:
        self.reset += 1
        if not self._resets.take():
            raise Excess("too many resets")

    def _count_control(self) -> None:
        if not self._control.take():
            raise Excess("too many control frames")
