"""Connections that gRPC is given by the front: bytes go through as they came, whoever hangs up is
missed on the other side, and what asks for too much ends alone."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network

import pytest

from api import http2
from api.callers import CALLERS
from api.connections import Bucket, ConnectionLimits, ConnectionTable, Stage, fitted
from api.front import Front
from api.http2 import FrameReader, Messages, Piece
from api.traffic import Excess, Traffic, TrafficLimits
from tests.support.load import limit

PATIENCE_SECONDS = 50.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def frame(kind: int, stream: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def message(length: int) -> bytes:
    return b"\0" + length.to_bytes(4, "big") + bytes(length)


class Fronted:
    """A front, and behind it a server that sends back what it gets."""

    def __init__(self, front: Front, address: tuple[str, int]) -> None:
        self.front = front
        self.address = address
        self.gone = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    async def come(self, local: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection(*self.address, local_addr=(local, 0))
        writer.write(http2.PREFACE)
        return reader, writer

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(len(http2.PREFACE))
            while piece := await reader.read(4096):
                writer.write(piece)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.gone.set()


@asynccontextmanager
async def fronted(
    connections: ConnectionLimits | None = None, traffic: TrafficLimits | None = None
) -> AsyncIterator[Fronted]:
    listening = socket.create_server(("127.0.0.1", 0))
    found = Fronted(Front(connections, traffic), listening.getsockname())
    path = found.front.address.removeprefix("unix:")
    async with await asyncio.start_unix_server(found.echo, path):
        found.front.listen(listening, None)
        try:
            async with limit(PATIENCE_SECONDS):
                yield found
        finally:
            await found.front.stop()


LONG = b"".join(frame(http2.DATA, 1, bytes([number % 256]) * 16_000) for number in range(200))


async def test_all_that_is_said_comes_back_as_it_was() -> None:
    async with fronted() as there:

        async def said(number: int) -> bool:
            reader, writer = await there.come()
            sent = LONG + frame(http2.DATA, 1, bytes([number]))
            writer.write(sent)
            answer = await reader.readexactly(len(sent))
            writer.close()
            return answer == sent

        assert all(await asyncio.gather(*map(said, range(4))))


async def test_a_caller_that_hangs_up_is_missed() -> None:
    async with fronted() as there:
        reader, writer = await there.come()
        writer.write(frame(http2.PING, 0, bytes(8)))
        await reader.readexactly(17)
        writer.close()
        await there.gone.wait()
        assert not there.front.table.count


async def test_gRPC_names_the_caller_while_it_is_there() -> None:  # noqa: N802
    async with fronted() as there:
        reader, writer = await there.come("127.0.0.7")
        writer.write(frame(http2.PING, 0, bytes(8)))
        await reader.readexactly(17)
        named = [found.address.rpartition(":")[0] for found in CALLERS.values()]
        assert "ipv4:127.0.0.7" in named
        writer.close()
        await there.gone.wait()


async def test_what_is_no_http2_is_closed() -> None:
    async with fronted() as there:
        reader, writer = await asyncio.open_connection(*there.address)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_a_caller_that_sends_nothing_is_closed() -> None:
    async with fronted(ConnectionLimits(handshake_seconds=0.2)) as there:
        reader, writer = await asyncio.open_connection(*there.address)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_in_the_end_nobody_is_taken_in_and_nothing_stays_open() -> None:
    async with fronted() as there:
        reader, writer = await there.come()
        writer.write(frame(http2.PING, 0, b"x" * 8))
        assert await reader.readexactly(17)
        there.front.close()
        writer.write(frame(http2.PING, 0, b"y" * 8))  # what is open goes on
        assert await reader.readexactly(17)
        await there.front.stop()
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await there.come()


async def test_too_many_streams_end_their_connection_alone() -> None:
    async with fronted(traffic=TrafficLimits(streams=10)) as there:
        _, quiet = await there.come()
        reader, writer = await there.come()
        opened = (frame(http2.HEADERS, 2 * number + 1, b"x") for number in range(200))
        writer.write(b"".join(opened))
        said = await reader.read()
        assert http2.goaway(221, "too many streams") in said
        assert not quiet.is_closing()
        writer.close()
        quiet.close()


async def test_who_holds_most_of_unfinished_messages_is_closed() -> None:
    limits = TrafficLimits(unfinished_bytes_per_address=100_000)
    async with fronted(traffic=limits) as there:
        little, much = await there.come(), await there.come()
        begun = frame(http2.HEADERS, 1, b"x")
        little[1].write(begun + frame(http2.DATA, 1, message(20_000)[:10_000]))
        await little[0].readexactly(len(begun) + 9 + 10_000)
        half = b"".join(frame(http2.DATA, 1, bytes(10_000)) for _ in range(20))
        much[1].write(begun + frame(http2.DATA, 1, b"\0" + (10**6).to_bytes(4, "big")) + half)
        with suppress(ConnectionResetError):
            while await much[0].read(65536):
                pass
        assert there.front.budget.held == 10_000
        little[1].write(frame(http2.DATA, 1, message(20_000)[10_000:]))
        await little[0].readexactly(9 + 10_005)
        assert there.front.budget.held == 0
        for _, writer in (little, much):
            writer.close()


@pytest.mark.parametrize("cut", [1, 2, 3, 8, 9, 10, 64, 10_000])
def test_frames_are_found_however_they_are_cut(cut: int) -> None:
    sent = (
        frame(http2.HEADERS, 1, b"head", http2.END_HEADERS)
        + frame(http2.DATA, 1, message(300)[:200])
        + frame(http2.PING, 0, bytes(8))
        + frame(http2.DATA, 1, message(300)[200:], http2.END_STREAM)
    )
    reader, frames, payload = FrameReader(gives_pieces=True), [], b""
    for at in range(0, len(sent), cut):
        for found in reader.read(sent[at : at + cut]):
            if isinstance(found, Piece):
                payload += found.data
            else:
                frames.append((found.kind, found.stream, found.length))
    assert frames == [(1, 1, 4), (0, 1, 200), (6, 0, 8), (0, 1, 105)]
    assert payload == message(300)
    assert reader.is_between_frames


def test_what_is_held_of_messages() -> None:
    messages, sent = Messages(), message(100) + message(0) + message(50)
    assert messages.read(memoryview(sent[:3])) == 3
    assert messages.read(memoryview(sent[3:60])) == 57
    assert messages.read(memoryview(sent[60:112])) == -58  # two bytes of the last one's head
    assert messages.read(memoryview(sent[112:])) == -2
    assert messages.held == 0


def test_resets_are_counted_and_streams_that_ended_are_not() -> None:
    traffic = Traffic(TrafficLimits(streams=50, resets_per_second=0.001))
    for number in range(200):
        stream = 2 * number + 1
        traffic.ask(frame(http2.HEADERS, stream, b"x"))
        traffic.answer(frame(http2.HEADERS, stream, b"y", http2.END_STREAM))
        traffic.ask(frame(http2.RST_STREAM, stream, bytes(4)))
    assert (traffic.reset, traffic.open) == (0, 0)
    streams = (2 * number + 1 for number in range(200, 300))
    rapid = (
        frame(http2.HEADERS, each) + frame(http2.RST_STREAM, each, b"abcd") for each in streams
    )
    with pytest.raises(Excess, match="resets"):
        traffic.ask(b"".join(rapid))


@pytest.mark.parametrize("kind", [http2.PING, http2.SETTINGS, http2.PRIORITY, 99])
def test_frames_that_carry_nothing_have_a_limit(kind: int) -> None:
    traffic = Traffic(TrafficLimits())
    traffic.ask(frame(http2.PING, 0, bytes(8), http2.ACK) * 5000)
    with pytest.raises(Excess, match="control"):
        traffic.ask(frame(kind) * 5000)


class Peer:
    """A connection that only a table knows."""

    def __init__(self, place: str = "192.0.2.1", *, trusted: bool = False) -> None:
        self.place, self.is_trusted = place, trusted
        self.stage = Stage.NEW
        self.closed = False

    def displace(self) -> None:
        self.closed = True


def test_new_connections_displace_what_has_done_nothing_and_nobody_else() -> None:
    table = ConnectionTable(ConnectionLimits(most=4, most_per_address=3))
    idle, busy, known, fresh = (Peer() for _ in range(4))
    for peer, stage in ((busy, Stage.BUSY), (known, Stage.SIGNED_IN), (idle, Stage.IDLE)):
        assert table.admit(peer)
        table.move(peer, stage)
    assert table.admit(fresh)
    assert [peer.closed for peer in (idle, busy, known)] == [True, False, False]
    assert table.admit(Peer())
    assert fresh.closed
    others = [Peer("198.51.100.1"), Peer("198.51.100.1")]
    assert all(map(table.admit, others))
    assert table.count == 4
    for each in table.open:
        table.move(each, Stage.BUSY)
    assert not table.admit(Peer("198.51.100.2")), "all are at work"


def test_trusted_proxies_are_not_one_address() -> None:
    table = ConnectionTable(ConnectionLimits(most_per_address=2), [ip_network("192.0.2.0/24")])
    assert table.locate(("192.0.2.9", 1)) == ("192.0.2.9", True)
    assert table.locate(("::ffff:198.51.100.1", 1, 0, 0)) == ("198.51.100.1", False)
    peers = [Peer(trusted=True) for _ in range(100)]
    assert all(map(table.admit, peers))
    assert not any(peer.closed for peer in peers)


def test_new_connections_of_an_address_have_a_rate() -> None:
    table = ConnectionTable(ConnectionLimits(new_per_second=5))
    admitted = [table.admit(Peer()) for _ in range(10)]
    assert admitted[:5] == [True] * 5
    assert not all(admitted)
    assert table.admit(Peer("198.51.100.1"))


def test_descriptors_are_shared_out() -> None:
    limits = fitted(ConnectionLimits(), 1024, 3, 2)
    assert 3 * limits.most + fitted(ConnectionLimits(), 1024, 1, 2).most <= 1024 - 256
    assert fitted(ConnectionLimits(), 1 << 20, 3, 2) == ConnectionLimits()


def test_a_bucket_gives_what_it_has() -> None:
    bucket = Bucket(rate=0.001, burst=3)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    assert not bucket.is_full
