"""Connect and gRPC-Web: the same answers and the same refusals as over gRPC, whichever way."""

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx2
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2  # type: ignore[import-untyped]

from api.access import permission
from api.browsers import Policy
from api.dialects import DIALECTS, JSON, JSON_BYTES, time_left
from domain.errors import Invalid
from protos.gen.edge import cloudlet_pb2, flavor_pb2
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.koor.api.services.auth import auth_pb2
from protos.gen.ops import access_pb2, clusters_pb2, operations_pb2
from tests.api.closed import Closed
from tests.api.signed import bearer
from tests.api.web import CODES, Answer, body, call, framed
from tests.support.load import limit
from tests.support.passwords import PASSWORD

WEB = ("grpc-web", "grpc-web+proto", "grpc-web+json", "grpc-web-text", "grpc-web-text+proto")
SINGLE = ("json", "proto", *WEB)
STREAMED = ("connect+json", "connect+proto", *WEB[1:])


def method(file: Any, name: str) -> Any:
    service, _, method = name.partition("/")
    return file.DESCRIPTOR.services_by_name[service].methods_by_name[method]


CALLS: list[tuple[str, Any, Message]] = [
    ("ada", method(kaas, "Cluster/GetVersionInformation"), kaas.GetVersionMsg()),
    ("ada", method(kaas, "Cluster/GetCluster"), kaas.GetClusterMsg(name="höllo")),
    ("ada", method(kaas, "Cluster/CreateCluster"), kaas.CreateClusterMsg(name="No Name")),
    ("vic", method(kaas, "Cluster/DeleteCluster"), kaas.DeleteClusterMsg(name="x")),
    ("", method(kaas, "Cluster/GetClusterList"), kaas.GetClusterListMsg()),
    ("ole", method(access_pb2, "Users/WhoAmI"), access_pb2.WhoAmIRequest()),
    ("ada", method(access_pb2, "Users/List"), access_pb2.ListUsersRequest()),
    ("", method(auth_pb2, "AuthService/CheckToken"), auth_pb2.CheckTokenRequest(token="x")),
    ("", method(auth_pb2, "AuthService/Login"), auth_pb2.LoginRequest(username="a b")),
    ("ada", method(operations_pb2, "Operations/Get"), operations_pb2.GetOperationRequest(name="x")),
    ("ada", method(flavor_pb2, "FlavorApi/ShowFlavor"), flavor_pb2.Flavor()),
    ("dev", method(flavor_pb2, "FlavorApi/ShowFlavor"), flavor_pb2.Flavor()),
    ("", method(flavor_pb2, "FlavorApi/ShowFlavor"), flavor_pb2.Flavor()),
    ("ada", method(clusters_pb2, "Clusters/Watch"), clusters_pb2.WatchClusterRequest(name="nope")),
]


@pytest.fixture
async def web(closed: Closed) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=closed.http, trust_env=False, timeout=20) as http:
        yield http


async def natively(closed: Closed, described: Any, request: Message, who: str) -> Answer:
    """What gRPC's own clients get."""
    path = f"/{described.containing_service.full_name}/{described.name}"
    reply = GetMessageClass(described.output_type)
    given = bearer(closed.tokens[who]) if who else None
    calling: Any = closed.channel.unary_stream(path, response_deserializer=reply.FromString)
    try:
        messages = [
            each async for each in calling(request.SerializeToString(), metadata=given, timeout=20)
        ]
    except grpc.aio.AioRpcError as error:
        packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
        status = status_pb2.Status.FromString(packed)
        details = tuple((each.type_url.rpartition("/")[2], each.value) for each in status.details)
        return Answer(CODES[status.code], [], error.details() or "", details)
    return Answer("ok", messages)


@pytest.mark.parametrize(
    ("who", "described", "request_"),
    CALLS,
    ids=[f"{who or 'nobody'}-{described.name}" for who, described, _ in CALLS],
)
async def test_every_way_leads_to_the_same_answer(
    who: str, described: Any, request_: Message, closed: Closed, web: httpx2.AsyncClient
) -> None:
    expected = await natively(closed, described, request_, who)
    given = dict(bearer(closed.tokens[who])) if who else {}
    for kind in STREAMED if described.server_streaming else SINGLE:
        found = await call(web, kind, described, request_, **given)
        assert found._replace(status=200) == expected, kind
        below = await web.post(
            f"/api/{described.containing_service.full_name}/{described.name}",
            content=body(kind, request_),
            headers={"content-type": f"application/{kind}", **given},
        )
        assert below.status_code == found.status


async def test_everything_that_is_served_is_served_here_and_closed_to_strangers(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    about_us = ("grpc.health", "grpc.reflection")
    for service in closed.api.services:
        for described in service.described.methods:
            name = f"{service.name}/{described.name}"
            if described.client_streaming or name.startswith(about_us):
                continue
            if permission(name).roles is None:
                continue
            request = GetMessageClass(described.input_type)()
            for kind in STREAMED[::2] if described.server_streaming else SINGLE[::2]:
                for given in ({}, {"authorization": f"Bearer {closed.bad['revoked']}"}):
                    found = await call(web, kind, described, request, **given)
                    assert found.code == "unauthenticated", (name, kind)


async def test_a_page_signs_in_and_out_as_those_of_koor_do(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    said = {"username": "vic", "password": PASSWORD}
    signed = await web.post("/api/services.auth.AuthService/Login", json=said)
    assert signed.status_code == 200
    token, expires = signed.json()["token"], signed.json()["expires"]["timestamp"]
    assert expires.endswith("Z")
    assert signed.json()["accountId"] == "data-control-center-user-login-vic"
    given = {"authorization": f"Bearer {token}"}
    who = await web.post("/api/windlass.v1.Users/WhoAmI", json={}, headers=given)
    assert who.json()["role"] == "VIEWER"
    out = await web.post("/api/services.auth.AuthService/Logout", json={}, headers=given)
    assert out.json() == {"success": True}
    again = await web.post("/api/windlass.v1.Users/WhoAmI", json={}, headers=given)
    assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")
    assert token not in again.text


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({}, b"{", 400, "invalid_argument"),
        ({}, b"[]", 400, "invalid_argument"),
        ({}, b'{"token": 7}', 400, "invalid_argument"),
        ({}, b'{"token": "\\ud800"}', 400, "invalid_argument"),
        ({}, b'{"\\ud800": 1}', 400, "invalid_argument"),
        ({}, b'{"unheardOf": 1}', 200, ""),
        ({}, b"", 200, ""),
        ({}, b"[" * 20_000, 400, "invalid_argument"),
        ({}, b" " * (JSON_BYTES + 1), 400, "invalid_argument"),
        ({"content-type": "application/proto"}, b"\xff\xff", 400, "invalid_argument"),
        ({"content-encoding": "gzip"}, b"{}", 501, "unimplemented"),
        ({"connect-timeout-ms": "soon"}, b"{}", 400, "invalid_argument"),
        ({"connect-timeout-ms": "0"}, b"{}", 504, "deadline_exceeded"),
        ({"authorization": "Bearer x y"}, b"{}", 200, ""),
        ({"x-request-id": ""}, b"{}", 400, "invalid_argument"),
    ],
)
async def test_what_is_not_as_it_should_be_is_refused(
    headers: dict[str, str], content: bytes, status: int, code: str, web: httpx2.AsyncClient
) -> None:
    given = {"content-type": "application/json", **headers}
    path = "/services.auth.AuthService/CheckToken"
    answer = await web.post(path, content=content, headers=given)
    assert (answer.status_code, answer.json().get("code", "")) == (status, code)


@pytest.mark.parametrize("content", [b"", b"\x00", framed(b"") + b"x", b"\x01\x00\x00\x00\x00"])
async def test_envelopes_hold_one_message(content: bytes, web: httpx2.AsyncClient) -> None:
    for kind in ("connect+proto", "grpc-web+proto"):
        answer = await web.post(
            "/edgeproto.FlavorApi/ShowFlavor",
            content=content,
            headers={"content-type": f"application/{kind}"},
        )
        assert answer.status_code == 200
        refused = b"unauthenticated" in answer.content or b"grpc-status: 16" in answer.content
        assert refused, "who is not signed in does not even learn that"


async def test_ways_that_there_are_not(web: httpx2.AsyncClient) -> None:
    path = "/services.auth.AuthService/CheckToken"
    got = await web.get(path)
    assert (got.status_code, got.headers["allow"]) == (405, "POST, OPTIONS")
    for kind in ("text/plain", "application/connect+json", "application/xml", ""):
        answer = await web.post(path, content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415
        assert "application/json" in answer.headers["accept-post"]
    for lost in ("/services.auth.AuthService/Nope", "/nope.Nope/Nope", "/api/api" + path):
        assert (await web.post(lost, json={})).status_code == 404
    assert (await web.get("/livez")).status_code == 200


async def test_pages_of_other_origins_stay_outside(web: httpx2.AsyncClient) -> None:
    path = "/services.auth.AuthService/CheckToken"
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert (await web.options(path, headers=asked)).status_code == 403
    answer = await web.post(path, json={}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    same = {"origin": str(web.base_url).rstrip("/")}
    answer = await web.post(path, json={}, headers=same)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (
        200,
        same["origin"],
    )
    flight = await web.options(path, headers={**same, "access-control-request-method": "POST"})
    assert flight.status_code == 204
    assert "authorization" in flight.headers["access-control-allow-headers"]


@pytest.mark.parametrize(
    ("origin", "host", "is_open", "allowed"),
    [
        ("", "windlass:8282", True, True),
        ("https://ui.example", "windlass:8282", True, True),
        ("https://ui.example.evil", "windlass:8282", False, False),
        ("http://windlass:8282", "windlass:8282", False, True),
        ("http://rebound.example:8282", "rebound.example:8282", True, False),
        ("http://127.0.0.1:8282", "127.0.0.1:8282", True, True),
        ("http://127.0.0.1:9999", "127.0.0.1:8282", True, False),
        ("null", "windlass:8282", False, False),
        ("http://[", "windlass:8282", False, False),
    ],
)
def test_origins_are_exact(origin: str, host: str, is_open: bool, allowed: bool) -> None:
    policy = Policy(frozenset({"https://ui.example"}), is_open)
    assert policy.allows(origin, host) is allowed


@pytest.mark.parametrize(
    ("host", "is_open", "meant"),
    [
        ("rebound.example:8282", True, False),
        ("127.0.0.1.rebound.example", True, False),
        ("[", True, False),
        ("127.0.0.1:8282", True, True),
        ("localhost:9999", True, True),
        ("[::1]:8282", True, True),
        ("172.18.0.3:8282", True, True),
        ("", True, True),
        ("ui.example", True, True),
        ("api:8282", True, True),
        ("named.example:1", True, True),
        ("Windlass.example:443", True, True),
        ("windlass.example:444", True, False),
        ("rebound.example:8282", False, True),
    ],
)
def test_a_name_that_was_made_to_lead_here_is_not_ours(
    host: str, is_open: bool, meant: bool
) -> None:
    hosts = frozenset({"api", "named.example", "windlass.example:443"})
    policy = Policy(frozenset({"https://ui.example"}), is_open, hosts)
    assert policy.is_meant(host) is meant


@pytest.mark.parametrize("is_open", [True, False])
def test_pages_of_listed_names_may_call_whatever_a_proxy_makes_of_the_name(is_open: bool) -> None:
    policy = Policy(is_open=is_open, hosts=frozenset({"windlass.example"}))
    assert policy.allows("https://windlass.example", "upstream:8282")
    assert not policy.allows("https://evil.example", "upstream:8282")
    assert not policy.allows("null", "upstream:8282")


def test_times_are_read_as_both_protocols_write_them() -> None:
    assert time_left({}) is None
    assert time_left({"connect-timeout-ms": "1500"}) == 1.5
    units = {"H": 7200, "M": 120, "S": 2, "m": 0.002, "u": 0.000002}
    for unit, seconds in units.items():
        assert time_left({"grpc-timeout": f"2{unit}"}) == seconds
    for wrong in ("S", "-1S", "1x", "123456789S", "١S"):
        with pytest.raises(Invalid):
            time_left({"grpc-timeout": wrong})


def test_a_number_beyond_all_numbers_is_the_callers_doing() -> None:
    endless = b'{"location": {"latitude": 1' + b"0" * 400 + b"}}"
    with pytest.raises(Invalid):
        JSON.read(endless, cloudlet_pb2.Cloudlet.DESCRIPTOR)


def test_each_kind_of_content_is_known_once() -> None:
    assert set(DIALECTS) == {f"application/{kind}" for kind in {*SINGLE, *STREAMED}}


async def test_a_stream_over_http_ends_with_its_token_or_its_reader(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    said = {"username": "ole", "password": PASSWORD}
    token = (await web.post("/services.auth.AuthService/Login", json=said)).json()["token"]
    given = {"authorization": f"Bearer {token}"}
    made = {"name": "streamed", "controlPlaneNodes": {}}
    created = await web.post("/cnct.kaas.api.Cluster/CreateCluster", json=made, headers=given)
    assert created.status_code == 200
    assert created.headers["trailer-windlass-operation"]
    watch = web.build_request(
        "POST",
        "/windlass.v1.Clusters/Watch",
        content=framed(json.dumps({"name": "streamed"}).encode()),
        headers={"content-type": "application/connect+json", **given},
    )
    streamed = await web.send(watch, stream=True)
    chunks = streamed.aiter_bytes()
    assert b"streamed" in await anext(chunks)
    await web.post("/services.auth.AuthService/Logout", json={}, headers=given)
    async with limit(20):
        rest = b"".join([chunk async for chunk in chunks])
    assert b'"code": "unauthenticated"' in rest
