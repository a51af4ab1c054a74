"""Every method that is served, called by whoever may not: all refused, and always the same way.

The list is made of what the server serves, and what each asks of its callers of `api/access.py`, so
a new service is in here by being served. All of them share one server."""

import importlib
import pkgutil
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool

from api.__main__ import Api
from api.access import PERMISSIONS, permission
from domain.access import Role
from domain.wishes import FORCE
from protos import gen
from protos.gen.kaas.api_pb2 import DeleteClusterMsg
from protos.gen.kaas.api_pb2_grpc import ClusterStub
from tests.api.closed import Closed
from tests.api.signed import PEOPLE, bearer

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
FORBIDDEN = grpc.StatusCode.PERMISSION_DENIED


def contracts() -> Any:
    """All services of all contracts, served or not."""
    for module in pkgutil.walk_packages(gen.__path__, f"{gen.__name__}."):
        if module.name.endswith("_pb2"):
            importlib.import_module(module.name)
    return descriptor_pool.Default()


def served(api: Api) -> list[str]:
    return [
        f"{service.name}/{method.name}"
        for service in api.services
        for method in service.described.methods
    ]


async def test_every_method_says_who_may_call_it(closed: Closed) -> None:
    methods = served(closed.api)
    assert len(methods) > 60
    for method in methods:
        permission(method)


def test_a_method_without_a_row_is_told_what_to_add() -> None:
    with pytest.raises(LookupError, match=r"add a row to api/access.py, such as \"a.B/C\": READ"):
        permission("a.B/C")


def test_no_row_is_for_a_method_that_is_in_no_contract() -> None:
    pool = contracts()
    for method in PERMISSIONS:
        service, _, name = method.replace("reflection.v1.", "reflection.v1alpha.").partition("/")
        assert name in pool.FindServiceByName(service).methods_by_name, method


def test_owners_are_fields_of_the_request() -> None:
    pool = contracts()
    for method, asked in PERMISSIONS.items():
        service, _, name = method.partition("/")
        for path in asked.owners:
            described = pool.FindServiceByName(service).methods_by_name[name].input_type
            *above, last = path.split(".")
            for each in above:
                described = described.fields_by_name[each].message_type
            assert described.fields_by_name[last].type == 9, f"{method}: {path}"


async def test_nobody_gets_in_without_a_good_token(closed: Closed) -> None:
    for method in served(closed.api):
        if permission(method).roles is None:
            continue
        assert await closed.call(method, None) == (UNAUTHENTICATED, "NO_TOKEN"), method
        for how, token in closed.bad.items():
            expected = (UNAUTHENTICATED, "INVALID_TOKEN")
            assert await closed.call(method, token) == expected, (method, how)


async def test_nobody_does_what_is_not_for_their_role(closed: Closed) -> None:
    for method in served(closed.api):
        roles = permission(method).roles
        for who in PEOPLE:
            if roles is not None and who.role not in roles:
                expected = (FORBIDDEN, "FORBIDDEN")
                assert await closed.call(method, closed.tokens[who.name]) == expected, (method, who)


async def test_developers_change_nothing_of_others(closed: Closed) -> None:
    for method in served(closed.api):
        asked = permission(method)
        if asked.owners and not asked.narrows:
            assert await closed.call(method, closed.tokens["dev"]) == (FORBIDDEN, "FORBIDDEN")


async def test_whoever_may_is_let_in(closed: Closed) -> None:
    """An empty request is not answered well as a rule, but it is not shut out either."""
    refused = {UNAUTHENTICATED, FORBIDDEN, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
    for method in served(closed.api):
        asked = permission(method)
        if asked.roles is not None and not asked.narrows:
            code, _ = await closed.call(method, closed.tokens["ada"], seconds=3)
            assert Role.ADMIN in asked.roles
            assert code not in refused, method


@pytest.mark.parametrize("force", [False, True])
async def test_force_is_for_administrators(closed: Closed, force: bool) -> None:
    """Both may delete, so what differs is the wish."""
    stub, request = ClusterStub(closed.channel), DeleteClusterMsg(name="nowhere")
    wish = ((FORCE, "true"),) if force else ()
    answers = {}
    for who in ("ada", "ole"):
        given = (*bearer(closed.tokens[who]), *wish)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.DeleteCluster(request, metadata=given, timeout=20)
        answers[who] = refused.value.code()
    unknown = grpc.StatusCode.NOT_FOUND
    assert answers == {"ada": unknown, "ole": FORBIDDEN if force else unknown}
