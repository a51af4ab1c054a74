"""Methods over HTTP: every call passes the door, whatever its method, and errors are heard."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx2
import pytest
from structlog.testing import capture_logs

from api.asking import Context, asked, running
from api.door import Door, Service
from api.kaas.routes import ROUTES
from api.meters import Meters
from api.rest import BODY_BYTES, STATUSES, resources
from api.web import HEADER_BYTES, Web
from domain import errors
from protos.gen.kaas import api_pb2 as pb
from tests.support.load import limit

SERVICE = pb.DESCRIPTOR.services_by_name["Cluster"]
CLUSTER = "/api/v1/cluster"

HEARD = {
    "Invalid": 400,
    "NotFound": 404,
    "AlreadyExists": 409,
    "Conflict": 400,
    "Exhausted": 429,
    "Unsupported": 501,
    "Unauthenticated": 401,
    "Forbidden": 403,
    "Failed": 409,
    "Overdue": 504,
    "Unavailable": 503,
}
"""What each kind of error is over HTTP."""


class Moody:
    """Serves every method alike: as its caller says in the request's name."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, method: str) -> Any:
        return self._answer

    async def _answer(self, request: Any, _context: Context) -> pb.GetClusterReply:
        if request.name in errors.KINDS:
            raise errors.KINDS[request.name]("no", do="do this")
        if request.name == "bug":
            raise ZeroDivisionError("a secret: hunter2")
        if request.name == "hang":
            self.begun.set()
            await self.go_on.wait()
        call = running()
        told = pb.ClusterDetailItem(name=call.request_id, status_message=asked(request).key)
        return pb.GetClusterReply(ok=True, cluster=told)


@pytest.fixture
def moody() -> Moody:
    return Moody()


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def door(meters: Meters) -> Door:
    return Door(meters, unary_seconds=0.3)


@pytest.fixture
async def web(door: Door, meters: Meters, moody: Moody) -> AsyncIterator[Web]:
    web = Web("127.0.0.1:0", [], meters, resources(door, Service(SERVICE, moody), ROUTES))
    yield web
    await web.stop()


@pytest.fixture
async def address(web: Web) -> str:
    return await web.start()


@pytest.fixture
async def http(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(
        base_url=f"http://{address}", trust_env=False, timeout=20
    ) as http:
        yield http


async def get(http: httpx2.AsyncClient, name: str, **more: Any) -> httpx2.Response:
    return await http.get(CLUSTER, params={"name": name}, **more)


def reason(answer: httpx2.Response) -> str:
    """The reason of a refusal, which must be whole."""
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert document.keys() == {"code", "message", "details"}
    info = document["details"][0]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["domain"] == "windlass"
    return str(info["reason"])


def test_every_method_has_a_route_of_its_own() -> None:
    assert ROUTES.keys() == {method.name for method in SERVICE.methods}
    assert len(set(ROUTES.values())) == len(ROUTES)


def test_what_is_asked_for_in_a_query_is_made_of_texts() -> None:
    for method in SERVICE.methods:
        if not ROUTES[method.name].has_body:
            assert {field.type for field in method.input_type.fields} <= {
                pb.GetClusterMsg.DESCRIPTOR.fields_by_name["name"].type
            }, method.name


def test_every_code_has_a_status() -> None:
    assert STATUSES.keys() == set(grpc.StatusCode)


def test_every_kind_of_error_is_listed_here() -> None:
    assert HEARD.keys() == errors.KINDS.keys()


@pytest.mark.parametrize("kind", HEARD)
async def test_an_error_is_heard_as_what_it_is(kind: str, http: httpx2.AsyncClient) -> None:
    answer = await get(http, kind)
    assert answer.status_code == HEARD[kind]
    assert reason(answer) == errors.KINDS[kind].usual_reason
    assert answer.json()["message"] == "no"
    assert answer.json()["details"][0]["metadata"] == {"do": "do this"}
    assert ("retry-after" in answer.headers) is (kind == "Unavailable")


async def test_ids_come_and_go_in_headers(http: httpx2.AsyncClient) -> None:
    answer = await get(http, "echo", headers={"X-Request-Id": "mine"})
    assert answer.headers["x-request-id"] == "mine"
    assert answer.json()["cluster"] == {"name": "mine", "status_message": "mine"}
    answer = await get(http, "echo", headers={"x-request-id": "a", "idempotency-key": "b"})
    assert answer.json()["cluster"] == {"name": "a", "status_message": "b"}
    answer = await get(http, "echo")
    assert answer.json()["cluster"] == {"name": answer.headers["x-request-id"]}
    assert len(answer.headers["x-request-id"]) == 16
    assert answer.headers["cache-control"] == "no-store"
    answer = await get(http, "Conflict", headers={"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == "mine"


@pytest.mark.parametrize("key", ["", "x" * 129, b"\xe9"])
async def test_an_id_must_be_one(key: str | bytes, http: httpx2.AsyncClient) -> None:
    answer = await get(http, "echo", headers={"x-request-id": key})
    assert (answer.status_code, reason(answer)) == (400, "INVALID_REQUEST_ID")
    assert len(answer.headers["x-request-id"]) == 16


async def test_a_bug_is_told_without_its_trace(http: httpx2.AsyncClient) -> None:
    with capture_logs() as lines:
        answer = await get(http, "bug", headers={"x-request-id": "mine"})
    assert (answer.status_code, reason(answer)) == (500, "INTERNAL")
    assert answer.json()["message"] == "internal error; the log has it under request mine"
    assert "hunter2" not in answer.text
    assert [line["log_level"] for line in lines] == ["error"]


async def test_a_call_that_takes_too_long_is_overdue(http: httpx2.AsyncClient) -> None:
    answer = await get(http, "hang")
    assert (answer.status_code, reason(answer)) == (504, "OVERDUE")


async def begun(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A call whose body has not come, and for which the server waits."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = ("POST /api/v1/cluster HTTP/1.1", "host: x", "content-length: 9", "expect: 100-continue")
    writer.write("\r\n".join((*head, "", "")).encode())
    async with limit(10):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    return reader, writer


async def test_a_body_that_does_not_come_is_overdue_too(address: str) -> None:
    reader, writer = await begun(address)
    async with limit(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 504 ")
    writer.close()


async def test_who_hangs_up_within_the_body_is_counted_and_is_no_bug(
    address: str, meters: Meters, web: Web
) -> None:
    with capture_logs() as lines:
        _, writer = await begun(address)
        writer.close()
        await web.stop()
    assert 'code="INVALID_ARGUMENT",method="CreateCluster"' in meters.text().decode()
    assert not [line for line in lines if line["log_level"] == "error"]


async def test_going_down_lets_calls_end_and_new_ones_go_elsewhere(
    http: httpx2.AsyncClient, moody: Moody, door: Door, web: Web
) -> None:
    call = asyncio.create_task(get(http, "hang"))
    await moody.begun.wait()
    door.close()
    answer = await get(http, "echo")
    assert (answer.status_code, reason(answer)) == (503, "SERVER_STOPPING")
    stopping = asyncio.create_task(web.stop())
    moody.go_on.set()
    assert (await call).status_code == 200
    await stopping


async def test_calls_are_counted_with_those_over_grpc(
    http: httpx2.AsyncClient, meters: Meters
) -> None:
    await get(http, "echo")
    await get(http, "Conflict")
    text = meters.text().decode()
    counted = 'windlass_grpc_calls_total{code="%s",method="GetCluster",service="%s"} 1.0'
    for code in ("OK", "FAILED_PRECONDITION"):
        assert counted % (code, SERVICE.full_name) in text


@pytest.mark.parametrize("path", ["/api/v1/clusters", "/api/v1/cluster/", "/api", "/", "/nothing"])
async def test_an_unknown_route_is_not_found(path: str, http: httpx2.AsyncClient) -> None:
    answer = await http.get(path)
    assert (answer.status_code, reason(answer)) == (404, "NO_SUCH_ROUTE")


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("PATCH", CLUSTER, {"POST", "GET", "DELETE"}),
        ("OPTIONS", CLUSTER, {"POST", "GET", "DELETE"}),
        ("GET", f"{CLUSTER}/pool", {"POST", "PUT", "DELETE"}),
        ("POST", f"{CLUSTER}/list", {"GET"}),
        ("POST", "/livez", {"GET", "HEAD"}),
    ],
)
async def test_a_verb_that_a_path_does_not_know_is_not_allowed(
    verb: str, path: str, allowed: set[str], http: httpx2.AsyncClient
) -> None:
    answer = await http.request(verb, path)
    assert (answer.status_code, reason(answer)) == (405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        ({"content": b"{}"}, 415, "CONTENT_TYPE_NOT_JSON"),
        ({"data": {"name": "x"}}, 415, "CONTENT_TYPE_NOT_JSON"),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, None),
        ({"json": "x" * BODY_BYTES}, 413, "REQUEST_TOO_LARGE"),
        ({"json": {"nmae": "x"}}, 400, "MALFORMED_REQUEST"),
        ({"json": [], "params": {"name": "x"}}, 400, "MALFORMED_REQUEST"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, None),
    ],
)
async def test_a_body_must_be_what_is_asked_for(
    sent: dict[str, Any], status: int, why: str | None, http: httpx2.AsyncClient
) -> None:
    answer = await http.post(CLUSTER, **sent)
    assert answer.status_code == status
    assert why in {None, reason(answer)}


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
async def test_a_body_says_that_it_is_json(kind: str, http: httpx2.AsyncClient) -> None:
    answer = await http.post(CLUSTER, content=b'{"name": "echo"}', headers={"content-type": kind})
    assert answer.status_code == 200


async def test_headers_have_a_limit(address: str) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /livez HTTP/1.1\r\nx-long: " + b"x" * HEADER_BYTES)
    async with limit(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    writer.close()
