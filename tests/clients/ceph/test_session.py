import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from domain.errors import (
    AlreadyExists,
    Conflict,
    DomainError,
    Failed,
    Forbidden,
    NotFound,
    Unavailable,
)
from sim.ceph.dashboard import MOST_FAILURES
from sim.faults import Fault, How
from tests.clients.ceph.manager import NOWHERE, Manager, Reply, Scripted, served

SUMMARY = "ceph GET summary"
SIGN_IN = "ceph POST auth"


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    async with Manager().serve() as manager:
        yield manager


async def test_many_callers_sign_in_once(manager: Manager) -> None:
    session = manager.session()
    await asyncio.gather(*(session.get("summary") for _ in range(50)))
    assert (manager.heard(SUMMARY), manager.heard(SIGN_IN)) == (50, 1)
    await session.close()


async def test_a_token_that_was_ended_is_renewed_once(manager: Manager) -> None:
    session = manager.session()
    await session.get("summary")
    manager.ceph.end_sessions()
    await asyncio.gather(*(session.get("summary") for _ in range(10)))
    assert manager.heard(SIGN_IN) == 2
    await session.close()


async def test_a_refused_password_is_not_offered_again(manager: Manager) -> None:
    """Ten refusals would lock the account, for its owner too."""
    right, manager.password = manager.password, "wrong"
    session = manager.session()
    for _ in range(2 * MOST_FAILURES):
        with pytest.raises(Failed) as caught:
            await session.get("summary")
        assert caught.value.reason == "CEPH_CREDENTIALS"
        assert "wrong" not in caught.value.message
    assert manager.heard(SIGN_IN) == 1
    manager.password = right
    await session.get("summary")
    await session.close()


async def test_the_version_that_is_named_is_asked_for_once() -> None:
    other = {"detail": "Incorrect version: endpoint is '2.0', client requested '1.0'"}
    script = Scripted(summary=[Reply(415, other), Reply(200, {}), Reply(200, {})])
    async with script.session() as session:
        await session.get("summary")
        await session.get("summary")
    first, *others = script.accepted
    assert first == "application/vnd.ceph.api.v1.0+json"
    assert others == ["application/vnd.ceph.api.v2.0+json"] * 2


async def test_the_next_manager_is_asked_when_one_is_away(manager: Manager) -> None:
    async def sent_on(_: web.Request) -> web.Response:
        raise web.HTTPSeeOther(manager.url)

    async with served(web.route("*", "/api/{below:.*}", sent_on)) as standby:
        session = manager.session(NOWHERE, standby)
        await session.get("summary")
        await session.get("summary")
        assert manager.heard(SUMMARY) == 2
        await session.close()


async def test_without_an_answer_it_is_unavailable(manager: Manager) -> None:
    session = manager.session(timeout_seconds=0.3)
    await session.get("summary")
    for how in (How.HANG, How.DROP, How.HALF, How.REFUSE):
        manager.faults.add(Fault(where=SUMMARY, how=how))
        with pytest.raises(Unavailable) as caught:
            await session.get("summary")
        assert caught.value.reason == "CEPH_DOWN"
    await session.get("summary")
    await session.close()


GONE = {"status": "404 Not Found", "detail": "The path '/api/crash' was not found."}
RECORDED = [
    (400, {"detail": "[errno -1] pool deletion is disabled", "code": "1"}, Conflict),
    (400, {"detail": "[errno 2] RADOS object not found", "code": "2"}, NotFound),
    (400, {"detail": "access denied", "code": "13"}, Forbidden),
    (400, {"detail": "[errno -16] pool is in use by CephFS", "code": "16"}, Unavailable),
    (400, {"detail": "[errno 17] RBD image already exists", "code": "17"}, AlreadyExists),
    (400, {"detail": "[errno -22] cannot change to type erasure", "code": "22"}, Conflict),
    (400, {"detail": "Namespace already exists", "code": "namespace_already_exists"}, Failed),
    (400, {"status": "400 Bad Request", "detail": "Invalid JSON document"}, Failed),
    (403, {"status": "403 Forbidden", "detail": "You don't have permissions"}, Failed),
    (404, GONE, NotFound),
    (415, {"detail": "Unable to find version in request header"}, Failed),
    (500, {"detail": "The server encountered an unexpected condition"}, Unavailable),
    (503, {"detail": "Orchestrator is unavailable", "code": "x"}, Unavailable),
    (502, b"<html>Bad gateway</html>", Unavailable),
    (418, b"teapot", Failed),
    (200, b"<html>Welcome</html>", Unavailable),
]


async def test_every_refusal_is_ours() -> None:
    replies = [Reply(status, said) for status, said, _ in RECORDED]
    async with Scripted(pool=replies).session() as session:
        for status, _, kind in RECORDED:
            with pytest.raises(DomainError) as caught:
                await session.get("pool")
            assert type(caught.value) is kind, status
            assert caught.value.reason.startswith("CEPH_")
            assert "GET pool" in caught.value.message


CREATED = {"name": "pool/create", "metadata": {"pool_name": "p"}}


def _task(begun: str, *, success: bool, **more: object) -> dict[str, object]:
    return {**CREATED, "begin_time": begun, "success": success, "ret_value": begun, **more}


async def test_a_change_that_goes_on_is_waited_for() -> None:
    earlier, now = _task("1", success=False), _task("2", success=True)
    tasks = [
        Reply(200, {"executing_tasks": [CREATED], "finished_tasks": [earlier]}),
        Reply(200, {"executing_tasks": [], "finished_tasks": [now, earlier]}),
        Reply(
            200,
            {
                "executing_tasks": [],
                "finished_tasks": [
                    _task("3", success=False, exception={"code": "16", "detail": "busy"})
                ],
            },
        ),
        Reply(200, {}),
    ]
    script = Scripted(pool=[Reply(202, CREATED)] * 3, task=tasks)
    async with script.session() as session:
        assert await session.ask("POST", "pool", {}) == "2"
        with pytest.raises(Unavailable, match="gave up on POST pool: busy"):
            await session.ask("POST", "pool", {})
        with pytest.raises(Unavailable, match="not a task"):
            await session.ask("POST", "pool", {})
