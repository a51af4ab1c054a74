"""Signing in and out, and what tokens are good for."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import grpc
import httpx2
import pytest

from api.gate import TOKEN_BYTES
from domain.access import FREE_TRIES
from protos.gen.edge import app_pb2, developer_pb2
from protos.gen.edge.app_pb2_grpc import AppApiStub
from protos.gen.kaas import api_pb2 as kaas
from protos.gen.koor.api.services.auth import auth_pb2 as pb
from protos.gen.ops import access_pb2 as ours
from protos.gen.ops import clusters_pb2, operations_pb2
from settings import Auth, Settings
from store.access_rows import AttemptRow
from store.engine import Database
from store.rows import now
from store.tokens import Tokens, digest_of
from tests.api.caller import Caller, refused, under, wanted
from tests.api.signed import Entry, bearer, counted, people
from tests.support.load import grown, limit
from tests.support.passwords import BETTER, PASSWORD, WRONG


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"auth": Auth(mode="required")})


@pytest.fixture
async def tokens(database: Database) -> dict[str, str]:
    return await people(database)


@pytest.fixture
def entry(caller: Caller) -> Entry:
    return Entry(caller.channel)


async def signed_in(entry: Entry, name: str) -> str:
    asked = pb.LoginRequest(username=name, password=PASSWORD)
    return (await entry.auth.Login(asked, timeout=20)).token


async def test_a_password_is_good_for_a_token_until_it_is_given_back(
    entry: Entry, tokens: dict[str, str], caller: Caller
) -> None:
    reply = await entry.auth.Login(pb.LoginRequest(username="vic", password=PASSWORD), timeout=20)
    assert reply.account_id == "data-control-center-user-login-vic"
    assert reply.expires.timestamp.ToDatetime().timestamp() > now().timestamp() - 3600 * 24
    for said in (f"Bearer {reply.token}", f"bEARER  {reply.token}", reply.token):
        who = await entry.users.WhoAmI(
            ours.WhoAmIRequest(), metadata=(("authorization", said),), timeout=20
        )
        assert (who.name, who.role) == ("vic", ours.VIEWER)

    async def good() -> bool:
        asked = pb.CheckTokenRequest(token=reply.token)
        return (await entry.auth.CheckToken(asked, timeout=20)).success

    assert await good()
    for _ in range(2):  # again is success
        out = entry.auth.Logout(pb.LogoutRequest(), metadata=bearer(reply.token), timeout=20)
        assert (await out).success
    assert not await good()
    refusal = await refused(
        entry.users.WhoAmI(ours.WhoAmIRequest(), metadata=bearer(reply.token), timeout=20)
    )
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
    assert refusal.message.startswith("invalid token")
    for token in ("", "x" * (TOKEN_BYTES + 1), tokens["vic"] + "x"):
        asked = pb.CheckTokenRequest(token=token)
        assert not (await entry.auth.CheckToken(asked, timeout=20)).success
    nobody = await refused(caller.cluster.GetCluster(kaas.GetClusterMsg(name="x"), timeout=20))
    assert (nobody.code, nobody.reason) == (grpc.StatusCode.UNAUTHENTICATED, "NO_TOKEN")
    assert nobody.message.startswith("no token")


async def test_whatever_is_wrong_sounds_the_same_and_guessing_takes_time(
    entry: Entry, tokens: dict[str, str], database: Database
) -> None:
    admin = bearer(tokens["ada"])
    off = ours.SetDisabledRequest(name="dev", disabled=True)
    assert (await entry.users.SetDisabled(off, metadata=admin, timeout=20)).disabled
    told = set()
    for name, password in (("vic", WRONG), ("nobody", PASSWORD), ("dev", PASSWORD)):
        asked = pb.LoginRequest(username=name, password=password)
        refusal = await refused(entry.auth.Login(asked, timeout=20))
        told.add((refusal.code, refusal.message, refusal.reason, tuple(refusal.facts.items())))
    assert [each[0] for each in told] == [grpc.StatusCode.UNAUTHENTICATED]
    for asked, field in (
        (pb.LoginRequest(username="vic"), "password"),
        (pb.LoginRequest(username="a b", password=PASSWORD), "username"),
    ):
        refusal = await refused(entry.auth.Login(asked, timeout=20))
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])

    wrong = pb.LoginRequest(username="vic", password=WRONG)
    for _ in range(FREE_TRIES - 1):
        await refused(entry.auth.Login(wrong, timeout=20))
    await counted(database, AttemptRow.failures + 5)  # so that a slow machine is no help
    right = pb.LoginRequest(username="vic", password=PASSWORD)
    throttled = await refused(entry.auth.Login(right, timeout=20))
    assert throttled.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (throttled.reason, throttled.retry) == ("SIGN_IN_THROTTLED", True)
    await counted(database, 0)
    assert await signed_in(entry, "vic")


async def test_people_and_programs_get_what_is_theirs(entry: Entry, tokens: dict[str, str]) -> None:
    admin, viewer = bearer(tokens["ada"]), bearer(tokens["vic"])
    add = ours.AddUserRequest(name="new", role=ours.OPERATOR, password=PASSWORD)
    forbidden = await refused(entry.users.Add(add, metadata=viewer, timeout=20))
    assert forbidden.code is grpc.StatusCode.PERMISSION_DENIED
    assert (await entry.users.Add(add, metadata=admin, timeout=20)).role == ours.OPERATOR
    for wrong, field in (
        (ours.AddUserRequest(name="x", role=ours.VIEWER), "username"),
        (ours.AddUserRequest(name="xyz"), "role"),
        (ours.AddUserRequest(name="xyz", role=ours.DEVELOPER), "developer"),
        (ours.AddUserRequest(name="xyz", role=ours.VIEWER, password="x"), "password"),
    ):
        invalid = await refused(entry.users.Add(wrong, metadata=admin, timeout=20))
        assert invalid.fields == [field]
    listed = await entry.users.List(ours.ListUsersRequest(), metadata=admin, timeout=20)
    assert [user.name for user in listed.users][-2:] == ["ole", "vic"]

    made = await entry.tokens.Create(
        ours.CreateTokenRequest(label="ci"), metadata=viewer, timeout=20
    )
    anothers = ours.CreateTokenRequest(user="ada")
    assert (await refused(entry.tokens.Create(anothers, metadata=viewer, timeout=20))).code is (
        grpc.StatusCode.PERMISSION_DENIED
    )
    mine = await entry.tokens.List(ours.ListTokensRequest(), metadata=viewer, timeout=20)
    assert {token.user for token in mine.tokens} == {"vic"}
    everybodys = await entry.tokens.List(ours.ListTokensRequest(), metadata=admin, timeout=20)
    assert len(everybodys.tokens) == len(tokens) + 1
    await entry.tokens.Revoke(
        ours.RevokeTokenRequest(id=made.token.id), metadata=viewer, timeout=20
    )
    ended = entry.users.WhoAmI(ours.WhoAmIRequest(), metadata=bearer(made.secret), timeout=20)
    assert (await refused(ended)).reason == "INVALID_TOKEN"

    changed = ours.SetPasswordRequest(password=BETTER, old_password=WRONG)
    unproved = await refused(entry.users.SetPassword(changed, metadata=viewer, timeout=20))
    assert unproved.reason == "SIGN_IN_FAILED"
    before = await signed_in(entry, "vic")
    changed.old_password = PASSWORD
    await entry.users.SetPassword(changed, metadata=viewer, timeout=20)
    asked = pb.CheckTokenRequest(token=before)
    assert not (await entry.auth.CheckToken(asked, timeout=20)).success
    await entry.users.SetPassword(
        ours.SetPasswordRequest(name="vic", password=PASSWORD), metadata=admin, timeout=20
    )
    assert await signed_in(entry, "vic")


async def test_a_developer_has_what_is_theirs_and_sees_no_other(
    caller: Caller, tokens: dict[str, str]
) -> None:
    apps = AppApiStub(caller.channel)
    dev, admin = bearer(tokens["dev"]), bearer(tokens["ada"])

    def app(developer: str, name: str = "") -> app_pb2.App:
        key = developer_pb2.DeveloperKey(name=developer)
        return app_pb2.App(key=app_pb2.AppKey(developer_key=key, name=name, version="1"))

    for developer in ("other", ""):
        for change in (apps.CreateApp, apps.UpdateApp, apps.DeleteApp):
            refusal = await refused(change(app(developer, "thing"), metadata=dev, timeout=20))
            assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    own = await refused(apps.DeleteApp(app("acme", "thing"), metadata=dev, timeout=20))
    assert own.code is not grpc.StatusCode.PERMISSION_DENIED

    async def shown(filtered: app_pb2.App, who: Sequence[tuple[str, str]]) -> list[app_pb2.App]:
        return [each async for each in apps.ShowApp(filtered, metadata=who, timeout=20)]

    assert await shown(app_pb2.App(), dev) == []
    assert await shown(app_pb2.App(), admin) == []
    refusal = await refused(shown(app("other"), dev))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED


async def test_a_stream_ends_with_the_token_that_opened_it(
    entry: Entry, caller: Caller, tokens: dict[str, str]
) -> None:
    made = await caller.cluster.CreateCluster(
        wanted("hello"), metadata=(*under(), *bearer(tokens["ole"])), timeout=20
    )
    assert made.ok
    token = await signed_in(entry, "vic")
    watched = caller.views.Watch(
        clusters_pb2.WatchClusterRequest(name="hello"), metadata=bearer(token), timeout=60
    )
    assert await watched.read()
    kept = caller.views.Watch(
        clusters_pb2.WatchClusterRequest(name="hello"), metadata=bearer(tokens["vic"]), timeout=60
    )
    assert await kept.read()
    await entry.auth.Logout(pb.LogoutRequest(), metadata=bearer(token), timeout=20)

    async def to_its_end() -> None:
        while await watched.read():
            pass

    assert (await refused(asyncio.wait_for(to_its_end(), grown(20)))).reason == "INVALID_TOKEN"
    assert not kept.done()
    kept.cancel()


class TestOfShortIdleness:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        short = Auth(mode="required", token_idle=timedelta(seconds=3))
        return settings.model_copy(update={"auth": short})

    async def test_a_token_does_not_lie_unused_while_a_stream_of_it_is_open(
        self, entry: Entry, caller: Caller, tokens: dict[str, str], database: Database
    ) -> None:
        await caller.cluster.CreateCluster(
            wanted("hello"), metadata=(*under(), *bearer(tokens["ole"])), timeout=20
        )
        token = await signed_in(entry, "vic")
        watched = caller.views.Watch(
            clusters_pb2.WatchClusterRequest(name="hello"), metadata=bearer(token), timeout=60
        )
        assert await watched.read()
        first = await Tokens(database).session(digest_of(token))
        assert first is not None
        assert first.expires is not None

        async def good() -> bool:
            asked = pb.CheckTokenRequest(token=token)  # which is no use of it
            return (await entry.auth.CheckToken(asked, timeout=20)).success

        async with limit(30):
            while now() < first.expires + timedelta(seconds=1):  # by a clock that is not ours
                assert await good()
        assert not watched.done()
        watched.cancel()
        async with limit(30):
            while await good():
                pass


async def test_strangers_leave_a_line_where_it_matters_and_only_once(
    entry: Entry, tokens: dict[str, str], database: Database
) -> None:
    token = await signed_in(entry, "vic")
    for _ in range(3):
        await entry.auth.Logout(pb.LogoutRequest(), metadata=bearer(token), timeout=20)
    await refused(entry.auth.Logout(pb.LogoutRequest(), metadata=bearer("made up"), timeout=20))
    wrong = pb.LoginRequest(username="vic", password=WRONG)
    for _ in range(FREE_TRIES):
        await refused(entry.auth.Login(wrong, timeout=20))
    await counted(database, AttemptRow.failures + 5)  # so that a slow machine is no help
    for _ in range(3):
        assert (await refused(entry.auth.Login(wrong, timeout=20))).reason == "SIGN_IN_THROTTLED"
    listed = await entry.audit.List(
        ours.ListAuditRequest(), metadata=bearer(tokens["ada"]), timeout=20
    )
    seen = [
        (line.user, line.method.rpartition("/")[2], line.subject, line.reason or line.code)
        for line in listed.lines
    ]
    assert seen == [
        ("anonymous", "Login", "vic", "OK"),
        ("vic", "Logout", "", "OK"),
        *[("anonymous", "Login", "vic", "SIGN_IN_FAILED")] * FREE_TRIES,
        ("anonymous", "Login", "vic", "SIGN_IN_THROTTLED"),
    ]


async def test_whoever_changes_something_is_written_down(
    entry: Entry, caller: Caller, tokens: dict[str, str], http: httpx2.AsyncClient
) -> None:
    token = await signed_in(entry, "ole")
    made = caller.cluster.CreateCluster(
        wanted("hello"), metadata=(*under("my-key"), *bearer(token)), timeout=20
    )
    await made
    operation = str(dict(await made.trailing_metadata())["windlass-operation"])
    await refused(
        caller.cluster.CreateCluster(
            wanted("hello"), metadata=(*under(), *bearer(tokens["vic"])), timeout=20
        )
    )
    await refused(caller.cluster.CreateCluster(wanted("strange"), metadata=under(), timeout=20))
    await refused(entry.auth.Login(pb.LoginRequest(username="ole", password=WRONG), timeout=20))
    await caller.operations.List(
        operations_pb2.ListOperationsRequest(), metadata=bearer(token), timeout=20
    )
    admin = bearer(tokens["ada"])
    listed = await entry.audit.List(ours.ListAuditRequest(), metadata=admin, timeout=20)
    seen = [
        (line.user, line.method.rpartition("/")[2], line.subject, line.code, line.reason)
        for line in listed.lines
    ]
    assert seen == [
        ("anonymous", "Login", "ole", "OK", ""),
        ("ole", "CreateCluster", "hello", "OK", ""),
        ("vic", "CreateCluster", "", "PERMISSION_DENIED", "FORBIDDEN"),
        ("anonymous", "Login", "ole", "UNAUTHENTICATED", "SIGN_IN_FAILED"),
    ]
    created = listed.lines[1]
    assert (created.operation, created.request_id) == (operation, "my-key")
    assert created.source in ("127.0.0.1", "::1")
    found = await caller.operations.Get(
        operations_pb2.GetOperationRequest(name=operation), metadata=admin, timeout=20
    )
    assert found.requester == "ole"
    verdict = await entry.audit.Verify(ours.VerifyAuditRequest(), metadata=admin, timeout=20)
    assert (verdict.lines, verdict.broken) == (5, 0)  # the cluster's has two
    for number, chain, lost in ((5, verdict.chain, 0), (4, verdict.chain, 4), (6, "0" * 64, 6)):
        seen_before = ours.VerifyAuditRequest(number=number, chain=chain)
        again = await entry.audit.Verify(seen_before, metadata=admin, timeout=20)
        assert (again.broken, again.lost) == (0, lost)
    half = await refused(
        entry.audit.Verify(ours.VerifyAuditRequest(number=5), metadata=admin, timeout=20)
    )
    assert half.fields == ["number"]
    path = "/api/v1/cluster/list"
    assert (await http.get(path)).status_code == 401
    assert (await http.get(path, headers=dict(bearer(token)))).status_code == 200
    assert (await http.get(path, headers=dict(bearer(tokens["dev"])))).status_code == 403
