"""The same over HTTP: Connect, gRPC-Web, and the routes of the first gateways. And what is another
developer's, by every door."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import grpc
import httpx2
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from api.access import permission
from api.edge import gateway
from api.kaas.routes import ROUTES
from api.rest import JSON
from domain.access import Role
from tests.api.caller import read
from tests.api.closed import Closed
from tests.api.signed import PEOPLE, bearer
from tests.api.web import call

OURS, OTHERS = "acme", "umbrella"
"""The developer whom `dev` is, and another."""


class Method(NamedTuple):
    name: str
    described: Any

    @property
    def streams(self) -> bool:
        return bool(self.described.server_streaming)

    @property
    def kinds(self) -> tuple[str, ...]:
        """How it is called over HTTP."""
        return ("connect+proto" if self.streams else "json", "grpc-web+proto")


def served(closed: Closed) -> list[Method]:
    """What is served at both doors, that needs a sign-in."""
    return [
        Method(f"{service.name}/{described.name}", described)
        for service in closed.api.services
        for described in service.described.methods
        if not service.name.startswith("grpc.")
        if permission(f"{service.name}/{described.name}").roles is not None
    ]


def over_http(closed: Closed) -> list[Method]:
    """Streams of requests are for gRPC alone."""
    return [method for method in served(closed) if not method.described.client_streaming]


def empty(method: Method) -> Message:
    return GetMessageClass(method.described.input_type)()


def carrying(token: str | None) -> dict[str, str]:
    return {} if token is None else dict(bearer(token))


@pytest.fixture
async def web(closed: Closed) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=closed.http, trust_env=False, timeout=20) as http:
        yield http


async def test_nobody_gets_in_without_a_good_token(closed: Closed, web: httpx2.AsyncClient) -> None:
    methods = over_http(closed)
    assert len(methods) > 80
    for method in methods:
        for how, token in {"none": None, **closed.bad}.items():
            for kind in method.kinds:
                answer = await call(web, kind, method.described, empty(method), **carrying(token))
                assert answer.code == "unauthenticated", (method.name, kind, how)
                assert not answer.messages


async def test_nobody_does_what_is_not_for_their_role(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    for method in over_http(closed):
        roles = permission(method.name).roles or ()
        for who in PEOPLE:
            if who.role in roles:
                continue
            token = carrying(closed.tokens[who.name])
            for kind in method.kinds:
                answer = await call(web, kind, method.described, empty(method), **token)
                assert answer.code == "permission_denied", (method.name, kind, who)


def owned(method: Method) -> Iterator[Message]:
    """Requests that name what is another developer's, in each of the ways there are."""
    for path in permission(method.name).owners:
        request = empty(method)
        for each in permission(method.name).owners:
            *above, name = each.split(".")
            holder: Any = request
            for part in above:
                holder = getattr(holder, part)
            setattr(holder, name, OTHERS if each == path else OURS)
        yield request


async def test_what_is_another_developers_is_refused_by_every_door(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    token, tried = closed.tokens["dev"], 0
    for method in served(closed):
        for request in owned(method):
            tried += 1
            calling: Any = closed.channel.stream_stream(f"/{method.name}")
            raw = request.SerializeToString()
            asked = calling(iter([raw]), metadata=bearer(token), timeout=20)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asked.read()
            assert read(refused.value).code is grpc.StatusCode.PERMISSION_DENIED, method.name
            assert OTHERS not in read(refused.value).message
            for kind in method.kinds:
                answer = await call(web, kind, method.described, request, **carrying(token))
                assert answer.code == "permission_denied", (method.name, kind)
                assert not answer.messages
    assert tried > 15


def routes(closed: Closed) -> Iterator[tuple[str, str, str]]:
    """Verb and path of every route of the first gateways, and the method behind it."""
    for name, route in ROUTES.items():
        yield route.verb, route.path, f"cnct.kaas.api.Cluster/{name}"
    for method in served(closed):
        service, _, name = method.name.rpartition("/")
        path = gateway.path_of(service.removeprefix("edgeproto."), name)
        if service.startswith("edgeproto.") and path:
            yield "POST", path, method.name
            if misspelt := gateway.MISSPELT.get(path):
                yield "POST", misspelt, method.name


async def test_no_route_leads_around_the_gate(closed: Closed, web: httpx2.AsyncClient) -> None:
    found = list(routes(closed))
    assert len(found) > 35
    for verb, path, name in found:
        callers = [(401, None), *((401, token) for token in closed.bad.values())]
        roles = permission(name).roles or ()
        callers += [(403, closed.tokens[who.name]) for who in PEOPLE if who.role not in roles]
        for code, token in callers:
            headers = {"content-type": JSON, **carrying(token)}
            answer = await web.request(verb, path, headers=headers)
            assert answer.status_code == code, (verb, path, token)


async def test_no_route_is_left_out(closed: Closed) -> None:
    """What is not a method behind the gate is told here, one by one; the next test has all of it
    but `/livez`, which says one word."""
    ours = {path for _, path, _ in routes(closed)}
    known = {route.path for route in closed.api._web.app.routes}  # type: ignore[attr-defined]
    unserved = {f"/{verb}/{{rest:path}}" for verb in ("create", "delete", "show", "update")}
    koors = {"/readiness", "/api/ping", "/api/config", "/api/clear-site-data"}
    assert known - ours == {"/livez", "/readyz", "/metrics", *koors, *unserved}


async def test_what_the_process_does_is_for_those_who_may_read(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    readers = permission("windlass.v1.Operations/List").roles or ()
    callers = [(401, None), *((401, token) for token in closed.bad.values())]
    callers += [(200 if who.role in readers else 403, closed.tokens[who.name]) for who in PEOPLE]
    assert {code for code, _ in callers} == {200, 401, 403}
    for code, token in callers:
        measured = await web.get("/metrics", headers=carrying(token))
        assert measured.status_code == code
        assert ("windlass_grpc_calls" in measured.text) is (code == 200)
        assert ("www-authenticate" in measured.headers) is (code == 401)
        for path in ("/readyz?verbose", "/readiness?verbose"):
            ready = await web.get(path, headers=carrying(token))
            assert ready.status_code == 200, "probes have no token"
            assert (ready.text == "ready\n") is (code != 200)
            assert ("temporal" in ready.text) is (code == 200)
        assert (await web.get("/livez", headers=carrying(token))).text == "ok\n"


async def test_a_developer_is_shown_what_is_theirs_by_routes_too(
    closed: Closed, web: httpx2.AsyncClient
) -> None:
    """A filter that says nothing is narrowed, and one that names another is refused."""
    dev = next(who for who in PEOPLE if who.role is Role.DEVELOPER)
    headers = carrying(closed.tokens[dev.name])
    others = {"key": {"developer_key": {"name": OTHERS}}}
    assert (await web.post("/show/app", json=others, headers=headers)).status_code == 403
    assert (await web.post("/show/app", json={}, headers=headers)).status_code == 200
    assert (await web.post("/create/app", json=others, headers=headers)).status_code == 403
