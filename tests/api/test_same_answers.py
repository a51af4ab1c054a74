"""Every method that is served, over gRPC itself and by Connect and gRPC-Web: the same answer, and
the same refusal, to requests made from its description."""

import random
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeAlias

import grpc.aio
import httpx2
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from tests.api.closed import Closed
from tests.api.closed import closed as served_closed
from tests.api.signed import bearer
from tests.api.test_closed_web import Method
from tests.api.test_strange_requests import filled
from tests.api.web import CODES, Answer, call
from tests.support.passwords import PASSWORD

Document: TypeAlias = Any
Path: TypeAlias = tuple[str, ...]

ABOUT_US = ("grpc.health.", "grpc.reflection.")
"""Served over gRPC alone."""
SINGLE = ("json", "proto", "grpc-web+proto")
STREAMED = ("connect+json", "connect+proto", "grpc-web+proto")

SINGLE_SECONDS = 15.0
STREAM_SECONDS = (0.4, 3.0, 15.0)
"""Some streams have nothing to say, and say it for long. Who is not done on a busy machine is given
more."""
OVER = "deadline_exceeded"
"""How those end, in words of whoever notices first."""

DETAILS: dict[str, type[Message]] = {
    each.DESCRIPTOR.full_name: each
    for each in (
        error_details_pb2.ErrorInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
    )
}
NATURAL = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(Z|[+-]\d\d:\d\d)"), "a time"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "an id"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "a request"),
)
"""What differs from call to call by its nature, and what stands for it."""


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Closed]:
    """One of our own: much of what is asked for is done."""
    async with served_closed(tmp_path_factory.mktemp("same")) as closed:
        yield closed


def methods(closed: Closed) -> list[Method]:
    return [
        Method(f"{service.name}/{described.name}", described)
        for service in closed.api.services
        if not service.name.startswith(ABOUT_US)
        for described in service.described.methods
        if not described.client_streaming
    ]


def requests(method: Method) -> Iterator[Message]:
    """An empty one, and one that JSON can say with strange things in it."""
    kind = GetMessageClass(method.described.input_type)
    yield kind()
    for seed in range(50):
        chance = random.Random(f"{method.name} {seed}")  # noqa: S311 - the same every time
        message = filled(method.described.input_type, chance)
        try:
            again = json_format.Parse(json_format.MessageToJson(message), kind())
        except (json_format.Error, ValueError, TypeError, OverflowError):
            continue
        whole = message.SerializeToString(deterministic=True)
        if whole and again.SerializeToString(deterministic=True) == whole:
            yield message
            return


async def natively(
    closed: Closed, method: Method, request: Message, token: str, seconds: float
) -> Answer:
    reply = GetMessageClass(method.described.output_type)
    calling: Any = closed.channel.unary_stream(
        f"/{method.name}", response_deserializer=reply.FromString
    )
    messages: list[Message] = []
    try:
        asked = calling(request.SerializeToString(), metadata=bearer(token), timeout=seconds)
        async for message in asked:
            messages.append(message)  # noqa: PERF401 - what came before an error counts
    except grpc.aio.AioRpcError as error:
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        status = status_pb2.Status.FromString(packed)
        details = tuple((each.type_url.rpartition("/")[2], each.value) for each in status.details)
        return Answer(CODES[error.code().value[0]], messages, error.details() or "", details)
    return Answer("ok", messages)


async def over_http(
    http: httpx2.AsyncClient,
    kind: str,
    method: Method,
    request: Message,
    token: str,
    seconds: float,
) -> Answer:
    millis = f"{seconds * 1000:.0f}"
    limits = {"grpc-timeout": f"{millis}m"} if "web" in kind else {"connect-timeout-ms": millis}
    given = dict(bearer(token)) | limits
    return await call(http, kind, method.described, request, **given)


def told(answer: Answer) -> Document:
    """An answer as a document, without what differs by its nature."""
    if answer.code == OVER:
        answer = answer._replace(message="", details=())
    details = [
        {"type": kind, **json_format.MessageToDict(DETAILS[kind].FromString(raw))}
        for kind, raw in answer.details
    ]
    messages = [json_format.MessageToDict(each) for each in answer.messages]
    return plain({**answer._asdict(), "details": details, "messages": messages, "status": 0})


def plain(it: Document) -> Document:
    if isinstance(it, dict):
        return {key: plain(each) for key, each in it.items()}
    if isinstance(it, list):
        return [plain(each) for each in it]
    if isinstance(it, str):
        for known, stands in NATURAL:
            it = known.sub(stands, it)
    return it


def differing(one: Document, other: Document, path: Path = ()) -> set[Path]:
    """Where two answers to the same question are not the same."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {
            found for key in one for found in differing(one[key], other[key], (*path, str(key)))
        }
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return {found for each in pairs for found in differing(*each, (*path, "*"))}
    return set() if one == other or (one != one and other != other) else {path}


def beginnings(answers: list[Document]) -> list[Document]:
    """Of streams that were cut off: so many messages as all had come to by then."""
    if any(each["code"] != OVER for each in answers):
        return answers
    shortest = min(len(each["messages"]) for each in answers)
    return [{**each, "messages": each["messages"][:shortest]} for each in answers]


async def compared(
    server: Closed,
    http: httpx2.AsyncClient,
    method: Method,
    request: Message,
    token: str,
    seconds: float,
) -> list[Any]:
    """What differs, by the way it was asked. What two native calls do not agree on others need not,
    but for the code."""
    natives = [await natively(server, method, request, token, seconds) for _ in range(2)]
    kinds = STREAMED if method.streams else SINGLE
    ways = [await over_http(http, kind, method, request, token, seconds) for kind in kinds]
    first, second, *others = beginnings(list(map(told, (*natives, *ways))))
    unsteady = differing(first, second)
    wrong = [(method.name, "twice", first, second)] if ("code",) in unsteady else []
    for kind, other in zip(kinds, others, strict=True):
        found = {
            path
            for path in differing(first, other)
            if not any(path[: len(each)] == each for each in unsteady)
        }
        if found:
            wrong.append((method.name, kind, first, other))
    return wrong


async def test_every_method_answers_the_same_whichever_way_it_is_called(server: Closed) -> None:
    """The first call settles what there is to do: what is made then is there for all others."""
    known, asked, wrong = methods(server), 0, []
    assert len(known) > 120
    async with httpx2.AsyncClient(base_url=server.http, trust_env=False, timeout=30) as http:
        for method in known:
            token = server.tokens["ada"]
            if method.name.endswith("/Logout"):  # it ends the token that it carries
                said = {"username": "ada", "password": PASSWORD}
                signed = await http.post("/services.auth.AuthService/Login", json=said)
                token = signed.json()["token"]
            times = STREAM_SECONDS if method.streams else (SINGLE_SECONDS,)
            for request in requests(method):
                asked += 1
                await natively(server, method, request, token, times[0])
                for seconds in times:
                    found = await compared(server, http, method, request, token, seconds)
                    if not found:
                        break
                wrong += found
    assert not wrong, f"{len(wrong)} differ: {wrong[:3]}"
    assert asked > 1.8 * len(known), "most can be asked in two ways"
