"""HTTP/2 as far as limits need it: heads of frames, and where messages of gRPC end (RFC 9113; gRPC
over HTTP/2). Nothing is decompressed or copied, and nothing is answered."""

from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
MESSAGE_HEAD_BYTES = 5
"""Before each message: whether it is compressed, and its length."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8

ENHANCE_YOUR_CALM = 0xB


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    length: int


class Piece(NamedTuple):
    """Some of what a DATA frame carries."""

    stream: int
    data: memoryview


class FrameReader:
    """Finds the frames in a stream of bytes, however it was cut."""

    __slots__ = ("_gives_pieces", "_head", "_left", "_piece_of")

    def __init__(self, *, gives_pieces: bool) -> None:
        """`gives_pieces`: what DATA frames carry is returned too, right behind their heads."""
        self._gives_pieces = gives_pieces
        self._head = b""
        self._left = 0
        self._piece_of = 0

    @property
    def is_between_frames(self) -> bool:
        return not self._left and not self._head

    def read(self, data: bytes) -> list[Frame | Piece]:
        """What begins or goes on in these bytes, in its order."""
        if self._head:
            data, self._head = self._head + data, b""
        found: list[Frame | Piece] = []
        at, end = 0, len(data)
        whole = memoryview(data)
        while at < end:
            if self._left:
                there = min(self._left, end - at)
                if self._piece_of:
                    found.append(Piece(self._piece_of, whole[at : at + there]))
                self._left -= there
                at += there
                continue
            if end - at < HEAD_BYTES:
                self._head = data[at:]
                break
            kind, flags = data[at + 3], data[at + 4]
            stream = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
            self._left = int.from_bytes(data[at : at + 3], "big")
            self._piece_of = stream if kind == DATA and self._gives_pieces else 0
            found.append(Frame(kind, flags, stream, self._left))
            at += HEAD_BYTES
        return found


class Messages:
    """How much of a message has come that is not whole yet, on one stream."""

    __slots__ = ("_head", "_left", "held")

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self.held = 0
        """Bytes of the message that has begun."""

    def read(self, data: memoryview) -> int:
        """Take in what has come, and return by how much `held` has changed."""
        before, at, end = self.held, 0, len(data)
        while at < end:
            if self._left:
                there = min(self._left, end - at)
                self._left -= there
                at += there
                self.held = (self.held + there) if self._left else 0
                continue
            missing = MESSAGE_HEAD_BYTES - len(self._head)
            self._head += data[at : at + missing].tobytes()
            at += missing
            if len(self._head) < MESSAGE_HEAD_BYTES:
                self.held = len(self._head)
                break
            self._left = int.from_bytes(self._head[1:], "big")
            self._head = b""
            self.held = MESSAGE_HEAD_BYTES if self._left else 0
        return self.held - before

    def end(self) -> int:
        """Nothing more comes: what was held is let go, and how much that was is returned."""
        held, self.held = self.held, 0
        return held


def goaway(last_stream: int, why: str) -> bytes:
    """The frame that ends a connection whose caller asks for too much."""
    said = why.encode()
    payload = last_stream.to_bytes(4, "big") + ENHANCE_YOUR_CALM.to_bytes(4, "big") + said
    return len(payload).to_bytes(3, "big") + bytes([GOAWAY, 0]) + bytes(4) + payload
