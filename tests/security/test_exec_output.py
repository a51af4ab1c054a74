"""What commands, archives and podman send is never held whole by an agent, which is root."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent import output
from agent.output import MOST_BYTES, Kept
from agent.podman import images, rest
from agent.podman.images import PodmanImages
from agent.podman.rest import Rest, demultiplexed, last_error, quoted
from agent.podman.runtime import Podman
from agent.process import Processes
from agent.runtime import Spec
from domain.errors import Failed, NotFound

POD = "4f6d6a1e-0000-4000-8000-000000000000"
COPY_BYTES = 8 * MOST_BYTES


class Service:
    """Answers as podman does, over a socket: by the end of a path, what to send piece by piece."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, tuple[int, Callable[[], list[bytes]]]] = {}
        self.asked: list[str] = []
        self.pieces: list[int] = []

    async def serve(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        try:
            head = (await reading.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            self.asked.append(path)
            if "transfer-encoding: chunked" in head.lower():
                await self._chunked(reading)
            name = path.partition("?")[0].removeprefix("/v4.0.0/libpod")
            code, pieces = self.answers[name]
            writing.write(f"HTTP/1.1 {code} x\r\nConnection: close\r\n\r\n".encode())
            for piece in pieces():
                writing.write(piece)
                await writing.drain()
        except ConnectionError:
            pass  # who asked has read enough
        finally:
            writing.close()

    async def _chunked(self, reading: asyncio.StreamReader) -> None:
        while size := int(await reading.readline(), 16):
            self.pieces.append(size)
            await reading.readexactly(size + 2)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    with TemporaryDirectory() as folder:
        made = Service(Path(folder) / "podman.sock")
        server = await asyncio.start_unix_server(made.serve, made.path)
        yield made
        server.close()
        await server.wait_closed()


def frame(stream: int, raw: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(raw).to_bytes(4, "big") + raw


async def pieces_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def test_of_an_output_the_beginning_is_kept_and_the_rest_counted() -> None:
    out, err = Kept(4), Kept(4)
    for raw in (b"abc", b"def", b"g"):
        out.take(raw)
    err.take(b"x")
    assert output.noted(out, err) == (
        b"abcd",
        b"x\nwindlass: 3 more bytes of stdout were dropped\n",
    )


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000])
async def test_frames_are_read_however_they_are_cut(size: int) -> None:
    raw = frame(1, b"hello ") + frame(2, b"oh") + frame(1, b"") + frame(3, b"?") + frame(1, b"you")
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    out, err = await demultiplexed(pieces_of(*pieces), 100)
    assert (bytes(out), bytes(err)) == (b"hello you", b"oh")


async def test_podmans_exec_keeps_no_more_than_can_be_told(service: Service) -> None:
    piece = frame(1, b"x" * 65536)
    service.answers = {
        f"/containers/{POD}/exec": (201, lambda: [b'{"Id": "e1"}']),
        "/exec/e1/start": (200, lambda: [piece] * (COPY_BYTES // 65536) + [frame(2, b"end")]),
        "/exec/e1/json": (200, lambda: [b'{"ExitCode": 3}']),
    }
    podman = Podman("n1", service.path.parent)
    podman._opened = Rest(service.path)
    told = await podman.exec(POD, ["cat", "/dev/zero"], 60)
    await podman._opened.close()
    assert (told.exit_code, len(told.stdout)) == (3, MOST_BYTES)
    assert told.stderr.startswith(b"end\nwindlass: ")


async def test_a_process_that_says_much_is_read_to_its_end(tmp_path: Path) -> None:
    processes = Processes(tmp_path, commands=True)
    await processes.open("")
    spec = Spec(pod=POD, instance="i", name="x", uri="builtin:idle")
    await processes.create(spec)
    await processes.start(POD)
    try:
        script = f"head -c {COPY_BYTES} /dev/zero; echo end >&2; exit 3"
        told = await processes.exec(POD, ["sh", "-c", script], 60)
    finally:
        await processes.remove(POD)
    assert (told.exit_code, len(told.stdout)) == (3, MOST_BYTES)
    assert told.stderr.startswith(b"end\n\nwindlass: ")


async def test_an_answer_of_podman_without_end_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "ANSWER_BYTES", 1000)
    service.answers = {
        "/short": (200, lambda: [b'{"a": 1}']),
        "/long": (200, lambda: [b"x" * 500] * 100_000),
        "/refused": (
            404,
            lambda: [json.dumps({"cause": "no such image", "message": "x"}).encode()],
        ),
        "/babble": (500, lambda: [b"x" * 65536] * 100_000),
    }
    podman = Rest(service.path)
    assert await podman.get("/short") == {"a": 1}
    with pytest.raises(Failed, match="over 1000 bytes"):
        await podman.get("/long")
    with pytest.raises(NotFound):
        await podman.get("/refused")
    with pytest.raises(Failed) as caught:
        await podman.get("/babble")
    assert len(caught.value.message) < 1000
    await podman.close()


async def test_of_a_pull_nothing_is_kept_but_its_failure() -> None:
    lines = [b'{"stream": "copying"}\n'] * 1000
    assert await last_error(pieces_of(*lines)) == ""
    assert (
        await last_error(pieces_of(*lines, b'{"error": "not ', b'there"}\n', b"\n")) == "not there"
    )
    assert await last_error(pieces_of(*lines, b'{"error": "cut off"}')) == "cut off"
    assert await last_error(pieces_of(b"x" * 10**6, b"x" * 10**6, b'\n{"error": "a"}\n')) == "a"


async def test_an_archive_is_sent_in_pieces(service: Service) -> None:
    archives = service.path.parent / "archives"
    archives.mkdir()
    with (archives / "a.tar").open("wb") as file:
        file.truncate(5 * images.ARCHIVE_PIECE + 1)
    told = {"Id": "a" * 64, "Os": "linux", "Architecture": "amd64", "RepoTags": ["x/y:1"]}
    service.answers = {
        "/images/load": (200, lambda: [b'{"Names": ["x/y:1"]}']),
        "/images/x/y:1/json": (200, lambda: [json.dumps(told).encode()]),
    }
    podman = Rest(service.path)
    loaded = PodmanImages(podman, archives, archives)
    image, reference = await loaded.fetch(f"file://{archives}/a.tar", "")
    await podman.close()
    assert (image.name, reference) == ("x/y", "x/y:1")
    assert sum(service.pieces) == 5 * images.ARCHIVE_PIECE + 1
    assert max(service.pieces) <= images.ARCHIVE_PIECE


async def test_no_name_of_an_image_leads_elsewhere_in_a_path(service: Service) -> None:
    assert quoted("registry.example:5000/a/b@sha256:0") == "registry.example:5000/a/b@sha256:0"
    assert quoted("x?force=true#%2f") == "x%3Fforce%3Dtrue%23%252f"
    asked = {"Id": "a" * 64, "Os": "linux", "Architecture": "amd64", "RepoTags": ["odd?all=true:1"]}
    service.answers = {
        "/images/json": (200, lambda: [json.dumps([asked]).encode()]),
        f"/images/{'a' * 64}/json": (200, lambda: [json.dumps(asked).encode()]),
        "/images/odd%3Fall%3Dtrue:1": (200, lambda: [b"{}"]),
    }
    podman = Rest(service.path)
    known = PodmanImages(podman, service.path.parent, service.path.parent)
    (image,) = await known.list()
    await known.remove(image.id)
    await podman.close()
    assert service.asked[-1].endswith("/images/odd%3Fall%3Dtrue:1")
