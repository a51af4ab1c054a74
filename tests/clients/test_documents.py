"""Documents fetched from a real server, one that behaves and one that does not."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from clients.documents import Documents
from domain.errors import Invalid


class Library:
    """A server of texts. It remembers what was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[tuple[str, bytes]] = []
        self.hurried = asyncio.Event()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """What happens before it answers."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *headers = head.lower().splitlines()
        length = [int(each.split(":")[1]) for each in headers if each.startswith("content-length")]
        body = await reader.readexactly(length[0]) if length else b""
        verb, path, _ = line.split()
        self.asked.append((f"{verb} {path}", body))
        if self.meanwhile:
            await self.meanwhile()
        if path == "/slow":
            await self.hurried.wait()
        status, text = self.texts.get(path, (404, b"none"))
        writer.write(f"HTTP/1.1 {status} Said\r\nLocation: /text\r\n".encode())
        writer.write(f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text)
        writer.close()

    texts: dict[str, tuple[int, bytes]] = {  # noqa: RUF012 (it is only read)
        "/text": (200, "größer".encode()),
        "/long": (200, b"x" * 2000),
        "/bytes": (200, b"\xff\xfe"),
        "/moved": (302, b""),
        "/made": (200, b"made"),
    }


@pytest.fixture
async def library() -> AsyncIterator[Library]:
    library = Library()
    server = await asyncio.start_server(library.answer, "127.0.0.1", 0)
    library.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield library
        library.hurried.set()


@pytest.fixture
def documents(library: Library) -> Callable[..., Documents]:
    return lambda **limits: Documents([library.address], **limits)


async def test_a_text_is_fetched(library: Library, documents: Callable[..., Documents]) -> None:
    assert await documents().fetch(f"{library.address}/text") == "größer"
    assert library.asked == [("get /text", b"")]


async def test_a_text_is_made_of_a_description(
    library: Library, documents: Callable[..., Documents]
) -> None:
    assert await documents().generate(f"{library.address}/made", {"key": {"name": "x"}}) == "made"
    [(asked, body)] = library.asked
    assert asked == "post /made"
    assert json.loads(body) == {"key": {"name": "x"}}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/none", "the answer was 404"),
        ("/moved", "the answer was 302"),
        ("/long", "it is longer than 1000 bytes"),
        ("/bytes", "it is no UTF-8 text"),
        ("/slow", "it took more than 0.5 s"),
    ],
)
async def test_what_cannot_be_had_is_refused(
    library: Library, documents: Callable[..., Documents], path: str, why: str
) -> None:
    with pytest.raises(Invalid, match="could not be fetched") as refused:
        await documents(seconds=0.5, largest=1000).fetch(library.address + path)
    assert refused.value.message.endswith(why)


async def test_nothing_is_asked_that_is_not_allowed(library: Library) -> None:
    with pytest.raises(Invalid, match="may not be fetched"):
        await Documents([]).fetch(f"{library.address}/text")
    with pytest.raises(Invalid, match="may not be fetched"):
        await Documents([library.address]).fetch(f"{library.address}/{'x' * 2000}")
    assert not library.asked


async def test_nobody_there_is_no_text() -> None:
    with pytest.raises(Invalid, match="could not be fetched"):
        await Documents(["http://127.0.0.1:1"]).fetch("http://127.0.0.1:1/x")
