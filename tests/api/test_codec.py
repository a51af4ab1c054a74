"""What was sealed for Temporal is opened for its web page and its command, and for nobody else."""

import asyncio
import base64
import json
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from settings import Temporal
from store.sealing import Seal
from tests.api.closed import Closed, closed
from tests.conftest import BINARIES
from workflows.sealed import Sealing, converter

UI = "http://127.0.0.1:8233"
PATH = "/codec/decode"
ASKED = {"content-type": "application/json", "x-namespace": "default", "origin": UI}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("codec")


@pytest.fixture(scope="module")
async def server(folder: Path) -> AsyncIterator[Closed]:
    async with closed(folder) as served:
        yield served


@pytest.fixture
def key(server: Closed, folder: Path) -> Seal:
    """What the server seals with."""
    return Seal.from_file(folder / "seal.key")


@pytest.fixture
async def web(server: Closed) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.http, trust_env=False, timeout=20) as http:
        yield http


async def said(key: Seal, *texts: str) -> bytes:
    """Payloads as the web page sends them: protobuf's JSON."""
    plain = [Payload(metadata={"encoding": b"json/plain"}, data=text.encode()) for text in texts]
    sealed = await Sealing(key).encode(plain)
    return json.dumps({"payloads": [written(payload) for payload in sealed]}).encode()


def written(payload: Payload) -> dict[str, object]:
    metadata = {name: base64.b64encode(said).decode() for name, said in payload.metadata.items()}
    return {"metadata": metadata, "data": base64.b64encode(payload.data).decode()}


def signed(server: Closed, who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {server.tokens[who]}"}


async def test_the_web_page_has_payloads_opened(
    server: Closed, key: Seal, web: httpx2.AsyncClient
) -> None:
    long = json.dumps("x" * 1_000_000)
    answer = await web.post(
        PATH, content=await said(key, '"hush"', long), headers=ASKED | signed(server, "vic")
    )
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == UI
    first, second = json.loads(answer.content)["payloads"]
    assert first == written(Payload(metadata={"encoding": b"json/plain"}, data=b'"hush"'))
    assert base64.b64decode(second["data"]) == long.encode()


async def test_what_is_not_sealed_is_answered_as_it_is(
    server: Closed, web: httpx2.AsyncClient
) -> None:
    plain = {"payloads": [written(Payload(metadata={"encoding": b"json/plain"}, data=b"7"))]}
    answer = await web.post(PATH, json=plain, headers=ASKED | signed(server, "vic"))
    assert json.loads(answer.content) == plain


async def test_a_page_asks_first(web: httpx2.AsyncClient) -> None:
    asked = {"access-control-request-method": "POST"}
    asked |= {"access-control-request-headers": "authorization,content-type,x-namespace"}
    answer = await web.options(PATH, headers={**asked, "origin": UI})
    assert answer.status_code == 204
    assert {"authorization", "content-type", "x-namespace"} <= set(
        answer.headers["access-control-allow-headers"].split(", ")
    )
    assert (await web.options(PATH, headers={**asked, "origin": "http://evil"})).status_code == 403


async def test_nobody_else_has_anything_opened(
    server: Closed, key: Seal, web: httpx2.AsyncClient
) -> None:
    body = await said(key, '"hush"')
    refused = {
        401: [{}, {"authorization": f"Bearer {server.bad['revoked']}"}],
        403: [signed(server, "dev"), signed(server, "agent-7")],
    }
    for code, callers in refused.items():
        for caller in callers:
            answer = await web.post(PATH, content=body, headers=ASKED | caller)
            assert answer.status_code == code
            assert "hush" not in answer.text
    evil = ASKED | signed(server, "ada") | {"origin": "http://evil.example"}
    assert (await web.post(PATH, content=body, headers=evil)).status_code == 403


async def test_that_page_may_ask_for_nothing_else(server: Closed, web: httpx2.AsyncClient) -> None:
    path = "/windlass.v1.Users/List"
    answer = await web.post(path, json={}, headers=ASKED | signed(server, "ada"))
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


async def test_what_another_key_sealed_is_an_error_of_its_own(
    server: Closed, web: httpx2.AsyncClient
) -> None:
    body = await said(Seal(os.urandom(32)), '"hush"')
    answer = await web.post(PATH, content=body, headers=ASKED | signed(server, "ada"))
    assert (answer.status_code, json.loads(answer.content)["code"]) == (409, "aborted")
    assert "does not open with key file-1" in answer.text


async def test_temporals_own_command_shows_what_is_sealed(
    server: Closed, key: Seal, temporal: WorkflowEnvironment, queues: str
) -> None:
    word, address = secrets.token_hex(9), temporal.client.service_client.config.target_host
    client = await Client.connect(address, data_converter=converter(key))
    await client.start_workflow("Nobody", word, id=queues, task_queue=queues)
    show = ("workflow", "show", "--address", address, "-w", queues, "-o", "json")
    opened = ("--codec-endpoint", f"{server.http}/codec")
    auth = ("--codec-auth", f"Bearer {server.tokens['vic']}")
    plain = base64.b64encode(json.dumps(word).encode()).decode()
    assert plain in await shown(*show, *opened, *auth)
    assert plain not in await shown(*show)
    assert plain not in await shown(*show, *opened)


async def shown(*words: str) -> str:
    """What the command says, whether it likes it or not."""
    process = await asyncio.create_subprocess_exec(
        str(BINARIES / "temporal"),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return out.decode()


def test_pages_of_the_embedded_server_are_known_by_every_name() -> None:
    assert Temporal().ui() == ("http://127.0.0.1:8233", "http://localhost:8233")
    assert Temporal(embedded=False).ui() == ()
    elsewhere = Temporal(embedded=False, ui_origins=("https://temporal.example",))
    assert elsewhere.ui() == ("https://temporal.example",)
